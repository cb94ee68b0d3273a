// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/saved_model.hpp"

#include "host/error/error.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/run_state/state_names.hpp"

#include <cstdio>
#include <string_view>
#include <utility>

namespace tenon {
namespace {

std::string in_best(std::string_view name) {
  return state_path(run_state::kBest, name);
}

bool is_of_model(std::string_view name) {
  return is_name_in(name, run_state::kParameters) || is_name_in(name, run_state::kTables);
}

std::optional<SavedBest> saved_best(const StateTree& state) {
  if (!state.has_subtree(run_state::kBest) || state.get_int(in_best("has")) == 0) {
    return std::nullopt;
  }
  SavedBest best{.step = saved_count(state, in_best("step")),
                 .value = state.get_double(in_best("value"))};
  if (state.find(in_best("metric")) != nullptr) {
    best.metric = state.get_bytes(in_best("metric"));
  }
  return best;
}

// Puts the values of the best evaluation in the place of those of the last step.
StateTree with_best_values(const StateTree& state) {
  StateTree result;
  const std::string kept = in_best("kept");
  const auto name_in = [&kept](const std::string& name) -> std::string {
    if (const auto rest = name_below(name, kept)) {
      return std::string(*rest);
    }
    return is_of_model(name) || is_name_in(name, run_state::kBest) ? "" : name;
  };
  for (const auto& [name, version] : state.versions()) {
    if (const std::string in = name_in(name); name.empty() || !in.empty()) {
      result.set_version(in, version);
    }
  }
  for (const auto& [name, entry] : state.entries()) {
    if (const std::string in = name_in(name); !in.empty()) {
      result.put_entry(in, entry);
    }
  }
  return result;
}

std::string best_text(const SavedBest& best) {
  char value[32];
  std::snprintf(value, sizeof(value), "%.6g", best.value);
  return (best.metric.empty() ? "metric" : best.metric) + " " + value;
}

}  // namespace

SavedModel saved_model(const CheckpointReader& reader, StateTree state, WhichParameters which) {
  const uint64_t last = reader.index().metadata.step;
  const std::optional<SavedBest> best = saved_best(state);
  if (which == WhichParameters::kBest && !best.has_value()) {
    throw Error("checkpoint.no_best",
                reader.address() +
                    " has no parameters of a best evaluation: eval.keep_best was not set, or "
                    "nothing was evaluated before it; read those of its last step instead (last)");
  }
  if (!best.has_value() || which == WhichParameters::kLast) {
    return {.state = std::move(state),
            .step = last,
            .text = formatted("step {} of {}{}",
                              last,
                              reader.address(),
                              best.has_value() ? formatted(", the last step; the best so far is "
                                                           "step {} ({})",
                                                           best->step,
                                                           best_text(*best))
                                               : "")};
  }
  return {.state = with_best_values(state),
          .step = best->step,
          .best = best,
          .text = formatted("step {} of {}, the best so far ({}); its last step is {}",
                            best->step,
                            reader.address(),
                            best_text(*best),
                            last)};
}

}  // namespace tenon
