// SPDX-License-Identifier: Apache-2.0
#include "host/train/best_state.hpp"

#include "host/error/error.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"

#include <cmath>

namespace tenon {
namespace {

constexpr uint32_t kBestStateVersion = 1;

// Puts all entries of `source` below `prefix`. Shares their tensors, since the kept state is never
// changed in place.
void put_below(const std::string& prefix, const StateTree& source, StateTree& target) {
  for (const auto& [name, entry] : source.entries()) {
    target.put_entry(state_path(prefix, name), entry);
  }
  for (const auto& [name, version] : source.versions()) {
    target.set_version(state_path(prefix, name), version);
  }
}

}  // namespace

void BestState::consider(const MetricRecord& record, uint64_t step) {
  const double* const value = record.find(recipe_.metric);
  if (value == nullptr) {
    std::string names;
    for (const auto& [name, metric] : record.values) {
      names += (names.empty() ? "" : ", ") + name;
    }
    throw Error(
        "train.no_best",
        formatted("/eval/keep_best/metric is \"{}\", and the evaluation at step {} gave {}; name "
                  "one of these",
                  recipe_.metric,
                  step,
                  names.empty() ? "nothing" : names));
  }
  const bool is_better =
      !kept_.has_value() || (recipe_.is_max ? *value > kept_->value : *value < kept_->value);
  if (std::isnan(*value) || !is_better) {
    return;
  }
  tree_ = StateTree(StateTree::Copies::kOnHost);  // frees the previous copy first
  for (const auto& [name, part] : parts_) {
    part->snapshot(tree_, name);
  }
  kept_ = Kept{.step = step, .value = *value, .bytes = tree_.tensor_bytes()};
}

void BestState::restore() {
  if (!kept_.has_value()) {
    return;
  }
  for (const auto& [name, part] : parts_) {
    part->load(tree_, name);
  }
}

void BestState::snapshot(StateTree& tree, const std::string& prefix) const {
  tree.set_version(prefix, kBestStateVersion);
  tree.put_int(state_path(prefix, "has"), kept_.has_value() ? 1 : 0);
  if (kept_.has_value()) {
    tree.put_int(state_path(prefix, "step"), static_cast<int64_t>(kept_->step));
    tree.put_double(state_path(prefix, "value"), kept_->value);
    tree.put_bytes(state_path(prefix, "metric"), recipe_.metric);
    tree.put_int(state_path(prefix, "is_max"), recipe_.is_max ? 1 : 0);
    put_below(state_path(prefix, "kept"), tree_, tree);
  }
}

// Loads through the parts, since they know which values belong to this rank. The caller loads their
// current values afterwards.
void BestState::load(const StateTree& tree, const std::string& prefix) {
  kept_.reset();
  tree_ = StateTree(StateTree::Copies::kOnHost);
  // The saved run may not have kept a best evaluation.
  if (!tree.has_subtree(prefix) || tree.get_int(state_path(prefix, "has")) == 0) {
    return;
  }
  // Values of another metric cannot be compared. Earlier releases did not save the metric.
  const std::string metric = state_path(prefix, "metric");
  if (tree.find(metric) != nullptr &&
      (tree.get_bytes(metric) != recipe_.metric ||
       (tree.get_int(state_path(prefix, "is_max")) != 0) != recipe_.is_max)) {
    return;
  }
  for (const auto& [name, part] : parts_) {
    part->load(tree, state_path(prefix, state_path("kept", name)));
    part->snapshot(tree_, name);
  }
  kept_ = Kept{.step = saved_count(tree, state_path(prefix, "step")),
               .value = tree.get_double(state_path(prefix, "value")),
               .bytes = tree_.tensor_bytes()};
}

}  // namespace tenon
