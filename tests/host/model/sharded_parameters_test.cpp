// SPDX-License-Identifier: Apache-2.0
//
// Gradients and parameters over ranks, which are threads here, against one rank that sees all.
#include "host/model/sharded_parameters.hpp"

#include "host/error/error.hpp"
#include "host/plugin/model_proxy.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/test_runner.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// Three blocks: p0 is used by the first and the last, p3 is frozen, p4 is used by nobody, and p1
// only where a batch begins with a positive number.
TestModel three_blocks(std::vector<std::string> units) {
  TestModel model;
  model.units = std::move(units);
  model.inputs = {"x"};
  model.num_values = 4;
  model.parameters = {{3, 5}, {5}, {5, 5}, {5}, {17}, {1, 3}};
  model.parameter_flags = {0, 0, 0, TENON_PARAM_FROZEN};
  model.blocks = {
      {{0},
       {1},
       {0, 1},
       0,
       [](const Tensors& in, const Tensors& p, tenon_forward_args*) -> Tensors {
         const at::Tensor h = in[0].matmul(p[0]);
         return {at::tanh(in[0].sum().item<double>() > 0 ? h + p[1] : h)};
       }},
      {{1},
       {2},
       {2, 3, 4},
       0,
       [](const Tensors& in, const Tensors& p, tenon_forward_args*) -> Tensors {
         return {at::tanh(in[0].matmul(p[0])) + p[1]};
       }},
      {{2},
       {3},
       {0, 5},
       0,
       [](const Tensors& in, const Tensors& p, tenon_forward_args*) -> Tensors {
         return {in[0].matmul(p[0].t()) * p[1]};
       }},
  };
  return model;
}

// One rank's model, with what moves its parameters.
class RankModel {
 public:
  RankModel(RankGroups& ranks,
            const ParameterLayout& layout,
            const ShardingOptions& options,
            RecomputeMode recompute,
            std::vector<std::string> units = {})
      : test_(three_blocks(std::move(units))),
        proxy_(made_instance("model", TENON_MODEL_ID, test_.table(), &test_)),
        graph_(describe_model(proxy_)),
        store(graph_, layout),
        sharded(store, ranks, options),
        frame_(proxy_.instance().host(), base(layout)),
        runner_((store.initialise(proxy_, frame_.exec(), 7), proxy_),
                store,
                base(layout),
                recompute,
                &sharded) {
    sharded.synchronise();
  }

  static ExecBase base(const ParameterLayout& layout) {
    ExecBase base;
    base.seed = 3;
    base.compute_dtype = layout.dtype;
    return base;
  }

  // Forward and backward of the sum of what the model puts out; without `x`, as a rank that has no
  // sample.
  void pass(const at::Tensor& x, uint32_t microbatch, bool ends_step) {
    const CallPoint point{1, microbatch, true};
    if (!x.defined()) {
      runner_.forward_idle(point);
      runner_.backward(1, {}, ends_step);
      return;
    }
    runner_.forward(batch_of(x), point);
    const at::Tensor& out = runner_.value(3);
    runner_.add_grad(3, at::ones_like(out));
    runner_.backward(1, {}, ends_step);
  }

  at::Tensor evaluate(const at::Tensor& x) {
    runner_.forward(batch_of(x), CallPoint{1, 0, false});
    const at::Tensor out = runner_.value(3).clone();
    runner_.clear();
    return out;
  }

  // The slice of what `whole` has for all elements, by group.
  std::vector<at::Tensor> slices_of(const std::vector<at::Tensor>& whole) {
    std::vector<at::Tensor> slices;
    for (size_t g = 0; g < whole.size(); ++g) {
      const FlatGroup& group = store.groups()[g];
      at::Tensor padded = at::zeros({group.numel()}, whole[g].options());
      padded.narrow(0, 0, whole[g].numel()).copy_(whole[g]);
      slices.push_back(
          padded.narrow(0, group.sharing().slice * group.slice_numel(), group.slice_numel()));
    }
    return slices;
  }

 private:
  static Batch batch_of(const at::Tensor& x) {
    FieldInfo field;
    field.name = "x";
    Batch batch;
    batch.schema = std::make_shared<std::vector<FieldInfo>>(1, field);
    batch.fields = {x};
    batch.samples = static_cast<size_t>(x.size(0));
    return batch;
  }

