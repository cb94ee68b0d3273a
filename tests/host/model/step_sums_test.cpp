// SPDX-License-Identifier: Apache-2.0
//
// Buffers that a forward changes, and sums over the microbatches and ranks of a step, against the
// same functions written out.
#include "host/model/step_sums.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/row_source.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/one_row_pass.hpp"
#include "tests/support/test_runner.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// A model with what runs it, in fp64, on one rank or as one of several.
class SumsRig {
 public:
  explicit SumsRig(TestModel test,
                   RecomputeMode recompute = RecomputeMode::kNone,
                   RankGroups* ranks = nullptr,
                   RowSource* rows = nullptr)
      : test_(std::make_unique<TestModel>(std::move(test))),
        proxy_(made_instance(
            "model", TENON_MODEL_ID, test_->table(), test_.get(), &TestModel::extension)),
        graph_(describe_model(proxy_)),
        store(graph_, {at::kDouble, at::kCPU, [](uint32_t) { return 0u; }}),
        sharded(store, ranks != nullptr ? *ranks : alone(), {}),
        frame_(proxy_.instance().host(), base()),
        runner((store.initialise(proxy_, frame_.exec(), 7), proxy_),
               store,
               base(),
               recompute,
               &sharded,
               rows) {}

  void forward(const at::Tensor& x, uint32_t microbatch = 0) {
    runner.forward(batch(x), {1, microbatch, true});
  }
  void backward(const at::Tensor& grad) {
    runner.add_grad(static_cast<uint32_t>(graph_.values.size() - 1), grad);
    runner.backward(1);
  }
  at::Tensor output() { return runner.value(static_cast<uint32_t>(graph_.values.size() - 1)); }
  static Batch batch(const at::Tensor& x) {
    FieldInfo field;
    field.name = "x";
    Batch batch;
    batch.schema = std::make_shared<std::vector<FieldInfo>>(1, field);
    batch.fields = {x};
    batch.samples = static_cast<size_t>(x.size(0));
    return batch;
  }
  at::Tensor parameter(uint32_t p) { return store.leaf(p).detach().clone().requires_grad_(true); }
  at::Tensor grad(uint32_t p) {
    return store.groups()[store.position(p).group].grad_view(store.position(p).entry);
  }

 private:
  static ExecBase base() {
    ExecBase base;
    base.seed = 3;
    base.compute_dtype = at::kDouble;
    return base;
  }
  static RankGroups& alone() {
    static RankGroups groups;
    return groups;
  }

  std::unique_ptr<TestModel> test_;
  ModelProxy proxy_;
  ModelGraph graph_;

 public:
  ParameterStore store;
  ShardedParameters sharded;

 private:
  ExecFrame frame_;

 public:
  TestRunner runner;
};

void set_next(tenon_forward_args* args, size_t i, const at::Tensor& value) {
  args->next_buffers_own[i] = new_handle(value);
}

const at::Tensor& buffer(const tenon_forward_args* args, size_t i) {
  return tensor_of(args->buffers[i]);
}

// y = tanh(x w + s u), and the state s becomes the mean of y: a carried state.
TestModel carried_state() {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 3;
  test.parameters = {{3, 4}, {4, 4}, {4, 2}};
  test.buffers = {{{4}}};
  test.blocks = {{{0},
                  {1},
                  {0, 1},
                  0,
                  [](const Tensors& x, const Tensors& p, tenon_forward_args* args) {
                    const at::Tensor y = at::tanh(x[0].matmul(p[0]) + buffer(args, 0).matmul(p[1]));
                    set_next(args, 0, y.detach().mean(0));
                    return Tensors{y};
                  },
                  {0}},
                 {{1}, {2}, {2}, 0, [](const Tensors& x, const Tensors& p, tenon_forward_args*) {
                    return Tensors{x[0].matmul(p[0])};
                  }}};
  return test;
}

at::Tensor input_of(int64_t i, int64_t samples = 4) {
  return at::sin(at::arange(samples * 3, at::kDouble) + static_cast<double>(100 * i))
      .view({samples, 3});
}

