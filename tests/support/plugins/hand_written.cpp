// SPDX-License-Identifier: Apache-2.0
//
// A model whose first block has a backward of its own and a buffer that counts steps: y = tanh(x
// w1^T) w2^T.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/ATen.h>

namespace {

class HandWritten final : public tenon::TorchModel {
 public:
  static constexpr const char* kType = "hand_written";
  static constexpr const char* kSummary = "Test: a block with a backward of its own";

  void describe(tenon::TorchGraph& g) override {
    const auto x = g.input("x", {"B", 3}, TENON_CLASS_COMPUTE);
    const auto h = g.value("h", {"B", 5});
    const auto first = g.parameter("first.weight", {5, 3}, tenon::Init::normal(0, 0.5));
    const auto steps = g.state("steps", {}, TENON_F32, [](at::Tensor& t) { t.zero_(); });
    g.block("first",
            {x},
            {h},
            {first},
            [](const tenon::BlockCall& b) {
              const at::Tensor out = at::tanh(at::linear(b.input(0), b.parameter(0)));
              b.save(b.input(0));
              b.save(out);
              b.set_next_buffer(0, b.buffer(0) + 1);
              return out;
            })
        .buffers({steps})
        .backward([](const tenon::BlockGradients& b) {
          const at::Tensor inner = b.grad_output(0) * (1 - b.saved(1).pow(2));
          b.set_grad_parameter(0, at::mm(inner.t(), b.saved(0)));
          if (b.wants_grad_input(0)) {
            b.set_grad_input(0, at::mm(inner, b.parameter(0)));
          }
        });
    const auto second = g.parameter("second.weight", {2, 5}, tenon::Init::uniform(-1, 1));
    g.block("second", {h}, {g.value("y", {"B", 2})}, {second}, [](const tenon::BlockCall& b) {
      return at::linear(b.input(0), b.parameter(0));
    });
  }
};

}  // namespace

TENON_PLUGIN(HandWritten)
