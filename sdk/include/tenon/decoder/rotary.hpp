// SPDX-License-Identifier: Apache-2.0
//
// Rotary positions of decoders: the table of cosines and sines, and its scaling for sequences that
// are longer than in pretraining. Names of options are those of Hugging Face's `rope_parameters`.
#ifndef TENON_DECODER_ROTARY_HPP
#define TENON_DECODER_ROTARY_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/options.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* How rotary frequencies are scaled.
 *
 * Source   yarn: Peng et al., YaRN (ICLR 2024); llama3: Dubey et al., The Llama 3 Herd of Models
 *          (2024), section 3.4.2; longrope: Ding et al., LongRoPE (ICML 2024) */
enum class RopeType { kLinear, kLlama3, kYarn, kLongRope };

/* Option `rope_scaling`. */
struct RopeScaling {
  RopeType rope_type = RopeType::kLlama3;
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_max_position_embeddings = 8192;
  std::optional<double> attention_factor;
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  bool truncate = true;
  std::vector<double> short_factor;
  std::vector<double> long_factor;

  static void bind(OptionBinder<RopeScaling>& b) {
    b.choice("rope_type",
             &RopeScaling::rope_type,
             {{"linear", RopeType::kLinear},
              {"llama3", RopeType::kLlama3},
              {"yarn", RopeType::kYarn},
              {"longrope", RopeType::kLongRope}})
        .doc(
            "linear: divide all frequencies by factor; llama3, yarn: divide only low frequencies; "
            "longrope: divide each by its own factor");
    b.field("factor", &RopeScaling::factor)
        .min(1)
        .doc("divisor of the scaled frequencies; unused by longrope");
    b.field("low_freq_factor", &RopeScaling::low_freq_factor)
        .exclusive_min(0)
        .doc("llama3: wavelengths above original length / this are scaled fully");
    b.field("high_freq_factor", &RopeScaling::high_freq_factor)
        .exclusive_min(0)
        .doc("llama3: wavelengths below original length / this are not scaled");
    b.field("original_max_position_embeddings", &RopeScaling::original_max_position_embeddings)
        .min(1)
        .max(double{1 << 28})
        .doc("llama3, yarn, longrope: sequence length of pretraining");
    b.field("attention_factor", &RopeScaling::attention_factor)
        .exclusive_min(0)
        .doc("yarn, longrope: factor of queries and keys; null: derived from the lengths");
    b.field("beta_fast", &RopeScaling::beta_fast)
        .exclusive_min(0)
        .doc("yarn: frequencies with more turns in the original length are not scaled");
    b.field("beta_slow", &RopeScaling::beta_slow)
        .exclusive_min(0)
        .doc("yarn: frequencies with fewer turns in the original length are scaled fully");
    b.field("mscale", &RopeScaling::mscale)
        .doc("yarn: numerator of the derived attention_factor; null: the paper's formula");
    b.field("mscale_all_dim", &RopeScaling::mscale_all_dim)
        .doc("yarn: denominator of the derived attention_factor; null: the paper's formula");
    b.field("truncate", &RopeScaling::truncate)
        .doc("yarn: whether the range of partly scaled frequencies ends at whole features");
    b.field("short_factor", &RopeScaling::short_factor)
        .exclusive_min(0)
        .doc("longrope: divisor of each frequency, for sequences up to the original length");
    b.field("long_factor", &RopeScaling::long_factor)
        .exclusive_min(0)
        .doc("longrope: divisor of each frequency, for longer sequences");
  }
};

/* Returns the name of a rope type in `config.json`. */
inline const char* rope_type_name(const std::optional<RopeScaling>& scaling) {
  if (!scaling.has_value()) {
    return "default";
  }
  switch (scaling->rope_type) {
    case RopeType::kLinear:
      return "linear";
    case RopeType::kLlama3:
      return "llama3";
    case RopeType::kYarn:
      return "yarn";
    case RopeType::kLongRope:
      return "longrope";
  }
  return "default";
}

/* YaRN's factor of queries and keys for a context that is `scale` times as long.
 *
 * Source   Peng et al., YaRN (ICLR 2024), equation 22 */
