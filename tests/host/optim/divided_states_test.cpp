// SPDX-License-Identifier: Apache-2.0
//
// Optimizers on ranks that have parts of parameters, against one rank that has all.
#include "host/optim/optimizer_driver.hpp"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/optim/momentum_optimizer.hpp"
#include "tests/host/tensor/joined_state.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// How ranks divide the parameters below, and in how many slices they keep each part.
struct Division {
  int64_t tensor = 1;
  int64_t slices = 1;
};

// Returns the boxes that tensor rank r has of: 12 rows, 12 columns, a matrix of three parts, and a
// vector that all have.
std::vector<FlatParameter> divided(const Division& division, int64_t r, bool is_whole) {
  const int64_t t = division.tensor;
  const int64_t n = 12 / t;
  std::vector<FlatParameter> parameters = {
      {.id = 0, .shape = {12, 16}, .name = "rows", .block = 16},
      {.id = 1, .shape = {32, 12}, .name = "columns", .block = 16},
      {.id = 2, .shape = {36, 16}, .name = "fused", .block = 16},
      {.id = 3, .shape = {7}, .name = "vector", .block = 16}};
  if (t > 1 && !is_whole) {
    parameters[0].box = Box{.start = {r * n, 0}, .size = {n, 16}};
    parameters[1].box = Box{.start = {0, r * n}, .size = {32, n}};
    parameters[2].box = box_of_ranges({36, 16}, 0, {{r * n, n}, {12 + r * n, n}, {24 + r * n, n}});
  }
  return parameters;
}

// One rank of a division, after some steps from given values.
class DividedRank {
 public:
  DividedRank(const Division& division, int64_t rank, uint32_t needs, int64_t block)
      : test_(needs, block) {
    const bool is_whole = needs == TENON_OPTIMIZER_MATRIX;
    const int64_t slices = is_whole ? 1 : division.slices;
    std::vector<FlatParameter> parameters = divided(division, rank % division.tensor, is_whole);
    if (block > 1) {  // the blocks of columns would be cut
      parameters.erase(parameters.begin() + 1);
    }
    groups_.emplace_back(
        "block",
        at::kFloat,
        at::kCPU,
        std::move(parameters),
        std::nullopt,
        FlatSharing{.num_slices = slices, .slice = rank / division.tensor % slices});
    driver_.emplace(test_.partitions(), groups_, ExecBase{});
  }
  DividedRank(const DividedRank&) = delete;
  DividedRank& operator=(const DividedRank&) = delete;

  void step(int number) {
    FlatGroup& group = groups_[0];
    for (size_t e = 0; e < group.entries().size(); ++e) {
      const FlatPart& part = group.part(e);
      const std::vector<int64_t>& shape = group.entries()[e].parameter.shape;
      const int64_t numel = c10::multiply_integers(shape);
      // Small integers, so that sums are exact in any order.
      const at::Tensor whole = at::arange(numel, at::kFloat).add(7 * number).fmod(5).view(shape);
      group.grad_view(e).copy_(values_of(part.piece, whole).view(group.grad_view(e).sizes()));
      group.entries()[e].has_grad = e != 0 || number != 2;
    }
    driver_->update(1, {1, 0, true});
    group.clear_grads();
  }
  StateTree state() const {
    StateTree tree;
    driver_->snapshot(tree, "optimizer");
    for (size_t e = 0; e < groups_[0].entries().size(); ++e) {
      const FlatPart& part = groups_[0].part(e);
      if (part.length() > 0) {
        tree.put_part("values/" + groups_[0].entries()[e].parameter.name,
                      groups_[0].data_view(e),
                      {.piece = part.piece},
                      StateTree::Copy::kYes);
      }
    }
    return tree;
  }
  void load(const StateTree& tree) {
    driver_->load(tree, "optimizer");
    for (size_t e = 0; e < groups_[0].entries().size(); ++e) {
      if (groups_[0].part(e).length() > 0) {
        tree.copy_tensor("values/" + groups_[0].entries()[e].parameter.name,
                         groups_[0].data_view(e),
                         groups_[0].part(e).piece);
      }
    }
  }

 private:
  MomentumOptimizer test_;
  std::vector<FlatGroup> groups_;
  std::optional<OptimizerDriver> driver_;
};

using Ranks = std::vector<std::unique_ptr<DividedRank>>;

Ranks ranks_of(const Division& division, uint32_t needs, int64_t block) {
  Ranks ranks;
  for (int64_t rank = 0; rank < division.tensor * division.slices; ++rank) {
    ranks.push_back(std::make_unique<DividedRank>(division, rank, needs, block));
  }
  return ranks;
}

StateTree state_of(const Ranks& ranks) {
  std::vector<StateTree> trees;
  for (const auto& rank : ranks) {
    trees.push_back(rank->state());
  }
  return joined_state(trees);
}

