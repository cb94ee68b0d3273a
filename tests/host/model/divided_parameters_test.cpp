// SPDX-License-Identifier: Apache-2.0
//
// Parameters that tensor ranks divide: their gradients, values and copies on thread ranks, against
// sums and cuts of whole tensors.
#include <tenon/draft/tensor.h>

#include "host/error/error.hpp"
#include "host/model/divided_graph.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/sharded_parameters.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

enum Named : uint32_t {
  kSplit,    // by rows
  kColumns,  // by columns, in units that two of four ranks share
  kFused,    // of parts with different numbers of copies: stored whole
  kShared,   // one unit, which all ranks have
  kInside,   // whole, used inside of the region
  kOutside,  // whole, used outside
  kMatrix,   // by rows, stored whole for its optimizer
  kFrozen,   // by rows, not trained
  kAlone,    // of a block that runs whole
  kTable,    // by rows, used by two blocks
  kNumNamed
};

// A block that all use, one that is undeclared, and one that shares the table.
ModelGraph divided_model(uint32_t tensor) {
  const int64_t few = tensor == 3 ? 3 : 2;
  ModelGraph graph;
  const auto add = [&](const char* name,
                       std::vector<int64_t> shape,
                       std::optional<ModelSplit> split,
                       std::vector<uint32_t> blocks,
                       uint32_t flags = 0) {
    ModelParameter made;
    made.name = name;
    made.shape = std::move(shape);
    made.dtype = TENON_CLASS_PARAM;
    made.flags = flags;
    made.blocks = std::move(blocks);
    made.split = std::move(split);
    graph.parameters.push_back(std::move(made));
  };
  add("split", {12, 5}, ModelSplit{0, {12}, {12}}, {0});
  add("columns", {3, 12}, ModelSplit{1, {12}, {few}}, {0});
  add("fused", {28, 3}, ModelSplit{0, {24, 2, 2}, {12, 1, 1}}, {0});
  add("shared", {6, 2}, ModelSplit{0, {6}, {1}}, {0});
  add("inside", {5}, {}, {0}, TENON_PARAM_INSIDE);
  add("outside", {7}, {}, {0});
  add("matrix", {24, 4}, ModelSplit{0, {24}, {12}}, {0});
  add("frozen", {12, 3}, ModelSplit{0, {12}, {12}}, {0}, TENON_PARAM_FROZEN);
  add("alone", {9}, ModelSplit{0, {9}, {9}}, {1});
  add("table", {36, 3}, ModelSplit{0, {36}, {36}}, {0, 2});
  graph.blocks.resize(3);
  for (uint32_t b = 0; b < 3; ++b) {
    graph.blocks[b].name = "block" + std::to_string(b);
    graph.blocks[b].flags = b == 1 ? 0U : uint32_t{TENON_BLOCK_DIVISIBLE};
    for (uint32_t p = 0; p < kNumNamed; ++p) {
      if (std::ranges::count(graph.parameters[p].blocks, b) != 0) {
        graph.blocks[b].parameters.push_back(p);
      }
    }
  }
  return graph;
}

ModelGraph divided_model(RankIndex tensor) {
  ModelGraph graph = divided_model(tensor.count);
  divide_graph(graph, tensor, IndivisibleBlocks::kRefuse);
  if (tensor.count > 1) {
    std::vector<bool> needs_whole(kNumNamed, false);
    needs_whole[kMatrix] = true;
    store_whole(graph, tensor, needs_whole);
  }
  return graph;
}

// The value of a parameter, and the gradient of its whole that the tokens of a rank give.
at::Tensor value_of(const ModelParameter& parameter) {
  return at::arange(at::zeros(parameter.shape).numel(), at::kDouble).view(parameter.shape) + 0.5;
}

at::Tensor gradient_of(const ModelGraph& graph, uint32_t p, uint32_t token, uint32_t microbatch) {
  return at::sin(value_of(graph.parameters[p]) * (1 + token) + 7 * p + microbatch);
}

// Returns by how many ranks each index along the axis of the split is held, counted unit by unit.
at::Tensor holders(const ModelSplit& split, uint32_t tensor) {
  std::vector<int64_t> counts;
  for (size_t part = 0; part < split.parts.size(); ++part) {
    const int64_t units = split.units[part];
    for (int64_t i = 0; i < split.parts[part]; ++i) {
      const int64_t unit = i / (split.parts[part] / units);
      int64_t count = 0;
      for (int64_t rank = 0; rank < tensor; ++rank) {
        const bool overlaps =
            unit * tensor < (rank + 1) * units && rank * units < (unit + 1) * tensor;
        count += overlaps ? 1 : 0;
      }
      counts.push_back(count);
    }
  }
  return at::tensor(counts).to(at::kDouble);
}

// What a block on a tensor rank returns as the gradient of a parameter: its term of the sum if it
// is used inside of the region, else the whole.
at::Tensor own_gradient(const ModelGraph& graph, uint32_t p, uint32_t tensor, at::Tensor whole) {
  const ModelParameter& parameter = graph.parameters[p];
  if (parameter.split && p != kAlone) {
    std::vector<int64_t> view(parameter.shape.size(), 1);
    view[parameter.split->axis] = -1;
    whole = whole / holders(*parameter.split, tensor).view(view);
  } else if (p == kInside) {
    whole = whole / tensor;
  }
  return parameter.part ? part_of(whole, *parameter.part) : whole;
}

