// SPDX-License-Identifier: Apache-2.0
#include "host/optim/optimizer_driver.hpp"

#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>

#include <optional>
#include <utility>
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
    static const tenon_optimizer table = {sizeof(tenon_optimizer), &describe, &update, nullptr};
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

namespace {

// Slots of all shapes that a granularity allows; each update adds the number of elements of the
// slot to it, and evaluation values are the parameters plus 100.
struct SlotOptimizer {
  explicit SlotOptimizer(uint32_t granularity, int64_t elements)
      : needs(granularity), block(elements) {
    const auto add = [this](const char* name, uint32_t shape) {
      slots.push_back({sizeof(tenon_slot_spec), name, shape, TENON_F32, 0});
    };
    add("like", TENON_SLOT_LIKE_PARAMETER);
    add("one", TENON_SLOT_SCALAR);
    if (needs == TENON_OPTIMIZER_MATRIX) {
      add("rows", TENON_SLOT_ROWS);
      add("columns", TENON_SLOT_COLUMNS);
    } else {
      add("blocks", TENON_SLOT_BLOCKWISE);
    }
  }

  static tenon_status* describe(void* self, tenon_optimizer_info* out) {
    auto& test = *static_cast<SlotOptimizer*>(self);
    out->needs = test.needs;
    out->block = test.block;
    out->slots_ref = test.slots.data();
    out->num_slots = test.slots.size();
    return nullptr;
  }
  static tenon_status* update(void* self, const tenon_exec*, const tenon_update_args* args) {
    auto& test = *static_cast<SlotOptimizer*>(self);
    for (size_t s = 0; s < test.slots.size(); ++s) {
      for (size_t i = 0; i < args->num_pieces; ++i) {
        const at::Tensor slot = tensor_of(args->slots[s * args->num_pieces + i]);
        test.shapes.push_back(slot.sizes().vec());
        slot.add_(at::arange(slot.numel()).view(slot.sizes()));
      }
    }
    return nullptr;
  }
  static tenon_status* evaluation_values(void*,
                                         const tenon_exec*,
                                         const tenon_evaluation_values_args* args) {
    for (size_t i = 0; i < args->num_pieces; ++i) {
      tensor_of(args->parameters[i]).add_(100);
    }
    return nullptr;
  }
  std::vector<OptimizedPartition> partitions() {
    static const tenon_optimizer table = {
        sizeof(tenon_optimizer), &describe, &update, &evaluation_values};
    std::vector<OptimizedPartition> all;
    all.push_back(
        {OptimizerProxy(made_instance("optimizer", TENON_OPTIMIZER_ID, &table, this)), 1});
    return all;
  }

  uint32_t needs;
  int64_t block;
  std::vector<tenon_slot_spec> slots;
  std::vector<std::vector<int64_t>> shapes;  // of the slots of all updates
};

// A matrix of 100 elements, a vector of 7, in blocks of 32, in one of `num_slices` slices.
std::vector<FlatGroup> blocked_parameters(int64_t num_slices, int64_t slice) {
  std::vector<FlatGroup> groups;
  groups.emplace_back(
      "block",
      at::kFloat,
      at::kCPU,
      std::vector<FlatParameter>{{.id = 0, .shape = {10, 10}, .name = "matrix", .block = 32},
                                 {.id = 1, .shape = {7}, .name = "vector", .block = 32}},
      std::nullopt,
      FlatSharing{.num_slices = num_slices, .slice = slice});
  return groups;
}

void give_gradients(std::vector<FlatGroup>& groups) {
  for (size_t e = 0; e < groups[0].entries().size(); ++e) {
    groups[0].add_grad(e, at::ones(groups[0].entries()[e].parameter.shape));
  }
}

}  // namespace

TEST_CASE("parameters and slices start at multiples of a block", "[optim]") {
  const auto groups = blocked_parameters(2, 0);
  CHECK(groups[0].entries()[1].offset == 128);  // 100 elements fill 4 blocks
  CHECK(groups[0].numel() == 192);              // 5 blocks, in two equal slices
  CHECK(groups[0].slice_numel() == 96);
}

TEST_CASE("slots by block have a value per block, and are cut and saved with their parameters",
          "[optim]") {
  SlotOptimizer test(TENON_OPTIMIZER_ELEMENTWISE, 32);
  auto groups = blocked_parameters(1, 0);
  OptimizerDriver driver(test.partitions(), groups, ExecBase{});
  give_gradients(groups);
  driver.update(1, {1, 0, true});
  CHECK(test.shapes == std::vector<std::vector<int64_t>>{{160}, {}, {5}});
  groups[0].clear_grads();
  groups[0].add_grad(0, at::ones({10, 10}));
  test.shapes.clear();
  driver.update(1, {2, 0, true});
  CHECK(test.shapes == std::vector<std::vector<int64_t>>{{128}, {}, {4}});
  StateTree tree;
  driver.snapshot(tree, "optimizer");
  CHECK(
      tree.get_tensor("optimizer/slots/blocks/matrix").equal(at::tensor({0.0F, 2.0F, 4.0F, 6.0F})));
  CHECK(tree.get_tensor("optimizer/slots/blocks/vector").equal(at::tensor({4.0F})));
  CHECK(tree.get_tensor("optimizer/slots/like/matrix").sizes() == at::IntArrayRef{10, 10});

  SlotOptimizer other(TENON_OPTIMIZER_ELEMENTWISE, 32);
  auto others = blocked_parameters(1, 0);
  OptimizerDriver resumed(other.partitions(), others, ExecBase{});
  resumed.load(tree, "optimizer");
  StateTree again;
  resumed.snapshot(again, "optimizer");
  CHECK(tree == again);
}

