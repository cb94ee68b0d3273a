// SPDX-License-Identifier: Apache-2.0
//
// The section "kernels" of a recipe: which kernels compute the host's operators. An operator's
// `plain` kernels are libtorch's; `auto` takes the fastest.
#pragma once

#include <array>
#include <string>

namespace tenon {

struct KernelsRecipe {
  std::string all = "auto";  // the section as a word: "auto" or "plain"
  std::string attention = "auto";
  std::string cross_entropy = "auto";
  std::string embedding = "auto";
  std::string gated_mlp = "auto";
  std::string layer_norm = "auto";
  std::string linear = "auto";
  std::string rms_norm = "auto";
  std::string rope = "auto";

  // The keys of the section, which are names of operators, in order.
  struct Key {
    const char* op;
    std::string KernelsRecipe::*kernel;
    const char* doc;
  };
  static std::array<Key, 8> keys() {
    return {{{"attention", &KernelsRecipe::attention, "kernels of attention"},
             {"cross_entropy",
              &KernelsRecipe::cross_entropy,
              "kernels of cross entropy and token_logps"},
             {"embedding", &KernelsRecipe::embedding, "kernels of embeddings and their gradients"},
             {"gated_mlp", &KernelsRecipe::gated_mlp, "kernels of gated feed-forward layers"},
             {"layer_norm", &KernelsRecipe::layer_norm, "kernels of LayerNorm"},
             {"linear",
              &KernelsRecipe::linear,
              "matrix products; auto: the fastest of MKL (libtorch's BLAS), oneDNN and Tenon's own "
              "kernels, by measurement"},
             {"rms_norm", &KernelsRecipe::rms_norm, "kernels of RMSNorm"},
             {"rope", &KernelsRecipe::rope, "kernels of rotary positions"}}};
  }

  template <class Section>
  static void bind(Section& s) {
    s.word_form(&KernelsRecipe::all, "^(auto|plain)$");
    for (const Key& key : keys()) {
      auto& bound = s.key(key.op, key.kernel).doc(key.doc);
      if (key.kernel == &KernelsRecipe::linear) {
        bound.choices({"auto", "plain", "mkl", "onednn", "tenon"});
      } else {
        bound.choices({"auto", "plain"});
      }
    }
  }

  // Candidates by operator, without those that are "auto".
  template <class Map>
  Map forced() const {
    Map map;
    for (const Key& key : keys()) {
      if (const std::string& kernel = this->*key.kernel; kernel != "auto") {
        map.emplace(key.op, kernel);
      }
    }
    return map;
  }
};

}  // namespace tenon
