// SPDX-License-Identifier: Apache-2.0
//
// Parameters of a model whose stages are on ranks of a pipeline: what ranks store, gather and sum,
// on thread ranks, against one rank that has all.
#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/divided_graph.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/sharded_parameters.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

constexpr uint32_t kNumBlocks = 6;  // each a stage, or two of them
constexpr uint32_t kNumEach = 4;    // parameters of a block: rows, vector, matrix, frozen

// Pipeline rank of each block.
std::vector<uint32_t> owners_of(uint32_t pipeline, bool is_interleaved) {
  std::vector<uint32_t> owners;
  for (uint32_t b = 0; b < kNumBlocks; ++b) {
    owners.push_back(is_interleaved ? b % pipeline : b * pipeline / kNumBlocks);
  }
  return owners;
}

ModelGraph staged_model(RankIndex tensor, RankIndex pipeline, bool is_interleaved) {
  ModelGraph graph;
  const std::vector<uint32_t> owners = owners_of(pipeline.count, is_interleaved);
  graph.stage_owners = owners;
  for (uint32_t b = 0; b < kNumBlocks; ++b) {
    ModelBlock block;
    block.name = "block" + std::to_string(b);
    block.flags = TENON_BLOCK_DIVISIBLE;
    block.stage = b;
    block.is_elsewhere = owners[b] != pipeline.index;
    const auto add = [&](const char* name, std::vector<int64_t> shape, uint32_t flags = 0) {
      ModelParameter made;
      made.name = block.name + "." + name;
      made.shape = std::move(shape);
      made.dtype = TENON_CLASS_PARAM;
      made.flags = flags;
      made.blocks = {b};
      made.holders = {owners[b]};
      made.is_elsewhere = block.is_elsewhere;
      block.parameters.push_back(static_cast<uint32_t>(graph.parameters.size()));
      graph.parameters.push_back(std::move(made));
    };
    add("rows", {12, 3 + b});
    graph.parameters.back().split = ModelSplit{0, {12}, {12}};
    add("vector", {5 + b});
    add("matrix", {6, 4});
    add("frozen", {7}, TENON_PARAM_FROZEN);
    const auto add_buffer = [&](const char* name, uint32_t dtype, uint32_t kind) {
      ModelBuffer made;
      made.name = block.name + "." + name;
      made.shape = {2, 3};
      made.dtype = dtype;
      made.kind = kind;
      made.owner = owners[b];
      block.buffers.push_back(static_cast<uint32_t>(graph.buffers.size()));
      graph.buffers.push_back(std::move(made));
    };
    add_buffer("mean", TENON_F64, TENON_BUFFER_STATE);
    add_buffer("count", TENON_I64, TENON_BUFFER_STATE);
    add_buffer("constant", TENON_F32, TENON_BUFFER_CONSTANT);
    graph.blocks.push_back(std::move(block));
  }
  divide_graph(graph, tensor, IndivisibleBlocks::kRefuse);
  return graph;
}

bool is_matrix(uint32_t p) {
  return p % kNumEach == 2;
}

struct StagedCase {
  MeshDegrees degrees;
  int stage = 3;
  bool is_interleaved = false;
  uint32_t size() const {
    return static_cast<uint32_t>(degrees.tensor * degrees.context * degrees.shard *
                                 degrees.replicate * degrees.pipeline);
  }
};

std::vector<StagedCase> staged_cases() {
  std::vector<StagedCase> cases;
  for (const int64_t pipeline : {2, 3}) {
    for (const int64_t shard : {1, 2}) {
      for (const int stage : {1, 2, 3}) {
        cases.push_back({{.shard = shard, .pipeline = pipeline}, stage});
      }
    }
  }
  cases.push_back({{.shard = 1, .pipeline = 2}, 3, true});
  cases.push_back({{.shard = 2, .pipeline = 3}, 2, true});
  cases.push_back({{.replicate = 2, .shard = 2, .pipeline = 2}, 3});
  cases.push_back({{.shard = 2, .tensor = 2, .pipeline = 2}, 3});
  cases.push_back({{.shard = 1, .tensor = 2, .context = 2, .pipeline = 2}, 1});
  return cases;
}

std::string text_of(const StagedCase& shape) {
  return Mesh(shape.degrees, shape.size(), 0).text() + " stage " + std::to_string(shape.stage) +
         (shape.is_interleaved ? " interleaved" : "");
}

at::Tensor value_of(const ModelParameter& parameter) {
  return at::arange(at::zeros(parameter.shape).numel(), at::kDouble).view(parameter.shape) + 0.5;
}

// The gradient of a whole parameter that the tokens of a rank give: small integers, so that sums
// are exact in any order.
at::Tensor gradient_of(const ModelGraph& graph, uint32_t p, uint32_t token) {
  return (value_of(graph.parameters[p]) * (3 + token) + p).floor().fmod(7);
}