void check_divisions(uint32_t needs, int64_t block) {
  std::vector<Division> divisions;
  for (const int64_t tensor : {1, 2, 3, 4}) {
    for (const int64_t slices : {1, 2, 3}) {
      divisions.push_back({tensor, slices});
    }
  }
  const auto run = [](const Ranks& ranks, std::initializer_list<int> steps) {
    for (const auto& rank : ranks) {
      for (const int number : steps) {
        rank->step(number);
      }
    }
  };
  const Ranks alone = ranks_of({}, needs, block);
  run(alone, {1, 2});
  const StateTree middle = state_of(alone);
  run(alone, {3});
  const StateTree wanted = state_of(alone);
  for (const Division& from : divisions) {
    const Ranks ranks = ranks_of(from, needs, block);
    run(ranks, {1, 2});
    const StateTree saved = state_of(ranks);
    INFO("tensor " << from.tensor << ", slices " << from.slices);
    CHECK(state_difference(saved, middle) == "");
    for (const Division& to : divisions) {
      INFO("to tensor " << to.tensor << ", slices " << to.slices);
      const Ranks others = ranks_of(to, needs, block);
      for (const auto& rank : others) {
        rank->load(saved);
      }
      CHECK(state_difference(state_of(others), middle) == "");
      run(others, {3});
      CHECK(state_difference(state_of(others), wanted) == "");
    }
  }
}

}  // namespace

TEST_CASE("optimizer states of parts are those of one rank, and loaded by any division",
          "[optim]") {
  check_divisions(TENON_OPTIMIZER_ELEMENTWISE, 1);
}

TEST_CASE("states by block are saved by block, if parts cut none", "[optim]") {
  check_divisions(TENON_OPTIMIZER_ELEMENTWISE, 16);
}

TEST_CASE("an optimizer of matrices has whole states on each rank", "[optim]") {
  check_divisions(TENON_OPTIMIZER_MATRIX, 0);
}

TEST_CASE("a rank rolls back its scalars, also those that another rank saves", "[optim]") {
  for (const int64_t rank : {0, 1, 2, 3}) {
    DividedRank there({.tensor = 2, .slices = 2}, rank, TENON_OPTIMIZER_ELEMENTWISE, 16);
    there.step(1);
    const StateTree kept = there.state();
    there.step(3);
    CHECK_FALSE(there.state() == kept);
    there.load(kept);
    CHECK(there.state() == kept);
  }
}

TEST_CASE("parameters that become neighbors share a piece only after the same updates", "[optim]") {
  const auto groups_of = [](const std::vector<std::string>& names) {
    std::vector<FlatParameter> parameters;
    for (const std::string& name : names) {
      parameters.push_back({.id = 0, .shape = {16}, .name = name});
    }
    std::vector<FlatGroup> groups;
    groups.emplace_back("block", at::kFloat, at::kCPU, std::move(parameters));
    return groups;
  };
  const auto step = [](OptimizerDriver& driver,
                       std::vector<FlatGroup>& groups,
                       const std::vector<size_t>& has_grad) {
    for (const size_t e : has_grad) {
      groups[0].add_grad(e, at::ones({16}));
    }
    driver.update(1, {1, 0, true});
    groups[0].clear_grads();
  };
  MomentumOptimizer test(TENON_OPTIMIZER_ELEMENTWISE, 1);
  std::vector<FlatGroup> groups = groups_of({"a", "b", "c", "d"});
  OptimizerDriver driver(test.partitions(), groups, ExecBase{});
  step(driver, groups, {0, 1, 2, 3});
  step(driver, groups, {1, 2, 3});
  StateTree tree;
  driver.snapshot(tree, "optimizer");
  CHECK(tree.get_int("optimizer/starts/c") == 0);

  MomentumOptimizer other(TENON_OPTIMIZER_ELEMENTWISE, 1);
  std::vector<FlatGroup> others = groups_of({"a", "c", "d"});
  OptimizerDriver resumed(other.partitions(), others, ExecBase{});
  resumed.load(tree, "optimizer");
  step(resumed, others, {0, 1, 2});
  StateTree after;
  resumed.snapshot(after, "optimizer");
  CHECK(after.get_int("optimizer/updates/a") == 2);
  CHECK(after.get_int("optimizer/updates/c") == 3);
  CHECK(after.get_int("optimizer/updates/d") == 3);
  CHECK(after.get_int("optimizer/starts/c") == 1);
  CHECK(after.get_int("optimizer/starts/d") == 0);
  CHECK(after.get_tensor("optimizer/slots/count/a").item<float>() == 2);
  CHECK(after.get_tensor("optimizer/slots/count/d").item<float>() == 3);
}

}  // namespace tenon
