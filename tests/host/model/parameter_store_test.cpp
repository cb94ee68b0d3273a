// SPDX-License-Identifier: Apache-2.0
//
// Parameters of tensor ranks, which store their part or the whole, against one rank that has all.
#include "host/model/parameter_store.hpp"

#include "host/distributed/ranks/rank_role.hpp"
#include "host/model/parameter_memory.hpp"
#include "host/plugin/model_proxy.hpp"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/host/tensor/joined_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {
namespace {

using Indices = std::vector<int64_t>;

// How a parameter is divided, element by element along an axis.
struct DividedParameter {
  int64_t axis = 0;
  std::vector<Indices> of_rank = {};  // indices along the axis
  uint32_t num_copies = 1;
  bool is_stored_whole = false;
};

Indices indices(int64_t begin, int64_t size) {
  Indices result;
  for (int64_t i = 0; i < size; ++i) {
    result.push_back(begin + i);
  }
  return result;
}

Indices joined(Indices a, const Indices& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<std::vector<int64_t>>& shapes() {
  static const std::vector<std::vector<int64_t>> kShapes = {
      {12, 5}, {7, 12}, {36, 3}, {5}, {8, 4}, {24, 4}, {3, 12}, {12, 4}};
  return kShapes;
}

// By parameter p0, ...: rows, columns, a matrix of three parts, a vector that all have, rows of
// half as many units as ranks, a matrix whose keys have half as many units as ranks, and columns
// and rows that each rank stores whole.
std::vector<std::optional<DividedParameter>> divisions(int64_t t) {
  const int64_t n = 12 / t;
  std::vector<std::optional<DividedParameter>> all(8);
  if (t == 1) {
    return all;
  }
  const auto ranks = static_cast<uint32_t>(t);
  all[0] = {.axis = 0};
  all[1] = {.axis = 1};
  all[2] = {.axis = 0};
  all[6] = {.axis = 1, .num_copies = ranks, .is_stored_whole = true};
  all[7] = {.axis = 0, .num_copies = ranks, .is_stored_whole = true};
  if (t % 2 == 0 && t > 2) {
    all[4] = {.axis = 0, .num_copies = 2};
    all[5] = {.axis = 0, .num_copies = ranks, .is_stored_whole = true};
  }
  for (int64_t r = 0; r < t; ++r) {
    for (const size_t p : {0, 1, 6, 7}) {
      all[p]->of_rank.push_back(indices(r * n, n));
    }
    all[2]->of_rank.push_back(
        joined(joined(indices(r * n, n), indices(12 + r * n, n)), indices(24 + r * n, n)));
    if (all[4].has_value()) {
      const int64_t unit = r / 2;
      const int64_t units = t / 2;
      all[4]->of_rank.push_back(indices(unit * 8 / units, 8 / units));
      all[5]->of_rank.push_back(joined(indices(r * 16 / t, 16 / t), indices(16 + unit * 4, 4)));
    }
  }
  return all;
}

at::Tensor chosen(const at::Tensor& whole,
                  const std::optional<DividedParameter>& division,
                  int64_t rank) {
  return division.has_value()
             ? whole.index_select(division->axis,
                                  at::tensor(division->of_rank[static_cast<size_t>(rank)]))
             : whole;
}

TestModel eight_parameters(bool is_materialized) {
  TestModel model;
  model.inputs = {"x"};
  model.num_values = 2;
  model.parameters = shapes();
  std::vector<uint32_t> all;
  for (uint32_t p = 0; p < shapes().size(); ++p) {
    all.push_back(p);
    if (is_materialized) {
      model.leaves.push_back(at::arange(c10::multiply_integers(shapes()[p]), at::kFloat)
                                 .mul(0.25 * (p + 1))
                                 .view(shapes()[p]));
    }
  }
  model.blocks = {{{0}, {1}, all, is_materialized ? uint32_t{TENON_BLOCK_MATERIALIZED} : 0, {}}};
  return model;
}

struct Place {
  int64_t tensor = 1;
  int64_t rank = 0;
  int64_t num_slices = 1;
  int64_t slice = 0;
};

class DividedStore {
 public:
  explicit DividedStore(const Place& at,
                        bool is_materialized = false,
                        std::optional<at::ScalarType> seen = {})
      : place_(at),
        test_(eight_parameters(is_materialized)),
        proxy_(made_instance("model", TENON_MODEL_ID, test_.table(), &test_)),
        graph_(describe_model(proxy_)) {
    const auto all = divisions(at.tensor);
    for (size_t p = 0; p < all.size(); ++p) {
      ModelParameter& parameter = graph_.parameters[p];
      parameter.num_copies = static_cast<uint32_t>(at.tensor);
      if (all[p].has_value()) {
        std::vector<IndexRange> ranges;
        for (const int64_t i : all[p]->of_rank[static_cast<size_t>(at.rank)]) {
          ranges.push_back({i, 1});
        }
        parameter.part =
            box_of_ranges(parameter.shape, static_cast<size_t>(all[p]->axis), std::move(ranges));
        parameter.is_stored_whole = all[p]->is_stored_whole;
        parameter.num_copies = all[p]->num_copies;
      }
    }
    layout_.seen_dtype = seen;
    layout_.sharing = {.num_slices = at.num_slices, .slice = at.slice};
    layout_.role = RankRole(Mesh({.shard = at.num_slices, .tensor = at.tensor},
                                 static_cast<uint32_t>(at.num_slices * at.tensor),
                                 static_cast<uint32_t>(at.slice * at.tensor + at.rank)));
    store_.emplace(graph_, layout_);
    const ExecFrame frame(proxy_.instance().host(), ExecBase{});
    store_->initialise(proxy_, frame.exec(), 7);
  }
  DividedStore(const DividedStore&) = delete;
  DividedStore& operator=(const DividedStore&) = delete;

  ParameterStore& store() { return *store_; }
  const ModelGraph& graph() const { return graph_; }
  const ParameterLayout& layout() const { return layout_; }
  FlatGroup& group_of(uint32_t p) { return store_->groups()[store_->position(p).group]; }
  const FlatPart& part_of(uint32_t p) { return group_of(p).part(store_->position(p).entry); }
  at::Tensor stored(uint32_t p) {
    const FlatPart& part = part_of(p);
    return group_of(p).data().narrow(0, part.in_slice, part.length());
  }

 private:
  Place place_;
  TestModel test_;
  ModelProxy proxy_;
  ModelGraph graph_;
  ParameterLayout layout_;
  std::optional<ParameterStore> store_;
};

// Calls take(tensor, num_slices).
template <class Take>
void each_mesh(Take take) {
  for (const int64_t tensor : {1, 2, 3, 4}) {
    for (const int64_t num_slices : {1, 2, 3}) {
      INFO("tensor " << tensor << ", " << num_slices << " slices");
      take(tensor, num_slices);
    }
  }
}

template <class Take>
void each_rank(int64_t tensor, int64_t num_slices, Take take) {
  for (int64_t slice = 0; slice < num_slices; ++slice) {
    for (int64_t rank = 0; rank < tensor; ++rank) {
      INFO("tensor rank " << rank << ", slice " << slice);
      take(Place{tensor, rank, num_slices, slice});
    }
  }
}

template <class Take>
void each_place(Take take) {
  each_mesh([&](int64_t tensor, int64_t num_slices) { each_rank(tensor, num_slices, take); });
}

constexpr uint32_t kNumParameters = 8;

}  // namespace

TEST_CASE("initial values of parts are those of the whole", "[model]") {
  for (const bool is_materialized : {false, true}) {
    DividedStore whole({}, is_materialized);
    each_place([&](const Place& at) {
      DividedStore part(at, is_materialized);
      const auto all = divisions(at.tensor);
      for (uint32_t p = 0; p < kNumParameters; ++p) {
        INFO("p" << p);
        const at::Tensor value = whole.group_of(p).data_view(whole.store().position(p).entry);
        const auto& division = all[p];
        const bool is_part = division.has_value() && !division->is_stored_whole;
        const at::Tensor of_rank = (is_part ? chosen(value, division, at.rank) : value).reshape(-1);
        const FlatPart& here = part.part_of(p);
        CHECK(part.stored(p).equal(of_rank.narrow(0, here.piece.first(), here.length())));
        CHECK(part.store().leaf(p).sizes() == chosen(value, division, at.rank).sizes());
        if (at.num_slices == 1) {
          CHECK(part.store().leaf(p).equal(chosen(value, division, at.rank)));
        }
      }
    });
  }
}

TEST_CASE("blocks see the part of a whole that is stored, after each change", "[model]") {
  for (const std::optional<at::ScalarType> seen :
       {std::optional<at::ScalarType>(), std::optional(at::kBFloat16)}) {
    DividedStore part({.tensor = 4, .rank = 2}, false, seen);
    const auto all = divisions(4);
    for (const int step : {1, 2}) {
      for (FlatGroup& group : part.store().groups()) {
        group.data().mul_(-1.5).add_(step);
      }
      part.store().publish();
      for (const uint32_t p : {4U, 5U, 6U, 7U}) {
        INFO("p" << p);
        const at::Tensor stored = part.stored(p);
        const at::Tensor value = all[p]->is_stored_whole
                                     ? chosen(stored.view(shapes()[p]), all[p], 2)
                                     : stored.view(part.store().leaf(p).sizes());
        CHECK(part.store().leaf(p).detach().equal(value.to(seen.value_or(at::kFloat))));
        CHECK(part.store().leaf(p).requires_grad());
      }
    }
  }
}

TEST_CASE("gradients of parts are added to their place", "[model]") {
  for (const int64_t tensor : {1, 2, 3, 4}) {
    const auto all = divisions(tensor);
    for (int64_t rank = 0; rank < tensor; ++rank) {
      DividedStore part({.tensor = tensor, .rank = rank});
      for (const int step : {1, 2}) {
        for (uint32_t p = 0; p < kNumParameters; ++p) {
          INFO("tensor " << rank << " of " << tensor << ", p" << p << ", step " << step);
          const at::Tensor leaf = part.store().leaf(p);
          const at::Tensor grad = at::arange(leaf.numel(), at::kFloat).add(step).view(leaf.sizes());
          part.store().add_grad(p, grad);
          part.store().add_grad(p, at::ones_like(grad));
          const at::Tensor sum = grad + 1;
          at::Tensor expected = sum;
          if (all[p].has_value() && all[p]->is_stored_whole) {
            expected =
                at::zeros(shapes()[p])
                    .index_add(
                        all[p]->axis, at::tensor(all[p]->of_rank[static_cast<size_t>(rank)]), sum);
          }
          const size_t entry = part.store().position(p).entry;
          CHECK(part.group_of(p).grad_view(entry).equal(expected));
          CHECK(part.group_of(p).entries()[entry].has_grad);
        }
        for (FlatGroup& group : part.store().groups()) {
          group.clear_grads();
        }
      }
    }
  }
}

TEST_CASE("parameters saved by any tensor ranks and slices are loaded by any others", "[model]") {
  StateTree wanted;
  DividedStore({}, true).store().snapshot(wanted, "parameters");
  wanted = joined_state({wanted});
  each_mesh([&](int64_t tensor, int64_t num_slices) {
    std::vector<StateTree> saved;
    each_rank(tensor, num_slices, [&](const Place& at) {
      DividedStore part(at, true);
      saved.emplace_back();
      part.store().snapshot(saved.back(), "parameters");
    });
    CHECK(joined_state(saved) == wanted);

    std::vector<StateTree> loaded;
    each_rank(tensor, num_slices, [&](const Place& at) {
      DividedStore part(at);
      part.store().load(wanted, "parameters");
      loaded.emplace_back();
      part.store().snapshot(loaded.back(), "parameters");
    });
    CHECK(joined_state(loaded) == wanted);
  });
}

TEST_CASE("the hash of wholes that are joined from parts is that of one rank", "[model]") {
  const std::string wanted = DividedStore({}, true).store().hash();
  std::vector<StateTree> saved;
  each_rank(4, 1, [&](const Place& at) {
    DividedStore part(at, true);
    saved.emplace_back();
    part.store().snapshot(saved.back(), "parameters");
  });
  const StateTree whole = joined_state(saved);
  DividedStore part({.tensor = 4, .rank = 1}, true);
  const std::string hash = part.store().hash([&](FlatGroup& group) {
    std::vector<at::Tensor> values;
    for (const FlatEntry& entry : group.entries()) {
      values.push_back(whole.get_tensor("parameters/values/" + entry.parameter.name));
    }
    return values;
  });
  CHECK(hash == wanted);
}

TEST_CASE("the memory of parts is counted as it is allocated", "[model]") {
  each_place([&](const Place& at) {
    DividedStore part(at);
    double parameters = 0;
    double gradients = 0;
    for (FlatGroup& group : part.store().groups()) {
      parameters += static_cast<double>(group.seen().nbytes());
      gradients += static_cast<double>(group.whole_grad().nbytes());
    }
    for (uint32_t p = 0; p < kNumParameters; ++p) {
      const at::Tensor leaf = part.store().leaf(p);
      parameters +=
          leaf.is_alias_of(part.group_of(p).seen()) ? 0.0 : static_cast<double>(leaf.nbytes());
    }
    const ParameterMemory memory =
        parameter_memory(part.graph(), part.layout(), [](uint32_t, at::ScalarType) { return 0.0; });
    CHECK(memory.on_device.parameters == parameters);
    CHECK(memory.on_device.gradients == gradients);
  });
}

namespace {

constexpr uint32_t kNumStages = 3;

// A model of three blocks with two parameters each, of which a rank has one block.
class StagedStore {
 public:
  // Without `stage`, this rank has all blocks.
  explicit StagedStore(std::optional<uint32_t> stage,
                       bool is_materialized = false,
                       const FlatSharing& sharing = {})
      : test_(three_blocks(is_materialized)),
        proxy_(made_instance("model", TENON_MODEL_ID, test_.table(), &test_)),
        graph_(describe_model(proxy_)) {
    for (uint32_t b = 0; stage.has_value() && b < kNumStages; ++b) {
      graph_.blocks[b].is_elsewhere = b != *stage;
      for (const uint32_t p : graph_.blocks[b].parameters) {
        graph_.parameters[p].holders = {b};
        graph_.parameters[p].is_elsewhere = b != *stage;
      }
    }
    layout_.sharing = sharing;
    layout_.seen_dtype = at::kBFloat16;
    store_.emplace(graph_, layout_);
    const ExecFrame frame(proxy_.instance().host(), ExecBase{});
    store_->initialise(proxy_, frame.exec(), 7);
  }
  StagedStore(const StagedStore&) = delete;
  StagedStore& operator=(const StagedStore&) = delete;