// What a rank stores, with the given values.
struct StagedRank {
  StagedRank(RankGroups& ranks, const StagedCase& shape)
      : graph(staged_model(ranks.role().tensor(), ranks.role().pipeline(), shape.is_interleaved)),
        store(graph, layout_of(ranks.role(), shape.stage)),
        sharded(store, ranks, small_buckets()) {
    each_part([&](FlatGroup& group, const FlatPart& part, uint32_t p) {
      group.data()
          .narrow(0, part.in_slice, part.length())
          .copy_(values_of(part.piece, value_of(graph.parameters[p])));
    });
    sharded.publish();
    sharded.resolve();
  }

  static ShardingOptions small_buckets() {
    ShardingOptions options;
    options.bucket_bytes = 200;
    return options;
  }

  static ParameterLayout layout_of(const RankRole& role, int stage) {
    ParameterLayout layout;
    layout.dtype = at::kDouble;
    layout.partition_of = [](uint32_t p) { return is_matrix(p) ? 1U : 0U; };
    layout.sharing = sharing_of({.stage = stage}, role);
    layout.role = role;
    layout.is_unsharded = is_matrix;
    return layout;
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

void run_staged(const StagedCase& shape,
                const std::function<void(StagedRank& model, RankGroups& ranks)>& body) {
  const auto tensor = static_cast<uint32_t>(shape.degrees.tensor);
  const RankGroups::Parameters parameters =
      shared_parameters(staged_model({0, tensor}, {0, 1}, false));
  run_ranks(shape.degrees, shape.size(), parameters, [&](RankGroups& ranks) {
    StagedRank model(ranks, shape);
    body(model, ranks);
  });
}

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() && a.equal(b);
}

}  // namespace

TEST_CASE("a rank of a pipeline has all names, and elements of its own stages", "[model][ranks]") {
  RankGroups alone;
  const StagedRank whole(alone, {{.shard = 1}});
  for (const StagedCase& shape : staged_cases()) {
    INFO(text_of(shape));
    const auto pipeline = static_cast<uint32_t>(shape.degrees.pipeline);
    const std::vector<uint32_t> owners = owners_of(pipeline, shape.is_interleaved);
    std::vector<std::string> wrong(shape.size());
    std::vector<int64_t> counted(shape.size(), 0);
    run_staged(shape, [&](StagedRank& model, RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      std::vector<std::string> names;
      for (FlatGroup& group : model.store.groups()) {
        names.push_back(group.name());
        const uint32_t b = group.entries().front().parameter.id / kNumEach;
        const bool is_here = owners[b] == ranks.role().pipeline().index;
        for (size_t e = 0; e < group.entries().size(); ++e) {
          const uint32_t p = group.entries()[e].parameter.id;
          const bool is_right = p / kNumEach == b && model.store.leaf(p).defined() == is_here &&
                                model.store.is_trainable(p) == whole.store.is_trainable(p);
          wrong[rank] += is_right ? "" : "entry " + group.entries()[e].parameter.name + ", ";
          if (is_here && group.sharing().is_counted) {
            counted[rank] += group.part(e).length();
          }
        }
        const bool is_empty = group.data().numel() == 0 && group.grad().numel() == 0 &&
                              group.seen().numel() == 0 && group.whole_grad().numel() == 0;
        wrong[rank] += is_empty != is_here ? "" : "memory of " + group.name() + ", ";
      }
      std::vector<std::string> wanted;
      for (const FlatGroup& group : whole.store.groups()) {
        wanted.push_back(group.name());
      }
      // Tensor ranks have separate groups of divided parameters.
      wrong[rank] += names == wanted || shape.degrees.tensor > 1 ? "" : "names of groups";
      const bool has_all = model.sharded.has_all() || model.sharded.is_replicated();
      wrong[rank] += has_all ? "has all" : "";
    });
    CHECK(wrong == std::vector<std::string>(shape.size()));
    int64_t sum = 0;
    for (const int64_t elements : counted) {
      sum += elements;
    }
    CHECK(sum == whole.graph.num_elements());
  }
}

TEST_CASE("each rank of a pipeline gathers all values, and their hash", "[model][ranks]") {
  RankGroups alone;
  StagedRank whole(alone, {{.shard = 1}});
  CHECK(whole.sharded.has_all());
  CHECK(whole.sharded.is_replicated());
  for (const StagedCase& shape : staged_cases()) {
    INFO(text_of(shape));
    std::vector<std::string> hashes(shape.size());
    std::vector<std::string> wrong(shape.size());
    run_staged(shape, [&](StagedRank& model, RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      const auto gather = [&](FlatGroup& group) { return model.sharded.gather_stored(group); };
      hashes[rank] = model.store.hash(gather);
      for (FlatGroup& group : model.store.groups()) {
        const std::vector<at::Tensor> values = gather(group);
        for (size_t e = 0; e < values.size(); ++e) {
          const ModelParameter& parameter = model.graph.parameters[group.entries()[e].parameter.id];
          wrong[rank] += is_same(values[e], value_of(parameter)) ? "" : parameter.name + ", ";
        }
      }
      model.sharded.check_replicas();
    });
    CHECK(hashes == std::vector<std::string>(shape.size(), whole.store.hash()));
    CHECK(wrong == std::vector<std::string>(shape.size()));
  }
}

