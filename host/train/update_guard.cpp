// SPDX-License-Identifier: Apache-2.0
#include "host/train/update_guard.hpp"

#include "host/error/assert.hpp"
#include "host/log/log.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kStateVersion = 1;

// A run that begins so will not get better: it ends at once, while nothing is lost.
constexpr uint64_t kFirstSteps = 10;

// Bounds how late a run on a device hears of what it did.
constexpr size_t kMaxPending = 100;

}  // namespace

void UpdateGuard::record(uint64_t step, bool is_finite, const Origin& origin) {
  if (is_finite) {
    count_.in_a_row = 0;
    return;
  }
  ++count_.steps;
  ++count_.in_a_row;
  count_.longest_row = std::max(count_.longest_row, count_.in_a_row);
  count_.last_step = step;
  if (is_lenient() && count_.in_a_row > 1) {
    return;  // what follows from the first of a row says nothing new
  }
  count_.last_origin = origin();
  const std::string what = "step " + std::to_string(step) + ": the update is not finite";
  if (failure_.has_value()) {
    return;
  }
  if (const auto reason = reason_to_end(step)) {
    failed_since_ = step + 1 - count_.in_a_row;
    failure_.emplace("train.non_finite",
                     what + ": " + count_.last_origin + "; " + *reason +
                         "; mend what is named, or lower the rate");
  } else if (is_lenient()) {
    log_warning(what + " and is made all the same: " + count_.last_origin);
  } else {
    log_warning(what + " and is left out (" + std::to_string(count_.in_a_row) + " in a row, " +
                std::to_string(count_.steps) + " in all): " + count_.last_origin);
  }
}

std::optional<std::string> UpdateGuard::reason_to_end(uint64_t step) const {
  switch (recipe_.policy) {
    case NonFinitePolicy::kIgnore:
      return std::nullopt;
    case NonFinitePolicy::kStop:
      return "/train/non_finite/policy is \"stop\"";
    case NonFinitePolicy::kSkip:
      break;
  }
  if (step <= kFirstSteps) {
    return "none may be skipped among the first " + std::to_string(kFirstSteps) + " steps";
  }
  if (count_.in_a_row >= static_cast<uint64_t>(recipe_.max_in_a_row)) {
    return "it is number " + std::to_string(count_.in_a_row) +
           " in a row, and /train/non_finite/max_in_a_row allows no more";
  }
  return std::nullopt;
}

void UpdateGuard::record_later(uint64_t step, at::Tensor found, Origin origin) {
  pending_.push_back({step, std::move(found), std::move(origin)});
}

size_t UpdateGuard::settle() {
  if (pending_.empty()) {
    return 0;
  }
  std::vector<at::Tensor> found;
  found.reserve(pending_.size());
  for (const Pending& pending : pending_) {
    found.push_back(pending.found);
  }
  const at::Tensor values = at::stack(found).cpu();  // waits once for all
  const std::vector<Pending> settled = std::exchange(pending_, {});
  size_t num_found = 0;
  for (size_t i = 0; i < settled.size(); ++i) {
    const bool is_finite = values[static_cast<int64_t>(i)].item<float>() == 0;
    num_found += is_finite ? 0 : 1;
    record(settled[i].step, is_finite, settled[i].origin);
  }
  return num_found;
}

bool UpdateGuard::is_settling_due() const {
  return count_.in_a_row > 0 || pending_.size() >= kMaxPending;
}

std::optional<uint64_t> UpdateGuard::row_begin() const {
  if (failure_.has_value()) {
    return failed_since_;
  }
  if (is_lenient() || count_.in_a_row == 0) {
    return std::nullopt;
  }
  return count_.last_step + 1 - count_.in_a_row;
}

void UpdateGuard::snapshot(StateTree& tree, const std::string& prefix) const {
  TENON_ASSERT(pending_.empty(), "settle() comes first");
  tree.set_version(prefix, kStateVersion);
  const auto put = [&](const char* name, uint64_t value) {
    tree.put_int(state_path(prefix, name), static_cast<int64_t>(value));
  };
  put("steps", count_.steps);
  put("in_a_row", count_.in_a_row);
  put("longest_row", count_.longest_row);
  put("last_step", count_.last_step);
  tree.put_bytes(state_path(prefix, "last_origin"), count_.last_origin);
}

void UpdateGuard::load(const StateTree& tree, const std::string& prefix) {
  const auto get = [&](const char* name) {
    return static_cast<uint64_t>(tree.get_int(state_path(prefix, name)));
  };
  count_ = {.steps = get("steps"),
            .in_a_row = get("in_a_row"),
            .longest_row = get("longest_row"),
            .last_step = get("last_step"),
            .last_origin = tree.get_bytes(state_path(prefix, "last_origin"))};
  failure_.reset();
  pending_.clear();
}

}  // namespace tenon
