// SPDX-License-Identifier: Apache-2.0
//
// Dense layers over host-owned parameters, for use inside larger models. The model `mlp` builds its
// layers from modules instead.
#pragma once

#include <tenon/torch/model.hpp>
#include <tenon/torch/ops.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

/* What follows the last layer: nothing, or activation and dropout as after the other layers. */
enum class LastLayer { kPlain, kActivated };

enum class Activation { kRelu, kPrelu };

/* Dense layers with activation and dropout after each one; after the last only if `kActivated`. */
class DenseLayers {
 public:
  /* Declares the parameters "NAME.0.weight" [out, in], "NAME.0.bias" [out], ..., initialized as in
   * libtorch: uniform in +-1/sqrt(in). With PReLU, "NAME.0.slope" [1] follows, initialized to 0.25.
   */
  DenseLayers(TorchGraph& g,
              const std::string& name,
              int64_t in,
              const std::vector<int64_t>& widths,
              double dropout,
              LastLayer last,
              Activation activation = Activation::kRelu)
      : num_layers_(widths.size()), dropout_(dropout), last_(last), activation_(activation) {
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string layer = name + "." + std::to_string(i);
      const double bound = 1.0 / std::sqrt(static_cast<double>(in));
      const Init init = Init::uniform(-bound, bound);
      parameters_.push_back(g.parameter(layer + ".weight", {widths[i], in}, init));
      parameters_.push_back(g.parameter(layer + ".bias", {widths[i]}, init, TENON_PARAM_NO_DECAY));
      if (activation == Activation::kPrelu && is_activated(i)) {
        parameters_.push_back(
            g.parameter(layer + ".slope", {1}, Init::constant(0.25), TENON_PARAM_NO_DECAY));
      }
      in = widths[i];
    }
    width_ = in;
  }

  const std::vector<ParameterId>& parameters() const { return parameters_; }
  /* Width of the output. */
  int64_t width() const { return width_; }

  /* Maps [..., in] to [..., width()]. `first` is the block's index of the layers' first parameter.
   */
  at::Tensor run(const BlockCall& call, at::Tensor x, size_t first = 0) const {
    size_t p = first;
    for (size_t i = 0; i < num_layers_; ++i) {
      const bool is_plain = !is_activated(i);
      const bool has_relu = !is_plain && activation_ == Activation::kRelu;
      x = ops::linear(x, {call.parameter(p)}, call.parameter(p + 1), has_relu ? "relu" : "none");
      p += 2;
      if (is_plain) {
        continue;
      }
      if (activation_ == Activation::kPrelu) {
        x = at::prelu(x, call.parameter(p++));
      }
      if (dropout_ > 0 && call.is_train()) {
        x = at::dropout(x, dropout_, /*train=*/true);
      }
    }
    return x;
  }

 private:
  bool is_activated(size_t layer) const {
    return layer + 1 < num_layers_ || last_ == LastLayer::kActivated;
  }

  size_t num_layers_;
  double dropout_;
  LastLayer last_;
  Activation activation_;
  int64_t width_ = 0;
  std::vector<ParameterId> parameters_;
};

}  // namespace tenon