// Tokens of x choose the larger of two outputs; shares are their probabilities.
TestModel two_experts() {
  TestModel test;
  test.inputs = {"x"};
  test.num_values = 2;
  test.parameters = {{3, 2}};
  test.buffers = {{{2}}, {{2}, TENON_I64, TENON_BUFFER_CONSTANT}, {{}, TENON_I64}};
  test.summed_buffers = {1, 2};
  test.balance_blocks = {0};
  test.balance_experts = {2};
  test.blocks = {{{0},
                  {1},
                  {0},
                  0,
                  [](const Tensors& x, const Tensors& p, tenon_forward_args* args) {
                    const at::Tensor shares = at::softmax(x[0].matmul(p[0]) + buffer(args, 0), -1);
                    const at::Tensor chosen = std::get<1>(shares.detach().max(-1));
                    const at::Tensor loads = at::bincount(chosen, {}, 2);
                    const int64_t tokens = x[0].size(0);
                    const at::Tensor count = at::cat({loads, at::full({1}, tokens, at::kLong)});
                    const at::Tensor sum = shares.sum(0);
                    if (args->add_loss(args, "balance", borrow(sum), borrow(count), 0.25) !=
                        nullptr) {
                      return Tensors{};
                    }
                    set_next(args, 1, loads);
                    set_next(args, 2, buffer(args, 2) + tokens);
                    return Tensors{shares};
                  },
                  {0, 1, 2}}};
  test.end_step = [](tenon_end_step_args* args) {
    const at::Tensor& loads = tensor_of(args->buffers[1]);
    args->next_buffers_own[0] =
        new_handle(tensor_of(args->buffers[0]) + at::sign(loads.sum() - 2 * loads) * 0.5);
  };
  return test;
}

// two_experts(), with the rows of a lookup in place of the first buffer.
TestModel experts_with_rows() {
  static constexpr tenon_axis kAxes[] = {{"B", -1}, {nullptr, 2}};
  TestModel test = two_experts();
  test.inputs = {"x", "r"};
  test.num_values = 3;
  test.lookups[1] = [](tenon_value_spec& spec) {
    spec.source = "user";
    spec.axes = kAxes;
    spec.num_axes = 2;
  };
  test.blocks = {
      {{0, 1},
       {2},
       {0},
       0,
       [](const Tensors& x, const Tensors& p, tenon_forward_args* args) {
         const at::Tensor shares = at::softmax(x[0].matmul(p[0]) + x[1], -1);
         const at::Tensor loads = at::bincount(std::get<1>(shares.detach().max(-1)), {}, 2);
         const int64_t tokens = x[0].size(0);
         const at::Tensor count = at::cat({loads, at::full({1}, tokens, at::kLong)});
         const at::Tensor sum = shares.sum(0);
         if (args->add_loss(args, "balance", borrow(sum), borrow(count), 0.25) != nullptr) {
           return Tensors{};
         }
         set_next(args, 1, loads);
         set_next(args, 2, buffer(args, 2) + tokens);
         return Tensors{shares};
       },
       {0, 1, 2}}};
  return test;
}

// Rows that the training pass of a step inserts. They choose the second expert.
class NewRows final : public OneRowPass {
 public:
  void start(const Batch* batch, const CallPoint&, Lookup lookup) override {
    samples_ = static_cast<int64_t>(batch->samples);
    is_there_ = lookup == Lookup::kTrain || lookup == Lookup::kPreview;
  }
  at::Tensor rows(uint32_t, const at::Tensor&) override {
    const at::Tensor row = at::tensor(std::vector<float>{-100, 100});
    return (is_there_ ? row : -row).expand({samples_, 2}).contiguous();
  }
  void take_grad(uint32_t, const at::Tensor&) override {}

 private:
  int64_t samples_ = 0;
  bool is_there_ = false;
};

// What a step of two_experts() must give, of all its samples at once.
struct BalancedStep {
  double loss = 0;
  at::Tensor gradient;  // of weight * loss
  at::Tensor loads;
};

BalancedStep balanced_step(const at::Tensor& x, const at::Tensor& w) {
  const at::Tensor shares = at::softmax(x.matmul(w), -1);
  const at::Tensor loads = at::bincount(std::get<1>(shares.detach().max(-1)), {}, 2);
  const auto tokens = static_cast<double>(x.size(0));
  const at::Tensor loss = 2 * (loads / tokens * shares.sum(0) / tokens).sum();
  return {loss.item<double>(), torch::autograd::grad({0.25 * loss}, {w})[0], loads};
}

}  // namespace