  TestModel test_;
  ModelProxy proxy_;
  ModelGraph graph_;

 public:
  ParameterStore store;
  ShardedParameters sharded;

 private:
  ExecFrame frame_;
  TestRunner runner_;
};

ParameterLayout layout_of(at::ScalarType dtype) {
  ParameterLayout layout;
  layout.dtype = dtype;
  layout.partition_of = [](uint32_t p) { return p == 2 ? 1U : 0U; };
  return layout;
}

struct Case {
  std::string name;
  int64_t replicate = 1;
  int64_t shard = 1;
  int stage = 3;
  bool is_forced = false;
  bool has_unsharded = false;
  std::optional<bool> reshard = {};
  int64_t bucket_bytes = 1 << 20;
  RecomputeMode recompute = RecomputeMode::kNone;
  std::vector<std::string> units = {};
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"replicated", 2, 1},
      {"replicated by small buckets", 3, 1, 3, false, false, {}, 1},
      {"stage 1", 1, 2, 1},
      {"stage 2", 1, 3, 2},
      {"stage 3", 1, 2, 3},
      {"stage 3 on four ranks", 1, 4, 3},
      {"stage 3, freed after each forward", 1, 3, 3, false, false, true},
      {"stage 3, never freed between", 1, 2, 3, false, false, false},
      {"stage 3 with recompute", 1, 2, 3, false, false, true, 1, RecomputeMode::kBlocks},
      {"replicas of shards", 2, 2, 3},
      {"replicas of shards, stage 2", 2, 2, 2},
      {"replicas of shards, stage 1", 2, 2, 1},
      {"a part kept whole", 1, 2, 3, false, true},
      {"a part kept whole, with replicas", 2, 2, 2, false, true},
      {"one rank, as if it were many", 1, 1, 3, true},
      {"a unit of two blocks", 1, 2, 3, false, false, true, 1, {}, {"u", "u"}},
      {"a recomputed unit at the start",
       1,
       2,
       3,
       false,
       false,
       true,
       1,
       RecomputeMode::kBlocks,
       {"u", "u"}},
      {"a recomputed unit at the end, and its replicas",
       2,
       2,
       3,
       false,
       false,
       {},
       1,
       RecomputeMode::kBlocks,
       {"", "u", "u"}},
      {"one unit of all, stage 2", 1, 3, 2, false, false, {}, 1, {}, {"u", "u", "u"}},
  };
  return all;
}

// Calls `body` on a thread for each rank of a case.
void run_case(const Case& shape, const std::function<void(RankGroups& ranks)>& body) {
  run_ranks({.replicate = shape.replicate, .shard = shape.shard},
            static_cast<uint32_t>(shape.replicate * shape.shard),
            body);
}

ParameterLayout layout_of(const Case& shape, const RankRole& role, at::ScalarType dtype) {
  ParameterLayout layout = layout_of(dtype);
  // Resharding shards a single rank too.
  const auto reshard = shape.is_forced ? std::optional<bool>(true) : std::nullopt;
  layout.sharing = sharing_of({.stage = shape.stage, .reshard_after_forward = reshard}, role);
  layout.role = role;
  if (shape.has_unsharded) {
    layout.is_unsharded = [](uint32_t p) { return p == 2; };
  }
  return layout;
}

ShardingOptions options_of(const Case& shape) {
  ShardingOptions options;
  options.reshard_after_forward = shape.reshard;
  options.bucket_bytes = shape.bucket_bytes;
  return options;
}

RankGroups alone_groups;

const std::vector<std::string>& calls_of(Group& group) {
  return dynamic_cast<ThreadGroup&>(group).calls();
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 ? 0.0 : (a - b).abs().max().item<double>();
}

// What microbatch m of rank r reads; nothing for the last rank in the last one.
at::Tensor input_of(uint32_t rank, uint32_t size, uint32_t microbatch, at::ScalarType dtype) {
  if (size > 1 && rank + 1 == size && microbatch == 1) {
    return {};
  }
  const at::Tensor x =
      at::arange(6, at::kDouble).view({2, 3}) * 0.1 - 0.15 * rank + 0.05 * microbatch;
  return (rank == 1 ? -x.abs() : x).to(dtype);
}

}  // namespace