inline double yarn_mscale(double scale, double mscale = 1.0) {
  return scale <= 1.0 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

/* One rotary table of a decoder: cos and sin of position times frequency, [2, P, R/2] in fp32. With
 * longrope it has a second pair for long sequences, [4, P, R/2].
 *
 * Threads  any */
struct RotaryTable {
  int64_t rotated = 0;       /* R: features of a head that are rotated, even */
  int64_t max_positions = 0; /* P */
  double theta = 10000.0;    /* base of the frequencies */
  std::optional<RopeScaling> scaling = std::nullopt;

  bool is_long() const { return scaling.has_value() && scaling->rope_type == RopeType::kLongRope; }
  std::vector<int64_t> shape() const { return {is_long() ? 4 : 2, max_positions, rotated / 2}; }

  /* Errors   TENON_INVALID, naming the option, for options that contradict each other */
  void check() const {
    TENON_CHECK(rotated > 0 && rotated % 2 == 0,
                "the rotated part of a head is ",
                rotated,
                " wide, which must be positive and even; change the width of heads");
    if (!is_long()) {
      return;
    }
    for (const auto* const factors : {&scaling->short_factor, &scaling->long_factor}) {
      TENON_CHECK(static_cast<int64_t>(factors->size()) == rotated / 2,
                  "rope_scaling.",
                  factors == &scaling->short_factor ? "short_factor" : "long_factor",
                  " has ",
                  factors->size(),
                  " numbers (expected ",
                  rotated / 2,
                  ", half of the rotated part of a head)");
    }
  }

  /* Factor of queries and keys, which is part of cos and sin. */
  double attention_factor() const {
    if (!scaling.has_value()) {
      return 1.0;
    }
    const RopeScaling& s = *scaling;
    if (s.rope_type != RopeType::kYarn && s.rope_type != RopeType::kLongRope) {
      return 1.0;
    }
    if (s.attention_factor.has_value()) {
      return *s.attention_factor;
    }
    const auto original = static_cast<double>(s.original_max_position_embeddings);
    if (s.rope_type == RopeType::kLongRope) {
      return long_attention_factor(static_cast<double>(max_positions) / original, original);
    }
    const double mscale = s.mscale.value_or(0.0);
    const double all = s.mscale_all_dim.value_or(0.0);
    return mscale != 0.0 && all != 0.0 ? yarn_mscale(s.factor, mscale) / yarn_mscale(s.factor, all)
                                       : yarn_mscale(s.factor);
  }

  /* Factor of queries and keys of longrope, for sequences that are `longer` times as long as the
   * `original` length. */
  static double long_attention_factor(double longer, double original) {
    return longer <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(longer) / std::log(original));
  }

  /* Writes the table.
   *
   * Shapes   table: `shape()`, f32, on the CPU */
  void fill(at::Tensor& table) const {
    const at::Tensor positions = at::arange(max_positions, at::dtype(at::kFloat));
    for (int64_t pair = 0; pair < table.size(0); pair += 2) {
      const at::Tensor angles = at::outer(positions, frequencies(pair > 0));
      table.select(0, pair).copy_(angles.cos() * attention_factor());
      table.select(0, pair + 1).copy_(angles.sin() * attention_factor());
    }
  }

 private:
  at::Tensor frequencies(bool for_long) const {
    const auto R = static_cast<double>(rotated);
    const at::Tensor exponents = at::arange(0, rotated, 2, at::dtype(at::kLong)).to(at::kFloat) / R;
    const at::Tensor plain = 1.0 / at::pow(theta, exponents);
    if (!scaling.has_value()) {
      return plain;
    }
    switch (scaling->rope_type) {
      case RopeType::kLinear:
        return plain / scaling->factor;
      case RopeType::kLlama3:
        return llama3(plain);
      case RopeType::kYarn:
        return yarn(exponents);
      case RopeType::kLongRope:
        break;
    }
    const std::vector<double>& factors = for_long ? scaling->long_factor : scaling->short_factor;
    return 1.0 / (at::tensor(factors, at::dtype(at::kFloat)) * at::pow(theta, exponents));
  }

  // Between the two wavelengths, scaled and unscaled frequencies are interpolated.
  at::Tensor llama3(const at::Tensor& plain) const {
    const RopeScaling& s = *scaling;
    const at::Tensor waves =
        plain * (static_cast<double>(s.original_max_position_embeddings) / kTurn);
    const at::Tensor kept =
        ((waves - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor)).clamp(0.0, 1.0);
    return (1.0 - kept) * plain / s.factor + kept * plain;
  }

  at::Tensor yarn(const at::Tensor& exponents) const {
    const RopeScaling& s = *scaling;
    const auto R = static_cast<double>(rotated);
    const auto original = static_cast<double>(s.original_max_position_embeddings);
    const auto feature_with = [&](double turns) {
      return R * std::log(original / (turns * kTurn)) / (2.0 * std::log(theta));
    };
    const double first = feature_with(s.beta_fast);
    const double last = feature_with(s.beta_slow);
    const double low = std::max(s.truncate ? std::floor(first) : first, 0.0);
    const double high = std::min(s.truncate ? std::ceil(last) : last, R - 1.0);
    const double span = low == high ? 0.001 : high - low;
    const at::Tensor scaled_part =
        ((at::arange(rotated / 2, at::dtype(at::kFloat)) - low) / span).clamp(0.0, 1.0);
    const at::Tensor powers = at::pow(theta, exponents);
    return 1.0 / (s.factor * powers) * scaled_part + 1.0 / powers * (1.0 - scaled_part);
  }

  static constexpr double kTurn = 6.283185307179586;
};

TENON_NAMESPACE_END

#endif
