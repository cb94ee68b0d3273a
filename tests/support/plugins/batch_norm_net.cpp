// SPDX-License-Identifier: Apache-2.0
//
// A model of one torch::nn module with buffers that change in training: batch normalisation of [B,
// 4].
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/module.hpp>

#include <torch/nn/modules/batchnorm.h>

#include <memory>

namespace {

struct Body : torch::nn::Module {
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
};

class BatchNormNet final : public tenon::ModuleModel {
 public:
  static constexpr const char* kType = "batch_norm_net";
  static constexpr const char* kSummary = "Test: batch normalisation";

  void describe(tenon::ModuleGraph& g) override {
    const auto x = g.input("x", {"B", 4}, TENON_CLASS_COMPUTE);
    g.module(
        "body",
        {x},
        {g.value("y", {"B", 4})},
        [] { return std::make_shared<Body>(); },
        [](const std::shared_ptr<Body>& body, const at::Tensor& in) { return body->norm(in); });
  }
};

}  // namespace

TENON_PLUGIN(BatchNormNet)
