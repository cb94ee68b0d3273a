// SPDX-License-Identifier: Apache-2.0
#include "host/train/update_guard.hpp"

#include "host/error/assert.hpp"
#include "host/log/log.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kUpdateGuardVersion = 1;

// A non-finite update in the first N steps ends the run, since it would not recover and little is
// lost.
constexpr uint64_t kFirstSteps = 10;

// Maximum number of steps whose results may be pending on a device.
constexpr size_t kMaxPending = 100;

}  // namespace

void UpdateGuard::record(uint64_t step, bool is_finite, const Origin& origin) {
  if (is_finite) {
    count_.consecutive = 0;
    return;
  }
  ++count_.steps;
  ++count_.consecutive;
  count_.longest_streak = std::max(count_.longest_streak, count_.consecutive);
  count_.last_step = step;
  if (is_exempt() && count_.consecutive > 1) {
    return;  // the rest of a streak adds no information
  }
  count_.last_origin = origin();
  const std::string what = formatted("step {}: the update is non-finite", step);
  if (failure_.has_value()) {
    return;
  }
  if (const auto reason = reason_to_end(step)) {
    failed_since_ = step + 1 - count_.consecutive;
    failure_.emplace("train.non_finite",
                     what + ": " + count_.last_origin + "; " + *reason +
                         "; fix the named cause, or lower the learning rate");
  } else if (is_exempt()) {
    log_warning(what + " and is applied anyway: " + count_.last_origin);
  } else {
    log_warning(formatted("{} and is skipped ({} consecutive, {} in total): {}",
                          what,
                          count_.consecutive,
                          count_.steps,
                          count_.last_origin));
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
    return formatted("none may be skipped among the first {} steps", kFirstSteps);
  }
  if (count_.consecutive >= static_cast<uint64_t>(recipe_.max_consecutive)) {
    return formatted(
        "{} consecutive updates were non-finite, and /train/non_finite/max_consecutive allows no "
        "more",
        count_.consecutive);
  }
  return std::nullopt;
}

void UpdateGuard::record_later(uint64_t step, at::Tensor found, Origin origin) {
  pending_.push_back({step, std::move(found), std::move(origin)});
}

size_t UpdateGuard::sync() {
  if (pending_.empty()) {
    return 0;
  }
  std::vector<at::Tensor> found;
  found.reserve(pending_.size());
  for (const Pending& pending : pending_) {
    found.push_back(pending.found);
  }
  const at::Tensor values = at::stack(found).cpu();  // waits once for all
  const std::vector<Pending> heard = std::exchange(pending_, {});
  size_t num_found = 0;
  for (size_t i = 0; i < heard.size(); ++i) {
    const bool is_finite = values[static_cast<int64_t>(i)].item<float>() == 0;
    num_found += is_finite ? 0 : 1;
    record(heard[i].step, is_finite, heard[i].origin);
  }
  return num_found;
}

bool UpdateGuard::is_sync_due() const {
  return count_.consecutive > 0 || pending_.size() >= kMaxPending;
}

std::optional<uint64_t> UpdateGuard::streak_begin() const {
  if (failure_.has_value()) {
    return failed_since_;
  }
  if (is_exempt() || count_.consecutive == 0) {
    return std::nullopt;
  }
  return count_.last_step + 1 - count_.consecutive;
}

void UpdateGuard::snapshot(StateTree& tree, const std::string& prefix) const {
  TENON_ASSERT(pending_.empty(), "sync() comes first");
  tree.set_version(prefix, kUpdateGuardVersion);
  const auto put = [&](const char* name, uint64_t value) {
    tree.put_int(state_path(prefix, name), static_cast<int64_t>(value));
  };
  put("steps", count_.steps);
  put("in_a_row", count_.consecutive);
  put("longest_row", count_.longest_streak);
  put("last_step", count_.last_step);
  tree.put_bytes(state_path(prefix, "last_origin"), count_.last_origin);
}

void UpdateGuard::load(const StateTree& tree, const std::string& prefix) {
  const auto get = [&](const char* name) { return saved_count(tree, state_path(prefix, name)); };
  count_ = {.steps = get("steps"),
            .consecutive = get("in_a_row"),
            .longest_streak = get("longest_row"),
            .last_step = get("last_step"),
            .last_origin = tree.get_bytes(state_path(prefix, "last_origin"))};
  failure_.reset();
  pending_.clear();
}

}  // namespace tenon