struct MeshCase {
  MeshDegrees degrees;
  int stage = 3;
  uint32_t size() const {
    return static_cast<uint32_t>(degrees.tensor * degrees.context * degrees.shard *
                                 degrees.replicate);
  }
};

std::vector<MeshCase> mesh_cases() {
  std::vector<MeshCase> cases;
  for (const int64_t tensor : {2, 3, 4}) {
    for (const int64_t shard : {1, 2}) {
      for (const int64_t replicate : {1, 2}) {
        for (const int stage : {1, 2, 3}) {
          cases.push_back(
              {{.replicate = replicate, .shard = shard, .tensor = tensor, .context = 1}, stage});
        }
      }
    }
  }
  cases.push_back({{.replicate = 1, .shard = 2, .tensor = 2, .context = 2}, 3});
  return cases;
}

// What a rank stores, with the given values.
struct RankParameters {
  RankParameters(RankGroups& ranks, int stage)
      : graph(divided_model(ranks.role().tensor())),
        store(graph, layout_of(ranks.role(), stage)),
        sharded(store, ranks, small_buckets()) {
    set_values(0);
  }

  static ShardingOptions small_buckets() {
    ShardingOptions options;
    options.bucket_bytes = 200;
    return options;
  }

  static ParameterLayout layout_of(const RankRole& role, int stage) {
    ParameterLayout layout;
    layout.dtype = at::kDouble;
    layout.partition_of = [](uint32_t) { return 0U; };
    layout.sharing = sharing_of({.stage = stage}, role);
    layout.role = role;
    layout.is_unsharded = [](uint32_t p) { return p == kMatrix || p == kOutside; };
    return layout;
  }

  void set_values(double more) {
    each_part([&](FlatGroup& group, const FlatPart& part, uint32_t p) {
      group.data()
          .narrow(0, part.in_slice, part.length())
          .copy_(values_of(part.piece, value_of(graph.parameters[p]) + more));
    });
    sharded.publish();
    sharded.resolve();
  }

  // Calls take(group, part, p) for this rank's part of each parameter.
  template <class Take>
  void each_part(Take take) {
    for (FlatGroup& group : store.groups()) {
      for (size_t e = 0; e < group.entries().size(); ++e) {
        take(group, group.part(e), group.entries()[e].parameter.id);
      }
    }
  }

  ModelGraph graph;
  ParameterStore store;
  ShardedParameters sharded;
};

// Runs `body` for the parameters of each rank.
void run_divided(const MeshCase& shape,
                 const std::function<void(RankParameters& model, RankGroups& ranks)>& body) {
  const auto tensor = static_cast<uint32_t>(shape.degrees.tensor);
  const RankGroups::Parameters parameters = shared_parameters(divided_model({0, tensor}));
  run_ranks(shape.degrees, shape.size(), parameters, [&](RankGroups& ranks) {
    RankParameters model(ranks, shape.stage);
    body(model, ranks);
  });
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0 : (a - b).abs().max().item<double>();
}

}  // namespace

TEST_CASE("gradients add up over the copies of each parameter", "[model][ranks]") {
  for (const MeshCase& shape : mesh_cases()) {
    const uint32_t size = shape.size();
    CAPTURE(shape.degrees.tensor, shape.degrees.shard, shape.degrees.replicate, shape.stage);
    std::vector<double> worst(size, 0);
    std::vector<double> squares(size, 0);
    std::vector<double> wanted_squares(size, 0);
    run_divided(shape, [&](RankParameters& model, RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      const RankIndex tensor = ranks.role().tensor();
      const RankIndex token = ranks.role().index_in(RankSet::kTokens);
      const ModelGraph& graph = model.graph;
      for (int step = 0; step < 2; ++step) {  // the second overwrites the first
        std::vector<at::Tensor> wanted(kNumNamed);
        for (uint32_t m = 0; m < 2; ++m) {
          for (size_t g = 0; g < model.store.groups().size(); ++g) {
            model.sharded.settle_gradients(g);
          }
          for (uint32_t p = 0; p < kNumNamed; ++p) {
            for (uint32_t t = 0; t < token.count; ++t) {
              const at::Tensor more = gradient_of(graph, p, t, m);
              wanted[p] = wanted[p].defined() ? wanted[p] + more : more;
            }
            const uint32_t b = graph.parameters[p].blocks.front();
            if (p != kFrozen && adds_gradient(graph, b, p, tensor, false)) {
              model.store.add_grad(
                  p, own_gradient(graph, p, tensor.count, gradient_of(graph, p, token.index, m)));
            }
          }
          for (size_t g = 0; g < model.store.groups().size(); ++g) {
            const FlatGroup& group = model.store.groups()[g];
            if (group.is_trainable() && (m == 1 || !group.sharing().keeps_gradients)) {
              model.sharded.reduce(g, m == 1);
            }
          }
        }
        model.sharded.finish_gradients();
        wanted_squares[rank] = 0;
        squares[rank] = 0;
        model.each_part([&](FlatGroup& group, const FlatPart& part, uint32_t p) {
          if (group.is_trainable()) {
            const at::Tensor mine = group.grad().narrow(0, part.in_slice, part.length());
            worst[rank] = std::max(worst[rank], distance(mine, values_of(part.piece, wanted[p])));
            squares[rank] += group.sharing().is_counted ? mine.square().sum().item<double>() : 0;
          }
        });
        for (FlatGroup& group : model.store.groups()) {
          if (!group.is_trainable()) {
            continue;
          }
          const std::vector<at::Tensor> whole = model.sharded.gather_gradient(group);
          for (size_t e = 0; e < whole.size(); ++e) {
            const uint32_t p = group.entries()[e].parameter.id;
            worst[rank] = std::max(worst[rank], distance(whole[e], wanted[p]));
            wanted_squares[rank] += wanted[p].square().sum().item<double>();
          }
          group.clear_grads();
        }
        ranks.all().all_reduce(std::span(&squares[rank], 1), Reduce::kSum, "squares");
      }
    });
    for (uint32_t rank = 0; rank < size; ++rank) {
      CHECK(worst[rank] < 1e-12);
      CHECK(squares[rank] == Approx(wanted_squares[rank]).epsilon(1e-13));
    }
  }
}

