// SPDX-License-Identifier: Apache-2.0
#include "host/train/whole_state.hpp"

#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/train/run_state/run_state_names.hpp"
#include "host/train/run_state/state_names.hpp"

#include <algorithm>
#include <cstdint>

namespace tenon {
namespace {

using namespace run_state;

// Returns false for components that make batches (on other threads) or store checkpoints.
bool is_rolled_back(std::string_view role) {
  constexpr std::string_view kKept[] = {
      "data/", "features:", "storage/", "nested/data/", "nested/features/", "nested/checkpoint/"};
  return std::ranges::none_of(kKept, [&](std::string_view of) { return role.starts_with(of); });
}

// Returns the entries of the position in the training data and of its datasets. Entries that differ
// between ranks belong to an open window, and are absent if the number of ranks has changed.
StateTree training_position(const StateTree& state) {
  const std::string datasets = state_path(kComponents, kTrainData);
  StateTree position;
  for (const auto& [name, entry] : state.entries()) {
    const bool is_position = is_name_in(name, kTrainData) || name.starts_with(datasets);
    if (is_position && entry.scope == TENON_STATE_REPLICATED) {
      position.put_entry(name, entry);
    }
  }
  return position;
}

}  // namespace

WholeState::WholeState(RunServices& run, FiniteCheck& finite_check)
    : run_(run), finite_check_(finite_check) {
  ModelServices& model = run.model;
  const auto add = [this](const char* name, Stateful* part) {
    if (part != nullptr) {
      trained_.emplace_back(name, part);
    }
  };
  add(kBest, model.best.get());  // first: its load() overwrites the parameters with the best ones
  add(kModels, run.data.model_values.get());
  add(kParameters, &model.parameters);
  add(kOptimizer, &model.optimizer);
  add(kAverages, model.averages.has_value() ? &*model.averages : nullptr);
  add(kLossScale, model.loss_scale.has_value() ? &*model.loss_scale : nullptr);
  add(kTables, model.tables.get());
  add(kMetricBook, &run.report.metrics);
  add(kGuard, &finite_check.guard());
  weights_.emplace_back(kParameters, &model.parameters);
  if (model.tables != nullptr) {
    weights_.emplace_back(kTables, model.tables.get());
  }
  const std::vector<EvalSet>& sets = run.data.eval_sets;
  for (size_t i = 0; i < sets.size(); ++i) {
    if (has_paired_windows(sets[i], run.recipe().eval, run.data.train)) {
      data_.emplace_back(state_path(kEvalData, std::to_string(i)), sets[i].data);
    }
  }
  data_.emplace_back(kTrainData, &run.data.train);
}

void WholeState::snapshot(StateTree& tree) const {
  finite_check_.sync();
  tree.set_version("", kRunStateVersion);
  for (const HasStateFields* const owner : loop_) {
    owner->put_fields(tree, kRun);
  }
  for (const auto& [name, part] : trained_) {
    part->snapshot(tree, name);
  }
  if (run_.data.components != nullptr) {
    run_.data.components->snapshot(tree, kComponents);
  }
  run_.model.metrics.snapshot(tree, kMetrics);
  for (const auto& [name, part] : data_) {
    part->snapshot(tree, name);
  }
}

void WholeState::snapshot_weights(StateTree& tree) const {
  tree.set_version("", kRunStateVersion);
  for (const auto& [name, part] : weights_) {
    part->snapshot(tree, name);
  }
}

void WholeState::load(const StateTree& tree) {
  if (const uint32_t version = tree.version(""); version != kRunStateVersion) {
    throw Error(
        "state.bad_version",
        formatted("the saved state of the run has version {}, this host knows {}; resume with "
                  "the release that saved it",
                  version,
                  kRunStateVersion));
  }
  load_trained(tree, [&](const std::string& role) { return saved_role(tree, role); });
  load_loop(tree, FieldsToLoad::kAll);
  loaded_position_ = training_position(tree);
}

void WholeState::load_data(const StateTree& tree) {
  for (const auto& [name, part] : data_) {
    part->load(tree, name);
  }
}

bool WholeState::has_new_position() const {
  StateTree now(StateTree::Copies::kNone);
  if (run_.data.components != nullptr) {
    run_.data.components->snapshot(now, kComponents);
  }
  for (const auto& [name, part] : data_) {
    part->snapshot(now, name);
  }
  return !(training_position(now) == loaded_position_);
}

void WholeState::roll_back(const StateTree& tree) {
  load_trained(tree, [&](const std::string& role) {
    return is_rolled_back(role) ? saved_role(tree, role) : "";
  });
  load_loop(tree, FieldsToLoad::kRolledBack);
}

// Matches metrics by name: "metrics/1" may have been saved as "metrics/0", or not at all.
std::string WholeState::saved_role(const StateTree& tree, const std::string& role) const {
  if (role.starts_with("data/") && !tree.has_subtree(state_path(kComponents, role))) {
    return "";  // the dataset had no state yet in the release that saved the run
  }
  const std::string prefix = std::string(kMetrics) + "/";
  if (!role.starts_with(prefix)) {
    return role;
  }
  const auto index =
      run_.model.metrics.saved_index(tree, kMetrics, std::stoul(role.substr(prefix.size())));
  return index.has_value() ? state_path(kMetrics, std::to_string(*index)) : "";
}

void WholeState::load_trained(const StateTree& tree,
                              const std::function<std::string(const std::string& role)>& role_in) {
  for (const auto& [name, part] : trained_) {
    part->load(tree, name);
  }
  if (run_.data.components != nullptr) {
    run_.data.components->load(tree, kComponents, role_in);
  }
  run_.model.metrics.load(tree, kMetrics);
}

void WholeState::load_loop(const StateTree& tree, FieldsToLoad which) {
  for (HasStateFields* const owner : loop_) {
    owner->get_fields(tree, kRun, which);
  }
}

}  // namespace tenon
