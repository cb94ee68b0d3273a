// SPDX-License-Identifier: Apache-2.0

#include "host/recipe/step_size.hpp"

#include "host/json/json_path.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace tenon {
namespace {

using nlohmann::json;

constexpr char kSamples[] = "/train/global_batch_size";
constexpr char kTokens[] = "/train/global_batch_tokens";
constexpr char kAccumulation[] = "/train/gradient_accumulation";
constexpr char kBatch[] = "/data/batch_size";
constexpr char kRow[] = "/data/train/packing/length";

class StepSize {
 public:
  StepSize(const json& root, const PlaceMap& places, ProblemList& problems)
      : root_(root), places_(places), problems_(problems) {}

  void check() {
    const std::optional<std::int64_t> samples = integer_at(kSamples);
    const std::optional<std::int64_t> tokens = integer_at(kTokens);
    if (!samples && !tokens) {
      return;
    }
    const std::string key = tokens ? "global_batch_tokens" : "global_batch_size";
    if (integer_at(kAccumulation) && !places_.is_default(kAccumulation)) {
      conflict(
          kAccumulation,
          "conflicts with " + key + ", which sets it",
          "remove one of the two (" + key + " is at " + places_.at("/train/" + key).text() + ")");
    }
    if (tokens) {
      check_tokens(*tokens);
    } else {
      check_samples(*samples);
    }
  }

 private:
  void check_samples(std::int64_t samples) {
    const std::optional<std::int64_t> batch = integer_at(kBatch);
    if (batch && *batch > 0 && samples > 0 && samples % *batch != 0) {
      add("recipe.indivisible",
          kSamples,
          formatted(
              "a step of {} samples does not divide into microbatches of {}", samples, *batch),
          formatted("{}; choose a multiple of data.batch_size (at {})",
                    division(samples, *batch),
                    places_.at(kBatch).text()));
    }
  }

  void check_tokens(std::int64_t tokens) {
    if (integer_at(kSamples)) {
      conflict(
          kSamples,
          "conflicts with global_batch_tokens: both set the size of a step",
          "remove one of the two (global_batch_tokens is at " + places_.at(kTokens).text() + ")");
    }
    const json* const packing = find_at(root_, "/data/train/packing");
    if (packing == nullptr || !packing->is_object()) {
      conflict(kTokens,
               "needs data.train.packing, which sets the tokens of a row",
               "set data.train.packing, or give the step in samples by global_batch_size");
      return;
    }
    const std::optional<std::int64_t> batch = integer_at(kBatch);
    const std::optional<std::int64_t> row = integer_at(kRow);
    std::int64_t microbatch = 0;
    const bool is_sound = tokens > 0 && batch && *batch > 0 && row && *row > 0 &&
                          !__builtin_mul_overflow(*batch, *row, &microbatch);
    if (is_sound && tokens % microbatch != 0) {
      add("recipe.indivisible",
          kTokens,
          formatted("a step of {} tokens does not divide into microbatches of {} rows of {} tokens",
                    tokens,
                    *batch,
                    *row),
          formatted("{}; choose a multiple of data.batch_size (at {}) times "
                    "data.train.packing.length",
                    division(tokens, microbatch),
                    places_.at(kBatch).text()));
    }
  }

  // "10 = 2 * 4 + 2".
  static std::string division(std::int64_t size, std::int64_t by) {
    return formatted("{} = {} * {} + {}", size, size / by, by, size % by);
  }

  std::optional<std::int64_t> integer_at(const char* pointer) const {
    const json* const value = find_at(root_, pointer);
    return value != nullptr && value->is_number_integer()
               ? std::optional(value->get<std::int64_t>())
               : std::nullopt;
  }

  void add(const char* id, const std::string& pointer, std::string what, std::string note) {
    problems_.push_back({.id = id,
                         .place = places_.at(pointer),
                         .pointer = pointer,
                         .what = std::move(what),
                         .note = std::move(note)});
  }

  void conflict(const std::string& pointer, std::string what, std::string note) {
    add("recipe.contradiction", pointer, std::move(what), std::move(note));
  }

  const json& root_;
  const PlaceMap& places_;
  ProblemList& problems_;
};

}  // namespace

void check_step_size(const json& root, const PlaceMap& places, ProblemList& problems) {
  StepSize(root, places, problems).check();
}

}  // namespace tenon