TEST_CASE("each rank gathers the whole values, and their hash", "[model][ranks]") {
  RankGroups alone;
  RankParameters whole(alone, 1);
  for (const MeshCase& shape : mesh_cases()) {
    CAPTURE(shape.degrees.tensor, shape.degrees.shard, shape.degrees.replicate, shape.stage);
    std::vector<std::string> hashes(shape.size());
    std::vector<double> worst(shape.size(), 0);
    run_divided(shape, [&](RankParameters& model, RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      const auto gather = [&](FlatGroup& group) { return model.sharded.gather_stored(group); };
      hashes[rank] = model.store.hash(gather);
      for (FlatGroup& group : model.store.groups()) {
        const std::vector<at::Tensor> values = gather(group);
        for (size_t e = 0; e < values.size(); ++e) {
          const ModelParameter& parameter = model.graph.parameters[group.entries()[e].parameter.id];
          worst[rank] = std::max(worst[rank], distance(values[e], value_of(parameter)));
        }
      }
    });
    CHECK(hashes == std::vector<std::string>(shape.size(), whole.store.hash()));
    CHECK(worst == std::vector<double>(shape.size(), 0));
  }
}

TEST_CASE("copies get the values of the first, and are compared", "[model][ranks]") {
  const MeshCase shape{{.replicate = 1, .shard = 2, .tensor = 4}, 3};
  std::vector<double> worst(shape.size(), 0);
  std::vector<std::string> errors(shape.size());
  run_divided(shape, [&](RankParameters& model, RankGroups& ranks) {
    const uint32_t rank = ranks.role().rank();
    model.set_values(rank);
    model.sharded.synchronise();
    model.each_part([&](FlatGroup& group, const FlatPart& part, uint32_t p) {
      // The first rank with the same elements: of all ranks if the group is not sharded.
      const uint32_t num_copies = group.sharing().num_copies;
      const uint32_t first =
          rank % 4 / num_copies * num_copies + (group.sharing().num_slices > 1 ? rank / 4 * 4 : 0);
      const at::Tensor wanted = value_of(model.graph.parameters[p]) + first;
      worst[rank] = std::max(worst[rank],
                             distance(group.data().narrow(0, part.in_slice, part.length()),
                                      values_of(part.piece, wanted)));
    });
    model.sharded.check_replicas();  // throws nothing: other parts differ, copies do not
    if (rank == 7) {                 // a copy of what rank 6 has
      const auto& position = model.store.position(kColumns);
      model.store.groups()[position.group].data()[0].add_(1);
    }
    try {
      model.sharded.check_replicas();
    } catch (const Error& error) {
      errors[rank] = error.id() + ": " + error.message();
    }
  });
  CHECK(worst == std::vector<double>(shape.size(), 0));
  for (const std::string& error : errors) {
    CHECK_THAT(error, contains_text("distributed.replicas_differ: ranks 6 and 7 keep the same"));
  }
}

TEST_CASE("sums over tokens count tensor ranks once", "[model][ranks]") {
  const MeshCase shape{{.replicate = 2, .shard = 2, .tensor = 2}, 3};
  std::vector<double> sums(shape.size(), 0);
  run_divided(shape, [&](RankParameters& model, RankGroups& ranks) {
    const uint32_t token = ranks.role().index_in(RankSet::kTokens).index;
    std::vector<at::Tensor> mine = {at::full({3}, std::pow(10.0, token), at::kDouble)};
    model.sharded.sum_over_ranks(mine, "loads");
    sums[ranks.role().rank()] = mine[0][1].item<double>();
  });
  CHECK(sums == std::vector<double>(shape.size(), 1111));
}

}  // namespace tenon