TEST_CASE("a recompute reads the buffers that its forward read", "[model]") {
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  SumsRig rig(carried_state(), recompute);
  const Tensors w = {rig.parameter(0), rig.parameter(1), rig.parameter(2)};
  at::Tensor state = at::zeros({4}, at::kDouble);
  Tensors expected = {at::zeros_like(w[0]), at::zeros_like(w[1]), at::zeros_like(w[2])};
  for (uint32_t m = 0; m < 3; ++m) {
    const at::Tensor x = input_of(m);
    const at::Tensor h = at::tanh(x.matmul(w[0]) + state.matmul(w[1]));
    const at::Tensor y = h.matmul(w[2]);
    const Tensors grads = torch::autograd::grad({y.sum()}, w);
    for (size_t p = 0; p < w.size(); ++p) {
      expected[p] = expected[p] + grads[p];
    }
    state = h.detach().mean(0);
    rig.forward(x, m);
    CHECK(at::equal(rig.output(), y));
    rig.backward(at::ones_like(y));
    CHECK(at::equal(rig.store.buffer(0), state));
  }
  for (uint32_t p = 0; p < 3; ++p) {
    CHECK(at::equal(rig.grad(p), expected[p]));
  }
}

TEST_CASE("a skipped step restores the buffers that it changed", "[model]") {
  SumsRig rig(carried_state());
  rig.forward(input_of(0));
  const at::Tensor before = rig.store.buffer(0).clone();
  rig.store.keep_buffers();
  rig.forward(input_of(1));
  const at::Tensor after = rig.store.buffer(0).clone();
  REQUIRE_FALSE(at::equal(after, before));
  {
    const EarlierBuffers earlier(rig.store);
    CHECK(at::equal(rig.store.buffer(0), before));
  }
  CHECK(at::equal(rig.store.buffer(0), after));
  rig.store.restore_buffers(at::zeros({}));  // found nothing non-finite
  CHECK(at::equal(rig.store.buffer(0), after));
  rig.store.restore_buffers(at::ones({}));
  CHECK(at::equal(rig.store.buffer(0), before));
}

TEST_CASE("loads of a step are those of all its microbatches", "[model]") {
  const auto num_parts = GENERATE(1, 2, 4);
  const auto recompute = GENERATE(RecomputeMode::kNone, RecomputeMode::kBlocks);
  const at::Tensor x = input_of(0, 8);
  SumsRig rig(two_experts(), recompute);
  const BalancedStep want = balanced_step(x, rig.parameter(0));
  const Tensors parts = x.chunk(num_parts);
  StepSums& sums = rig.runner.sums();
  sums.clear();
  for (int i = 0; i < num_parts && num_parts > 1; ++i) {
    rig.runner.count_loads(SumsRig::batch(parts[i]), {1, static_cast<uint32_t>(i), true});
  }
  double sum = 0;
  double count = 0;
  for (int i = 0; i < num_parts; ++i) {
    rig.forward(parts[i], static_cast<uint32_t>(i));
    if (num_parts == 1) {
      rig.runner.add_loads();
    }
    REQUIRE(rig.runner.aux_losses().size() == 1);
    const auto [of_sum, of_count] =
        sum_and_count(rig.runner.sums(), rig.runner.aux_losses().front());
    sum += of_sum.item<double>();
    count += of_count.item<double>();
    rig.runner.backward(1.0 / num_parts);
  }
  CHECK(sum / count == Approx(want.loss).epsilon(1e-12));
  CHECK(at::allclose(rig.grad(0), want.gradient, 1e-12, 1e-14));
  rig.runner.end_step();
  CHECK(at::equal(rig.store.buffer(0), at::sign(8 - 2 * want.loads).to(at::kDouble) * 0.5));
  CHECK(at::equal(rig.store.buffer(1), at::zeros({2}, at::kLong)));
  CHECK(rig.store.buffer(2).item<int64_t>() == 8);
  // The next step starts from nothing, and a summed state grows.
  sums.clear();
  rig.forward(x);
  rig.runner.add_loads();
  rig.runner.backward(1);
  rig.runner.end_step();
  CHECK(rig.store.buffer(2).item<int64_t>() == 16);
}