TEST_CASE("gradients over ranks and microbatches are those of one rank that sees all",
          "[model][ranks]") {
  for (const Case& shape : cases()) {
    INFO(shape.name);
    const auto size = static_cast<uint32_t>(shape.replicate * shape.shard);
    Case alone = shape;
    alone.replicate = alone.shard = 1;
    alone.is_forced = false;
    RankModel whole(alone_groups,
                    layout_of(alone, RankRole(), at::kDouble),
                    {},
                    RecomputeMode::kNone,
                    shape.units);
    CHECK(whole.sharded.is_idle());
    for (uint32_t m = 0; m < 2; ++m) {
      for (uint32_t r = 0; r < size; ++r) {
        if (const at::Tensor x = input_of(r, size, m, at::kDouble); x.defined()) {
          whole.pass(x, m, true);
        }
      }
    }
    whole.sharded.finish_gradients();
    std::vector<at::Tensor> wanted;
    for (FlatGroup& group : whole.store.groups()) {
      wanted.push_back(group.grad());
    }
    std::vector<double> worst(size, 0);
    std::vector<std::vector<uint8_t>> has_grad(size);
    std::vector<bool> is_freed(size, true);
    run_case(shape, [&](RankGroups& ranks) {
      const uint32_t r = ranks.role().rank();
      RankModel model(ranks,
                      layout_of(shape, ranks.role(), at::kDouble),
                      options_of(shape),
                      shape.recompute,
                      shape.units);
      for (int step = 0; step < 2; ++step) {  // the second overwrites the first
        for (uint32_t m = 0; m < 2; ++m) {
          model.pass(input_of(r, size, m, at::kDouble), m, m == 1);
        }
        model.sharded.finish_gradients();
        const std::vector<at::Tensor> slices = model.slices_of(wanted);
        for (size_t g = 0; g < slices.size(); ++g) {
          FlatGroup& group = model.store.groups()[g];
          if (group.is_trainable()) {
            worst[r] = std::max(worst[r], difference(group.grad(), slices[g]));
          }
          is_freed[r] = is_freed[r] && group.has_whole() == group.sharing().keeps_parameters;
        }
        has_grad[r] = model.sharded.has_grad();
        for (FlatGroup& group : model.store.groups()) {
          group.clear_grads();
        }
      }
    });
    for (uint32_t r = 0; r < size; ++r) {
      INFO("rank " << r);
      CHECK(worst[r] < 1e-12);
      CHECK(is_freed[r]);
    }
    std::vector<uint8_t> any = has_grad[0];
    for (const std::vector<uint8_t>& of_rank : has_grad) {
      for (size_t i = 0; i < any.size(); ++i) {
        any[i] = std::max(any[i], of_rank[i]);
      }
    }
    CHECK(any == whole.sharded.has_grad());
  }
}

TEST_CASE("first values and hashes do not depend on how parameters are shared out",
          "[model][ranks]") {
  RankModel whole(alone_groups, layout_of({}, RankRole(), at::kFloat), {}, RecomputeMode::kNone);
  const std::string wanted = whole.store.hash();
  const at::Tensor x = input_of(0, 1, 0, at::kFloat);
  const at::Tensor output = whole.evaluate(x);
  for (const Case& shape : cases()) {
    INFO(shape.name);
    const auto size = static_cast<size_t>(shape.replicate * shape.shard);
    std::vector<std::string> hashes(size);
    std::vector<double> worst(size, 1);
    run_case(shape, [&](RankGroups& ranks) {
      RankModel model(ranks,
                      layout_of(shape, ranks.role(), at::kFloat),
                      options_of(shape),
                      shape.recompute,
                      shape.units);
      worst[ranks.role().rank()] = difference(model.evaluate(x), output);
      hashes[ranks.role().rank()] = model.store.hash(
          [&model](FlatGroup& group) { return model.sharded.gather_stored(group); });
    });
    for (size_t r = 0; r < size; ++r) {
      CHECK((shape.has_unsharded || !shape.units.empty() || hashes[r] == wanted));
      CHECK(hashes[r] == hashes[0]);
      CHECK(worst[r] == 0);
    }
  }
}