  ParameterStore& store() { return *store_; }
  FlatGroup& group_of(uint32_t p) { return store_->groups()[store_->position(p).group]; }
  at::Tensor stored(uint32_t p) { return group_of(p).data_view(store_->position(p).entry); }
  ParameterMemory memory() const {
    return parameter_memory(graph_, layout_, [](uint32_t, at::ScalarType) { return 8.0; });
  }

  static TestModel three_blocks(bool is_materialized) {
    TestModel model;
    model.inputs = {"x"};
    model.num_values = 1 + kNumStages;
    for (uint32_t b = 0; b < kNumStages; ++b) {
      model.parameters.insert(model.parameters.end(), {{20, 6}, {9}});
      model.blocks.push_back({{b},
                              {b + 1},
                              {2 * b, 2 * b + 1},
                              is_materialized ? uint32_t{TENON_BLOCK_MATERIALIZED} : 0,
                              {}});
    }
    if (is_materialized) {
      model.leaves = {at::arange(120, at::kFloat).view({20, 6}), at::arange(9, at::kFloat)};
    }
    return model;
  }

 private:
  TestModel test_;
  ModelProxy proxy_;
  ModelGraph graph_;
  ParameterLayout layout_;
  std::optional<ParameterStore> store_;
};

}  // namespace

TEST_CASE("a rank of a pipeline draws the values that one rank draws", "[model]") {
  StagedStore whole(std::nullopt);
  for (uint32_t stage = 0; stage < kNumStages; ++stage) {
    StagedStore staged(stage);
    for (uint32_t p = 0; p < 2 * kNumStages; ++p) {
      CAPTURE(stage, p);
      const bool is_here = p / 2 == stage;
      CHECK(staged.store().leaf(p).defined() == is_here);
      if (is_here) {
        CHECK(staged.stored(p).equal(whole.stored(p)));
        CHECK(staged.store().leaf(p).equal(whole.store().leaf(p)));
      } else {
        CHECK(staged.stored(p).numel() == 0);
      }
    }
  }
}

TEST_CASE("modules of other pipeline ranks are not built", "[model]") {
  for (uint32_t stage = 0; stage < kNumStages; ++stage) {
    StagedStore staged(stage, true);
    for (uint32_t p = 0; p < 2 * kNumStages; ++p) {
      CAPTURE(stage, p);
      const at::Tensor wanted =
          p % 2 == 0 ? at::arange(120, at::kFloat).view({20, 6}) : at::arange(9, at::kFloat);
      CHECK(staged.store().leaf(p).defined() == (p / 2 == stage));
      CHECK((p / 2 != stage || staged.stored(p).equal(wanted)));
    }
  }
}

TEST_CASE("the memory of parameters of other pipeline ranks is not counted", "[model]") {
  for (const FlatSharing& sharing : {FlatSharing{},
                                     FlatSharing{.num_slices = 2, .slice = 1},
                                     FlatSharing{.num_slices = 2, .keeps_parameters = false}}) {
    const StagedStore whole(std::nullopt, false, sharing);
    ParameterMemory sum;
    for (uint32_t stage = 0; stage < kNumStages; ++stage) {
      const ParameterMemory one = StagedStore(stage, false, sharing).memory();
      sum.on_device.parameters += one.on_device.parameters;
      sum.on_device.gradients += one.on_device.gradients;
      sum.on_device.optimizer += one.on_device.optimizer;
    }
    CHECK(sum.on_device.parameters == whole.memory().on_device.parameters);
    CHECK(sum.on_device.gradients == whole.memory().on_device.gradients);
    CHECK(sum.on_device.optimizer == whole.memory().on_device.optimizer);
    CHECK(sum.on_device.sum() > 0);
  }
}

TEST_CASE("ranks of a pipeline save and load their own parameters", "[model]") {
  StagedStore whole(std::nullopt);
  std::vector<StateTree> saved(kNumStages);
  for (uint32_t stage = 0; stage < kNumStages; ++stage) {
    StagedStore(stage).store().snapshot(saved[stage], "parameters");
  }
  const StateTree joined = joined_state(saved);
  StateTree wanted;
  whole.store().snapshot(wanted, "parameters");
  for (const auto& [name, entry] : wanted.entries()) {
    CAPTURE(name);
    CHECK(joined.get_tensor(name).equal(wanted.get_tensor(name)));
  }
  for (uint32_t stage = 0; stage < kNumStages; ++stage) {
    StagedStore staged(stage);
    for (FlatGroup& group : staged.store().groups()) {
      group.data().fill_(-1);
    }
    staged.store().load(joined, "parameters");
    StateTree again;
    staged.store().snapshot(again, "parameters");
    CHECK(again == saved[stage]);
    CHECK(again.entries().size() == 2);
  }
}

}  // namespace tenon