TEST_CASE("two slices hold the blocks of a parameter between them", "[optim]") {
  for (const int64_t slice : {0, 1}) {
    CAPTURE(slice);
    SlotOptimizer test(TENON_OPTIMIZER_ELEMENTWISE, 32);
    auto groups = blocked_parameters(2, slice);
    OptimizerDriver driver(test.partitions(), groups, ExecBase{});
    give_gradients(groups);
    driver.update(1, {1, 0, true});
    StateTree tree;
    driver.snapshot(tree, "optimizer");
    const StateEntry* const entry = tree.find("optimizer/slots/blocks/matrix");
    REQUIRE(entry != nullptr);
    REQUIRE(entry->piece.has_value());
    CHECK(entry->piece->shape() == std::vector<int64_t>{4});
    CHECK(entry->piece->first() == (slice == 0 ? 0 : 3));
    CHECK(std::get<at::Tensor>(entry->value).numel() == (slice == 0 ? 3 : 1));
    CHECK((tree.find("optimizer/slots/blocks/vector") != nullptr) == (slice == 1));
  }
}

TEST_CASE("matrices have slots of rows and columns, vectors one value and their own shape",
          "[optim]") {
  SlotOptimizer test(TENON_OPTIMIZER_MATRIX, 0);
  std::vector<FlatGroup> groups;
  groups.emplace_back("block",
                      at::kFloat,
                      at::kCPU,
                      std::vector<FlatParameter>{{.id = 0, .shape = {2, 3, 4}, .name = "stack"},
                                                 {.id = 1, .shape = {7}, .name = "vector"}});
  OptimizerDriver driver(test.partitions(), groups, ExecBase{});
  give_gradients(groups);
  driver.update(1, {1, 0, true});
  CHECK(test.shapes ==
        std::vector<std::vector<int64_t>>{{2, 3, 4}, {7}, {}, {}, {2, 3}, {}, {2, 4}, {7}});
  StateTree tree;
  driver.snapshot(tree, "optimizer");
  CHECK(tree.get_tensor("optimizer/slots/columns/stack").sizes() == at::IntArrayRef{2, 4});
  CHECK(tree.get_tensor("optimizer/slots/rows/vector").dim() == 0);
  SlotOptimizer other(TENON_OPTIMIZER_MATRIX, 0);
  OptimizerDriver resumed(other.partitions(), groups, ExecBase{});
  resumed.load(tree, "optimizer");
  StateTree again;
  resumed.snapshot(again, "optimizer");
  CHECK(tree == again);
}

TEST_CASE("values of evaluation are used, and those of training restored bit for bit", "[optim]") {
  SlotOptimizer test(TENON_OPTIMIZER_ELEMENTWISE, 32);
  auto groups = blocked_parameters(1, 0);
  OptimizerDriver driver(test.partitions(), groups, ExecBase{});
  CHECK(driver.has_evaluation_values());
  groups[0].data_view(0).fill_(1e-3);
  const at::Tensor before = groups[0].data().clone();
  driver.use_evaluation_values({1, 0, false});
  CHECK(groups[0].data_view(0)[0][0].item<float>() == Approx(100.001));
  driver.use_training_values();
  CHECK(groups[0].data().equal(before));
}

TEST_CASE("one group is updated by itself", "[optim]") {
  TestOptimizer test;
  auto groups = three_parameters();
  groups.push_back(std::move(three_parameters()[0]));
  OptimizerDriver driver(one(test, 1), groups, ExecBase{});
  groups[1].add_grad(0, at::ones({16}));
  groups[0].add_grad(1, at::ones({16}));  // so far: its backward has not finished
  driver.update_group(1, 1, {1, 0, true});
  CHECK(test.sizes == std::vector<std::vector<int64_t>>{{16}});
  CHECK(groups[1].data()[0].item<float>() == -1);
  CHECK(groups[0].data().abs().max().item<float>() == 0);
  for (const size_t e : {0, 2}) {
    groups[0].add_grad(e, at::ones({16}));
  }
  driver.update_group(0, 1, {1, 0, true});
  CHECK(test.sizes == std::vector<std::vector<int64_t>>{{16}, {48}});  // not cut
  CHECK(test.steps == std::vector<std::vector<double>>{{1}, {1}});
}

TEST_CASE("a gradient that is freed has memory only until its release", "[optim]") {
  FlatGroup group("block",
                  at::kFloat,
                  at::kCPU,
                  {{.id = 0, .shape = {20}, .name = "a"}, {.id = 1, .shape = {5}, .name = "b"}},
                  std::nullopt,
                  FlatSharing{.frees_gradients = true});
  for (int step = 0; step < 2; ++step) {
    CHECK(group.grad().storage().nbytes() == 0);
    group.add_grad(1, at::full({5}, 2.0F));
    group.add_grad(1, at::full({5}, 1.0F));
    group.resolve_grads();
    CHECK(group.grad().sum().item<float>() == 15);  // gaps and the other parameter are 0
    CHECK(group.grad_view(1).equal(at::full({5}, 3.0F)));
    group.release_grads();
    CHECK(group.any_has_grad());
    group.clear_grads();
  }
}

}  // namespace tenon
