// SPDX-License-Identifier: Apache-2.0
//
// Costs of blocks whose model says nothing of them: measured on meta tensors, or guessed.
#include "host/train/plan/block_cost.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"

namespace tenon {
namespace {

using Function = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)>;

// One block: x [B, 4] and w [4, 3] to y.
struct OneBlock {
  Function function;
  bool has_shape = true;

  static tenon_status* describe(void* self, tenon_model_builder* b) {
    auto& model = *static_cast<OneBlock*>(self);
    const tenon_axis x_axes[] = {{"B", -1}, {nullptr, 4}};
    const tenon_axis y_axes[] = {{"B", -1}, {nullptr, 3}};
    uint32_t x = 0;
    uint32_t y = 0;
    uint32_t w = 0;
    tenon_value_spec in{sizeof(in),
                        "x",
                        x_axes,
                        2,
                        TENON_CLASS_COMPUTE,
                        TENON_SOURCE_BATCH,
                        "x",
                        TENON_NO_INDEX,
                        TENON_POOL_NONE,
                        nullptr,
                        0,
                        TENON_INIT_ZEROS,
                        0,
                        0,
                        nullptr,
                        0,
                        0};
    tenon_value_spec out{sizeof(out),
                         "y",
                         model.has_shape ? y_axes : nullptr,
                         model.has_shape ? size_t{2} : size_t{0},
                         TENON_CLASS_COMPUTE,
                         TENON_SOURCE_BLOCK,
                         nullptr,
                         TENON_NO_INDEX,
                         TENON_POOL_NONE,
                         nullptr,
                         0,
                         TENON_INIT_ZEROS,
                         0,
                         0,
                         nullptr,
                         0,
                         0};
    const int64_t shape[] = {4, 3};
    tenon_parameter_spec parameter{};
    parameter.struct_size = sizeof(parameter);
    parameter.name = "w";
    parameter.shape = shape;
    parameter.ndim = 2;
    parameter.dtype = TENON_CLASS_PARAM;
    for (tenon_status* const status : {b->add_value(b, &in, &x),
                                       b->add_value(b, &out, &y),
                                       b->add_parameter(b, &parameter, &w)}) {
      if (status != nullptr) {
        return status;
      }
    }
    tenon_block_spec block{sizeof(block), "block", 0, 0, &x, 1, &y, 1, &w, 1, nullptr, 0, nullptr};
    uint32_t index = 0;
    return b->add_block(b, &block, &index);
  }
  static tenon_status* forward(void* self, const tenon_exec*, tenon_forward_args* args) {
    args->outputs_own[0] = new_handle(static_cast<OneBlock*>(self)->function(
        tensor_of(args->inputs[0]), tensor_of(args->parameters[0])));
    return nullptr;
  }
  static const tenon_model* table() {
    static const tenon_model calls{
        sizeof(tenon_model), describe, forward, nullptr, nullptr, nullptr, nullptr};
    return &calls;
  }
};

BlockCost cost_of(const Function& function, bool has_shape = true) {
  OneBlock model{function, has_shape};
  ModelProxy proxy(made_instance("model", TENON_MODEL_ID, OneBlock::table(), &model));
  const ModelGraph graph = describe_model(proxy);
  CostQuestion question;
  question.fields = {{"x", at::kFloat, {10, 4}}};
  question.num_samples = 10;
  question.is_trainable = [](uint32_t) { return true; };
  return block_costs(proxy, graph, question).front();
}

}  // namespace

TEST_CASE("a block without a word of its cost is measured on tensors without memory", "[model]") {
  // A product of [10, 4] and [4, 3] keeps its inputs alone; tanh keeps its result, the output.
  const BlockCost product =
      cost_of([](const at::Tensor& x, const at::Tensor& w) { return at::tanh(at::mm(x, w)); });
  CHECK(product.source == BlockCost::Source::kMeasured);
  CHECK(product.forward_flops == 2.0 * 10 * 4 * 3);
  CHECK(product.backward_flops == 2.0 * 10 * 4 * 3);  // by w alone: nobody asks for x's gradient
  CHECK(product.output_bytes == 10 * 3 * 4);
  CHECK(product.saved_bytes == 0);
  CHECK(product.working_bytes >= 4 * 3 * 4);

  // The sine's input is kept as well, to multiply with its cosine.
  const BlockCost sine =
      cost_of([](const at::Tensor& x, const at::Tensor& w) { return at::sin(at::mm(x, w)); });
  CHECK(sine.saved_bytes == 10 * 3 * 4);

  const BlockCost unknown_shape =
      cost_of([](const at::Tensor& x, const at::Tensor& w) { return at::mm(x, w); }, false);
  CHECK(unknown_shape.output_bytes == 10 * 3 * 4);
}

TEST_CASE("normalizations, convolutions and relu are measured on tensors without memory",
          "[model]") {
  const Function batch_norm = [](const at::Tensor& x, const at::Tensor& w) {
    const at::Tensor mean = at::zeros({3}, x.options());
    return at::batch_norm(at::mm(x, w), mean, mean, mean, mean, true, 0.1, 1e-5, false);
  };
  const Function layer_norm = [](const at::Tensor& x, const at::Tensor& w) {
    return at::layer_norm(at::mm(x, w), {3}, w[0], w[1]);
  };
  const Function group_norm = [](const at::Tensor& x, const at::Tensor& w) {
    return at::group_norm(at::mm(x, w), 3, w[0], w[1]);
  };
  const Function convolution = [](const at::Tensor& x, const at::Tensor& w) {
    return at::conv1d(x.unsqueeze(1), w.t().reshape({3, 1, 4})).squeeze(2);
  };
  const Function relu = [](const at::Tensor& x, const at::Tensor& w) {
    return at::relu(at::mm(x, w));
  };
  for (const auto& [name, function] : {std::pair<std::string, Function>{"batch_norm", batch_norm},
                                       {"layer_norm", layer_norm},
                                       {"group_norm", group_norm},
                                       {"convolution", convolution},
                                       {"relu", relu}}) {
    const BlockCost cost = cost_of(function);
    INFO(name + ": " + cost.why);
    CHECK(cost.source == BlockCost::Source::kMeasured);
    CHECK(cost.forward_flops == 2.0 * 10 * 4 * 3);
    CHECK(cost.backward_flops > 0);
    CHECK(cost.output_bytes == 10 * 3 * 4);
  }
}

TEST_CASE("a block that cannot run without data is guessed from its parameters", "[model]") {
  const Function reads = [](const at::Tensor& x, const at::Tensor& w) {
    return at::mm(x, w) * x.sum().item<float>();
  };
  const BlockCost cost = cost_of(reads);
  CHECK(cost.source == BlockCost::Source::kGuessed);
  CHECK_FALSE(cost.why.empty());
  CHECK(cost.forward_flops == 2.0 * 10 * 4 * 3);
  CHECK(cost.output_bytes == 10 * 3 * 4);
  try {
    (void)cost_of(reads, false);
    FAIL("a shape was found");
  } catch (const Error& error) {
    CHECK(error.id() == "model.unknown_shape");
    CHECK_THAT(error.message(), contains_text("value 'y'"));
  }
}

}  // namespace tenon