TEST_CASE("loads are counted with the rows that the training pass inserts", "[model]") {
  NewRows rows;
  SumsRig rig(experts_with_rows(), RecomputeMode::kNone, nullptr, &rows);
  StepSums& sums = rig.runner.sums();
  sums.clear();
  rig.runner.count_loads(SumsRig::batch(input_of(0, 8)), {1, 0, true});
  const at::Tensor counted = sums.load_sums().front().clone();
  CHECK(at::equal(counted, at::tensor(std::vector<int64_t>{0, 8, 8}, at::kLong)));
  sums.clear();
  rig.forward(input_of(0, 8));
  rig.runner.add_loads();
  CHECK(at::equal(counted, sums.load_sums().front()));
  rig.runner.clear();
}

TEST_CASE("sums and buffers of a step are the same on all ranks", "[model][ranks]") {
  constexpr uint32_t kRanks = 3;  // the last one has no sample
  const at::Tensor x = input_of(0, 8);
  SumsRig whole(two_experts());
  const BalancedStep want = balanced_step(x, whole.parameter(0));
  std::vector<at::Tensor> gradients(kRanks);
  std::vector<at::Tensor> biases(kRanks);
  std::vector<int64_t> counts(kRanks);
  std::vector<at::Tensor> states(kRanks);
  run_ranks({.replicate = kRanks, .shard = 1}, kRanks, [&](RankGroups& ranks) {
    const uint32_t rank = ranks.role().rank();
    SumsRig rig(two_experts(), RecomputeMode::kNone, &ranks);
    rig.runner.sums().clear();
    if (rank < 2) {
      rig.forward(x.chunk(2)[rank]);
      rig.runner.add_loads();
    } else {
      rig.runner.forward_idle({1, 0, true});
    }
    rig.sharded.sum_over_ranks(rig.runner.sums().load_sums(), "loads of experts");
    if (rank < 2) {
      rig.runner.backward(0.5);
    } else {
      rig.runner.backward();
    }
    rig.sharded.finish_gradients();
    rig.runner.end_step();
    rig.sharded.synchronise_buffers();
    gradients[rank] = rig.grad(0).clone();
    biases[rank] = rig.store.buffer(0).clone();
    counts[rank] = rig.store.buffer(2).item<int64_t>();

    SumsRig carried(carried_state(), RecomputeMode::kNone, &ranks);
    carried.forward(input_of(rank));
    carried.backward(at::ones_like(carried.output()));
    carried.sharded.finish_gradients();
    carried.sharded.synchronise_buffers();
    states[rank] = carried.store.buffer(0).clone();
  });
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    CAPTURE(rank);
    CHECK(at::allclose(gradients[rank], want.gradient, 1e-12, 1e-14));
    CHECK(at::equal(biases[rank], at::sign(8 - 2 * want.loads).to(at::kDouble) * 0.5));
    CHECK(counts[rank] == 8);
    CHECK(at::equal(states[rank], states[0]));
  }
  SumsRig first(carried_state());
  first.forward(input_of(0));
  CHECK(at::equal(states[0], first.store.buffer(0)));
}

TEST_CASE("what contradicts the declared sums is the plugin's error", "[model]") {
  const auto error_of = [](TestModel test) {
    try {
      SumsRig rig(std::move(test));
      rig.forward(input_of(0));
      rig.runner.end_step();
    } catch (const Error& error) {
      return error.id() + ": " + error.message();
    }
    return std::string("none");
  };
  TestModel unknown = two_experts();
  unknown.summed_buffers = {7};
  CHECK_THAT(error_of(unknown), contains_text("model.bad_graph: the model sums buffer 7"));
  TestModel empty = two_experts();
  empty.balance_experts = {0};
  CHECK_THAT(error_of(empty), contains_text("a balance loss of 0 experts"));
  TestModel constant = carried_state();
  constant.buffers[0].kind = TENON_BUFFER_CONSTANT;
  CHECK_THAT(error_of(constant), contains_text("'b0', which it declared as constant"));
  TestModel integer = two_experts();
  integer.buffers[0].dtype = TENON_I64;
  CHECK_THAT(error_of(integer), contains_text("gave Float for its buffer 'b0', which is Long"));
}

}  // namespace tenon