TEST_CASE("blocks see the slices that other ranks have changed", "[model][ranks]") {
  const at::Tensor x = input_of(0, 1, 0, at::kFloat);
  for (const Case& shape : cases()) {
    INFO(shape.name);
    const auto size = static_cast<size_t>(shape.replicate * shape.shard);
    std::vector<double> worst(size, 1);
    RankModel whole(alone_groups, layout_of({}, RankRole(), at::kFloat), {}, RecomputeMode::kNone);
    for (FlatGroup& group : whole.store.groups()) {
      group.data().mul_(0.5);
    }
    const at::Tensor wanted = whole.evaluate(x);
    run_case(shape, [&](RankGroups& ranks) {
      RankModel model(ranks,
                      layout_of(shape, ranks.role(), at::kFloat),
                      options_of(shape),
                      shape.recompute,
                      shape.units);
      model.sharded.resolve();
      for (FlatGroup& group : model.store.groups()) {
        group.data().mul_(0.5);
      }
      model.sharded.publish();
      worst[ranks.role().rank()] = difference(model.evaluate(x), wanted);
    });
    CHECK(worst == std::vector<double>(size, 0.0));
  }
}

TEST_CASE("narrow gradients on the wire are added up in what is stored", "[model][ranks]") {
  for (const Case& shape :
       {Case{"replicated", 2, 1}, Case{"stage 3", 1, 2, 3}, Case{"replicas of shards", 2, 2, 3}}) {
    INFO(shape.name);
    const auto size = static_cast<uint32_t>(shape.replicate * shape.shard);
    std::vector<double> norms[2];
    for (const bool is_narrow : {false, true}) {
      norms[is_narrow].resize(size);
      run_case(shape, [&](RankGroups& ranks) {
        ShardingOptions options = options_of(shape);
        if (is_narrow) {
          options.wire_dtype = at::kBFloat16;
        }
        RankModel model(
            ranks, layout_of(shape, ranks.role(), at::kFloat), options, RecomputeMode::kNone);
        model.pass(input_of(ranks.role().rank(), size, 0, at::kFloat), 0, true);
        model.sharded.finish_gradients();
        for (FlatGroup& group : model.store.groups()) {
          norms[is_narrow][ranks.role().rank()] += group.grad().square().sum().item<double>();
        }
      });
    }
    for (uint32_t r = 0; r < size; ++r) {
      CHECK(norms[1][r] == Approx(norms[0][r]).epsilon(0.02));
      CHECK(norms[1][r] != norms[0][r]);
    }
  }
}

TEST_CASE("replicas that differ are found and named", "[model][ranks]") {
  std::vector<std::string> errors(4);
  const Case shape{"replicas of shards", 2, 2, 3};
  run_case(shape, [&](RankGroups& ranks) {
    RankModel model(
        ranks, layout_of(shape, ranks.role(), at::kFloat), options_of(shape), RecomputeMode::kNone);
    model.sharded.check_replicas();
    if (ranks.role().rank() == 3) {
      model.store.groups()[0].data()[0].add_(1);
    }
    try {
      model.sharded.check_replicas();
    } catch (const Error& error) {
      errors[ranks.role().rank()] = error.id() + ": " + error.message();
    }
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, contains_text("distributed.replicas_differ: ranks 1 and 3 keep the same"));
  }
}

TEST_CASE("a block's parameters are gathered once for each pass, the last block's once",
          "[model][ranks]") {
  std::vector<std::string> calls[2];
  const Case shape{"stage 3", 1, 2, 3};
  run_case(shape, [&](RankGroups& ranks) {
    RankModel model(
        ranks, layout_of(shape, ranks.role(), at::kFloat), options_of(shape), RecomputeMode::kNone);
    model.pass(input_of(0, 1, 0, at::kFloat), 0, true);
    model.sharded.finish_gradients();
    calls[ranks.role().rank()] = calls_of(ranks.gather());
    for (const std::string& call : calls_of(ranks.reduce())) {
      calls[ranks.role().rank()].push_back(call);
    }
  });
  // Groups: p0, shared by the first and the last block; p1; p2 with p4; the frozen p3; p5.
  CHECK(calls[0] == std::vector<std::string>{"parameters of 'p0'",
                                             "parameters of 'block0'",
                                             "parameters of 'block1'",
                                             "parameters of 'block1'",
                                             "parameters of 'block2'",
                                             "parameters of 'block1'",
                                             "parameters of 'block1'",
                                             "parameters of 'block0'",
                                             "gradients of 'block2'",
                                             "gradients of 'block1'",
                                             "gradients of 'p0'",
                                             "gradients of 'block0'"});
  CHECK(calls[0] == calls[1]);
}

}  // namespace tenon
