// SPDX-License-Identifier: Apache-2.0
#include "host/optim/optimizer_driver.hpp"

#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>

#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {
namespace {

// p -= lr * g, and a slot that counts: slot += 1 for each element of a piece.
struct TestOptimizer {
  uint32_t needs = TENON_OPTIMIZER_ELEMENTWISE;
  std::vector<std::vector<double>> steps;  // of each call: the counters of its pieces
  std::vector<std::vector<int64_t>> sizes;
  std::vector<double> found;  // of each call: found_inf, where there is one

  static tenon_status* describe(void* self, tenon_optimizer_info* out) {
    static const tenon_slot_spec slot = {
        sizeof(tenon_slot_spec), "count", TENON_SLOT_LIKE_PARAMETER, TENON_F32, 0};
    out->needs = static_cast<TestOptimizer*>(self)->needs;
    out->slots_ref = &slot;
    out->num_slots = 1;
    return nullptr;
  }
  static tenon_status* update(void* self, const tenon_exec*, const tenon_update_args* args) {
    auto& test = *static_cast<TestOptimizer*>(self);
    test.steps.emplace_back();
    test.sizes.emplace_back();
    if (args->found_inf != nullptr) {
      test.found.push_back(tensor_of(args->found_inf).item<double>());
    }
    for (size_t i = 0; i < args->num_pieces; ++i) {
      at::Tensor p = tensor_of(args->parameters[i]);
      p.sub_(tensor_of(args->grads[i]) * tensor_of(args->lr).item<double>());
      tensor_of(args->slots[i]).add_(1);
      test.steps.back().push_back(tensor_of(args->steps[i]).item<double>());
      test.sizes.back().push_back(p.numel());
    }
    return nullptr;
  }
  OptimizerProxy proxy() {
    static const tenon_optimizer table = {sizeof(tenon_optimizer), &describe, &update};
    return OptimizerProxy(made_instance("optimizer", TENON_OPTIMIZER_ID, &table, this));
  }
};

std::vector<FlatGroup> three_parameters() {
  std::vector<FlatGroup> groups;
  groups.emplace_back(
      "block",
      at::kFloat,
      at::kCPU,
      std::vector<FlatParameter>{{.id = 0, .partition = 0, .shape = {16}, .name = "p0"},
                                 {.id = 1, .partition = 0, .shape = {16}, .name = "p1"},
                                 {.id = 2, .partition = 0, .shape = {16}, .name = "p2"}});
  return groups;
}

std::vector<OptimizedPartition> one(TestOptimizer& test, double lr) {
  std::vector<OptimizedPartition> partitions;
  partitions.push_back({test.proxy(), lr});
  return partitions;
}

}  // namespace

TEST_CASE("one optimizer gets one piece a flat group, with the scheduled rate", "[optim]") {
  TestOptimizer test;
  auto groups = three_parameters();
  OptimizerDriver driver(one(test, 0.5), groups, ExecBase{});
  for (size_t e = 0; e < 3; ++e) {
    groups[0].add_grad(e, at::ones({16}));
  }
  driver.update(0.1, {1, 0, true});
  CHECK(test.sizes == std::vector<std::vector<int64_t>>{{48}});
  CHECK(at::allclose(groups[0].data(), at::full({48}, -0.05)));
  CHECK(driver.lr(0.1) == Approx(0.05));
}

TEST_CASE("a parameter without a gradient is not touched, and keeps a counter of its own",
          "[optim]") {
  TestOptimizer test;
  auto groups = three_parameters();
  OptimizerDriver driver(one(test, 1), groups, ExecBase{});
  const auto step = [&](std::vector<size_t> has_grad) {
    for (const size_t e : has_grad) {
      groups[0].add_grad(e, at::ones({16}));
    }
    driver.update(1, {1, 0, true});
    groups[0].clear_grads();
  };
  step({0, 1, 2});
  step({0, 2});
  step({0, 1, 2});
  CHECK(test.steps == std::vector<std::vector<double>>{{1}, {2, 2}, {3, 2, 3}});
  CHECK(groups[0].data()[0].item<float>() == -3);
  CHECK(groups[0].data()[16].item<float>() == -2);
  CHECK(groups[0].data()[32].item<float>() == -3);
}

TEST_CASE("slots, counters and cuts are gone on with from a state", "[optim]") {
  const auto step = [](OptimizerDriver& driver,
                       std::vector<FlatGroup>& groups,
                       const std::vector<size_t>& has_grad) {
    for (const size_t e : has_grad) {
      groups[0].add_grad(e, at::ones({16}));
    }
    driver.update(1, {1, 0, true});
    groups[0].clear_grads();
  };
  TestOptimizer first;
  auto groups = three_parameters();
  OptimizerDriver driver(one(first, 1), groups, ExecBase{});
  step(driver, groups, {0, 1, 2});
  step(driver, groups, {0, 2});
  step(driver, groups, {1});  // as many updates for all by now, and still three pieces
  StateTree tree;
  driver.snapshot(tree, "optimizer");
  CHECK(tree.get_int("optimizer/updates/p1") == 2);
  CHECK(tree.get_int("optimizer/starts/p1") == 1);
  CHECK(tree.get_tensor("optimizer/slots/count/p1").equal(at::full({16}, 2.0F)));

  TestOptimizer second;
  auto others = three_parameters();
  OptimizerDriver resumed(one(second, 1), others, ExecBase{});
  resumed.load(tree, "optimizer");
  StateTree again;
  resumed.snapshot(again, "optimizer");
  CHECK(tree == again);
  step(resumed, others, {0, 1, 2});
  CHECK(second.sizes == std::vector<std::vector<int64_t>>{{16, 16, 16}});
  CHECK(second.steps == std::vector<std::vector<double>>{{3, 3, 3}});
}

TEST_CASE("an update that the device finds not finite advances no counter", "[optim]") {
  TestOptimizer test;
  auto groups = three_parameters();
  OptimizerDriver driver(one(test, 1), groups, ExecBase{});
  for (const float found : {0.0F, 1.0F, 0.0F}) {
    for (size_t e = 0; e < 3; ++e) {
      groups[0].add_grad(e, at::ones({16}));
    }
    driver.update(1, {1, 0, true}, at::scalar_tensor(found, at::kFloat));
    groups[0].clear_grads();
  }
  CHECK(test.steps == std::vector<std::vector<double>>{{1}, {1}, {2}});
  CHECK(test.found == std::vector<double>{0, 1, 0});
}

TEST_CASE("an optimizer of matrices gets whole parameters in their shapes", "[optim]") {
  TestOptimizer test;
  test.needs = TENON_OPTIMIZER_MATRIX;
  auto groups = three_parameters();
  OptimizerDriver driver(one(test, 1), groups, ExecBase{});
  for (size_t e = 0; e < 3; ++e) {
    groups[0].add_grad(e, at::ones({16}));
  }
  driver.update(1, {1, 0, true});
  CHECK(test.sizes == std::vector<std::vector<int64_t>>{{16, 16, 16}});
}

}  // namespace tenon