TEST_CASE("gradients add up over the ranks of a stage, and all ranks see them", "[model][ranks]") {
  for (const StagedCase& shape : staged_cases()) {
    INFO(text_of(shape));
    std::vector<std::string> wrong(shape.size());
    run_staged(shape, [&](StagedRank& model, RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      const RankIndex tensor = ranks.role().tensor();
      const RankIndex token = ranks.role().index_in(RankSet::kTokens);
      const ModelGraph& graph = model.graph;
      for (int step = 0; step < 2; ++step) {  // the second overwrites the first
        std::vector<at::Tensor> wanted(graph.parameters.size());
        for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
          const ModelParameter& parameter = graph.parameters[p];
          for (uint32_t t = 0; t < token.count; ++t) {
            const at::Tensor more = gradient_of(graph, p, t);
            wanted[p] = wanted[p].defined() ? wanted[p] + more : more;
          }
          if (!parameter.is_elsewhere && model.store.is_trainable(p) &&
              adds_gradient(graph, p / kNumEach, p, tensor, false)) {
            const at::Tensor mine = gradient_of(graph, p, token.index);
            model.store.add_grad(p, parameter.part ? part_of(mine, *parameter.part) : mine);
          }
        }
        // A rank alone in its stage has the sums.
        const size_t num_reduced = model.sharded.is_idle() ? 0 : model.store.groups().size();
        for (size_t g = 0; g < num_reduced; ++g) {
          const FlatGroup& group = model.store.groups()[g];
          if (group.is_trainable() && !group.sharing().is_elsewhere) {
            model.sharded.reduce(g, true);
          }
        }
        model.sharded.finish_gradients();
        std::vector<uint8_t> has_grad = model.sharded.has_grad();
        std::vector<int64_t> of_all(has_grad.begin(), has_grad.end());
        ranks.all().all_reduce(of_all, Reduce::kMax, "touched");
        model.sharded.set_has_grad({of_all.begin(), of_all.end()});
        for (FlatGroup& group : model.store.groups()) {
          if (group.any_has_grad() != group.is_trainable()) {
            wrong[rank] += "group " + group.name() + ", ";
          }
          const std::vector<at::Tensor> whole = group.is_trainable()
                                                    ? model.sharded.gather_gradient(group)
                                                    : std::vector<at::Tensor>();
          for (size_t e = 0; e < whole.size(); ++e) {
            const uint32_t p = group.entries()[e].parameter.id;
            wrong[rank] += is_same(whole[e], wanted[p]) ? "" : graph.parameters[p].name + ", ";
          }
          group.clear_grads();
        }
      }
    });
    CHECK(wrong == std::vector<std::string>(shape.size()));
  }
}

TEST_CASE("all ranks get the buffers of the first rank of their stage", "[model][ranks]") {
  for (const StagedCase& shape : staged_cases()) {
    INFO(text_of(shape));
    const auto pipeline = static_cast<uint32_t>(shape.degrees.pipeline);
    const std::vector<uint32_t> owners = owners_of(pipeline, shape.is_interleaved);
    std::vector<std::string> wrong(shape.size());
    run_staged(shape, [&](StagedRank& model, RankGroups& ranks) {
      const uint32_t rank = ranks.role().rank();
      // Ranks of a stage have adjacent numbers.
      const auto first_of = [&](uint32_t b) { return owners[b] * (shape.size() / pipeline); };
      const auto set = [&](uint32_t more) {
        for (at::Tensor& buffer : model.store.buffers()) {
          buffer.fill_(static_cast<int64_t>(rank + more));
        }
      };
      const auto check = [&](uint32_t more, bool are_all) {
        for (uint32_t i = 0; i < model.graph.buffers.size(); ++i) {
          const bool is_sent = are_all || model.store.is_state(i);
          const uint32_t from = is_sent ? first_of(i / 3) : rank;
          const at::Tensor wanted =
              at::full({2, 3}, static_cast<int64_t>(from + more), model.store.buffer(i).options());
          wrong[rank] +=
              is_same(model.store.buffer(i), wanted) ? "" : model.graph.buffers[i].name + ", ";
        }
      };
      set(0);
      model.sharded.synchronise();
      check(0, true);
      set(100);
      model.sharded.synchronise_buffers();
      check(100, false);
    });
    CHECK(wrong == std::vector<std::string>(shape.size()));
  }
}

TEST_CASE("copies are compared within a stage", "[model][ranks]") {
  const StagedCase shape{{.replicate = 2, .shard = 1, .pipeline = 2}, 3};
  std::vector<std::string> errors(shape.size());
  run_staged(shape, [&](StagedRank& model, RankGroups& ranks) {
    model.sharded.check_replicas();  // stages have different parameters
    if (ranks.role().rank() == 3) {  // a copy of what rank 2 has
      const auto& position = model.store.position((kNumBlocks - 1) * kNumEach);
      model.store.groups()[position.group].data()[0].add_(1);
    }
    try {
      model.sharded.check_replicas();
    } catch (const Error& error) {
      errors[ranks.role().rank()] = error.id() + ": " + error.message();
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, contains_text("distributed.replicas_differ: ranks 2 and 3 keep the same"));
  }
}

}  // namespace tenon
