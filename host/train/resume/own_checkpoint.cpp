// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/own_checkpoint.hpp"

#include "host/text/formatted.hpp"

#include <charconv>
#include <cstdio>
#include <system_error>

namespace tenon {
namespace {

// Removes a prefix and the number after it from `rest`. Returns none, and removes nothing, if
// `rest` does not begin with them.
std::optional<uint64_t> take_number(std::string_view& rest, std::string_view prefix) {
  if (!rest.starts_with(prefix)) {
    return std::nullopt;
  }
  const std::string_view digits = rest.substr(prefix.size());
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  rest = digits.substr(static_cast<size_t>(end - digits.data()));
  return number;
}

}  // namespace

std::string checkpoint_name(const RunState& state, bool has_windows) {
  char step[40];
  std::snprintf(step, sizeof(step), "step-%08llu", static_cast<unsigned long long>(state.step));
  std::string name = step;
  if (state.tokens > 0) {
    name += formatted("_tokens-{}", state.tokens);
  }
  name += formatted("_epoch-{}", state.epochs);
  if (has_windows) {
    name += formatted("_window-{}", state.windows);
  }
  return name;
}

bool is_own_checkpoint(const CheckpointMetadata& metadata,
                       const std::string& name,
                       const RunTest& is_run) {
  if (!is_run(metadata.run)) {
    return false;
  }
  if (!metadata.checkpoint.empty()) {
    return metadata.checkpoint == name;
  }
  const RunState state{.step = metadata.step,
                       .epochs = metadata.epochs,
                       .windows = metadata.windows,
                       .tokens = metadata.tokens};
  for (const bool has_windows : {true, false}) {
    std::string_view rest = name;
    if (const std::string given = checkpoint_name(state, has_windows); rest.starts_with(given)) {
      rest.remove_prefix(given.size());
      take_number(rest, "_");  // as in NAME_2
      if (rest.empty()) {
        return true;
      }
    }
  }
  return false;
}

std::optional<uint64_t> step_in_name(std::string_view name) {
  const auto step = take_number(name, "step-");
  take_number(name, "_tokens-");
  const auto epochs = take_number(name, "_epoch-");
  take_number(name, "_window-");
  take_number(name, "_");
  return epochs.has_value() && name.empty() ? step : std::nullopt;
}

}  // namespace tenon
