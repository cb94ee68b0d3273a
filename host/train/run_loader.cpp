// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_loader.hpp"

#include "host/error/error.hpp"
#include "host/recipe/recipe_difference.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"
#include "host/train/initial_values.hpp"
#include "host/train/rank_decisions.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include <exception>
#include <optional>
#include <utility>

namespace tenon {
namespace {

// The step of the state and of the index are written from one number.
void check_step(const CheckpointReader& reader, const StateTree& tree) {
  const std::string entry = state_path(run_state::kRun, "step");
  if (tree.find(entry) == nullptr) {
    return;  // loading reports it
  }
  const uint64_t step = saved_count(tree, entry);
  if (const uint64_t expected = reader.index().metadata.step; step != expected) {
    throw Error("checkpoint.damaged",
                formatted("the state is of step {}, the index of step {}", step, expected));
  }
}

}  // namespace

void load_first_valid(ResumeCandidates& saved, Group& ranks, const TakeState& take) {
  for (;;) {
    const StateTree& tree = saved.next();
    std::optional<Error> corrupt;
    try {
      check_step(saved.reader(), tree);
      take(tree);
    } catch (const std::exception& error) {
      corrupt = checkpoint_failure(error, CheckpointPart::kState);
      if (!corrupt.has_value()) {
        throw;
      }
      corrupt = with_address(*corrupt, saved.reader().address());
    }
    if (!any_rank(ranks, corrupt.has_value())) {
      return;
    }
    saved.reject(corrupt);
  }
}

// Loads pretrained parts first if the checkpoint excludes entries.
void RunLoader::load_saved(const TakeState& take, const TakeState& take_position) {
  ResumeCandidates& saved = *run_.data.saved;
  bool is_pretrained_due = true;
  load_first_valid(saved, run_.ranks.groups.all(), [&](const StateTree& tree) {
    if (is_pretrained_due && !saved.reader().index().metadata.excluded.is_empty()) {
      is_pretrained_due = false;
      load_pretrained(take_position);
    }
    take(tree);
  });
  resumed_from_ = saved.reader().address();
  resumed_at_ = saved.reader().index().metadata.step;
}

void RunLoader::resume(const TakeState& take, const TakeState& take_position) {
  if (run_.plan.request.start_from != nullptr) {
    take(*run_.plan.request.start_from);
    return;
  }
  load_saved(take, take_position);
  if (run_.data.pretrained != nullptr && loaded_from_.empty()) {
    run_.report.journal.add(Remark{"resuming: /load is skipped"});
  }
}

RunState RunLoader::load_model(WhichParameters which) {
  RunState state;
  if (run_.plan.request.start_from != nullptr) {
    state = take_model({.state = *run_.plan.request.start_from, .text = "a state in memory"});
    loaded_text_ = "a state in memory";
  } else {
    const auto take = [&](const StateTree& tree) {
      const SavedModel model = saved_model(run_.data.saved->reader(), tree, which);
      state = take_model(model);
      state.step = model.step;
      loaded_text_ = model.text;
    };
    load_saved(take, [](const StateTree&) {});
  }
  run_.model.sharded.publish();
  run_.report.journal.add(Remark{"evaluating " + loaded_text_});
  return state;
}

// Loads on this rank alone, since another rank may find that its part is corrupt. An export has no
// optimizer state, and has values of evaluation.
RunState RunLoader::take_model(const SavedModel& model) const {
  const StateTree& tree = model.state;
  run_.model.parameters.load(tree, run_state::kParameters);
  if (run_.model.tables != nullptr) {
    run_.model.tables->load(tree, run_state::kTables);
  }
  const bool are_final = model.best.has_value() || !tree.has_subtree(run_state::kOptimizer);
  run_.model.values.set_final(are_final);
  if (!are_final && run_.model.optimizer.has_evaluation_values()) {
    run_.model.optimizer.load(tree, run_state::kOptimizer);
  }
  if (!are_final && run_.model.averages.has_value()) {
    run_.model.averages->load(tree, run_state::kAverages);
  }
  if (run_.data.components != nullptr) {
    constexpr const char* kLosses[] = {"/loss", "/losses"};
    const bool are_same_losses = has_same(kLosses);
    run_.data.components->load(tree, run_state::kComponents, [&](const std::string& role) {
      const bool is_read = role.starts_with("model") || role.starts_with("nested/model") ||
                           (are_same_losses && role.starts_with("losses/"));
      const bool is_saved = tree.has_subtree(state_path(run_state::kComponents, role));
      return is_read && is_saved ? role : "";
    });
  }
  const auto count = [&tree](const char* name) {
    const std::string entry = state_path(run_state::kRun, name);
    return tree.find(entry) != nullptr ? saved_count(tree, entry) : 0;
  };
  RunState state;
  state.step = count("step");
  state.updates = count("updates");
  state.epochs = count("epochs");
  state.windows = count("windows");
  state.samples = static_cast<int64_t>(count("samples"));
  state.tokens = static_cast<int64_t>(count("tokens"));
  return state;
}

bool RunLoader::has_same(std::span<const char* const> keys) const {
  if (run_.data.saved == nullptr) {
    return true;
  }
  auto changes = recipe_changes({.frozen = run_.data.saved->reader().recipe()},
                                {.frozen = frozen_recipe(run_.recipe())});
  // Recipes of earlier releases lack keys that are null if they are not given.
  std::erase_if(changes, [](const RecipeChange& change) {
    return change.before.empty() && change.now == "null";
  });
  return !has_change_at(changes, keys);
}

std::string RunLoader::resumed_boundary() const {
  return run_.data.saved != nullptr ? run_.data.saved->reader().index().metadata.at : "";
}

bool RunLoader::load_pretrained(const TakeState& take_position) {
  if (run_.data.pretrained == nullptr) {
    return false;
  }
  std::vector<Load> loads = run_.data.pretrained->load_all(targets());
  for (const Load& load : loads) {
    if (load.position.has_value()) {
      take_position(*load.position);
    }
    loaded_from_.push_back(load.address);
  }
  report(loads);
  return true;
}

// Whether a reload is due depends only on the counts of the run. Reloads happen before the next
// step, window or epoch begins, so a run that is stopped and resumed there makes the same loads.
bool RunLoader::reload(ReloadPoint point, uint64_t count) {
  if (run_.data.pretrained == nullptr) {
    return false;
  }
  const std::vector<Load> loads = run_.data.pretrained->reload(point, count, targets());
  if (loads.empty()) {
    return false;
  }
  num_reloads_ += loads.size();
  report(loads);
  return true;
}

LoadTargets RunLoader::targets() const {
  return {.parameters = run_.model.parameters,
          .optimizer = run_.model.optimizer,
          .tables = run_.model.tables.get(),
          .step = state_.step,
          .start = [this](const std::vector<uint32_t>& which, const UnstoredValue& unstored) {
            start_parametrizations(run_, which, unstored);
          }};
}

// Publishes the loaded values to blocks, and reports the loads.
void RunLoader::report(const std::vector<Load>& loads) {
  run_.model.sharded.publish();
  for (const Load& load : loads) {
    run_.report.journal.add(Remark{"loaded " + load.text + "; from " + load.address});
  }
}

void RunLoader::add_to(Outcome& outcome) const {
  outcome.resumed_from = resumed_from_;
  outcome.resumed_at = resumed_at_;
  outcome.loaded_from = loaded_from_;
  outcome.num_reloads = num_reloads_;
}

}  // namespace tenon
