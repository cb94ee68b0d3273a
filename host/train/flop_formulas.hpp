// SPDX-License-Identifier: Apache-2.0
//
// Formulas for the floating-point operations of training a decoder on sequences, forward and
// backward. Each is applied to the lengths of the sequences; padding does not count.
// Threads: pure functions, from any.
#pragma once

#include <array>
#include <string>

namespace tenon {

// What the formulas know of a model.
struct ModelSize {
  // Parameters that a token uses; tied parameters count once. Of experts, only the chosen ones.
  double parameters = 0;
  double trainable = 0;  // those of them that are trained
  double embedding = 0;  // those of them that are only looked up by id
  double heads = 0;      // width of all query heads, added up over layers: L H Q
  double hidden = 0;     // width of the hidden states, added up over layers with attention: L D

  bool operator==(const ModelSize&) const = default;
};

// Sequences of a batch.
struct SequenceSums {
  double tokens = 0;
  double squares = 0;  // of their lengths

  void add(double length) {
    tokens += length;
    squares += length * length;
  }
};

struct FlopFormula {
  const char* id;
  // Operations of a token in a sequence of T tokens are fixed + of_length * T.
  double (*fixed)(const ModelSize& model);
  double (*of_length)(const ModelSize& model);

  double flops(const ModelSize& model, const SequenceSums& of) const {
    return fixed(model) * of.tokens + of_length(model) * of.squares;
  }
};

// "palm": 6 N + 12 L H Q T. Source: Chowdhery et al., PaLM (2022), appendix B.
// "titan": 6 (N - N_embedding) + 12 L H Q T. Source: TorchTitan, `get_nparams_and_flops`.
// "modalities": 6 N + 12 L D T, of trainable parameters. Source: Modalities, `MFUCalculator`.
const std::array<FlopFormula, 3>& flop_formulas();

// The id of the count by the model's own `infer`.
inline constexpr const char* kExactFlops = "exact";

}  // namespace tenon
