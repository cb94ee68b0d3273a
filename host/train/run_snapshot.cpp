// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_snapshot.hpp"

#include "host/error/error.hpp"
#include "host/train/trainer.hpp"

#include <ATen/Functions.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tenon {
namespace {

using namespace run_state;

// Wishes that act in a step; the others are of a moment.
constexpr std::pair<Vote, const char*> kWishes[] = {{Vote::kSkipUpdate, "skip_update"},
                                                    {Vote::kEvaluate, "evaluate"},
                                                    {Vote::kCheckpoint, "checkpoint"},
                                                    {Vote::kRollBack, "roll_back"},
                                                    {Vote::kStop, "stop"}};

std::string eval_data(size_t i) {
  return state_path(kEvalData, std::to_string(i));
}

// "eval/loss 0x1.8p+1": a line each.
std::string figures_text(const std::map<std::string, double>& figures) {
  std::string text;
  for (const auto& [name, value] : figures) {
    char number[40];
    std::snprintf(number, sizeof(number), " %a\n", value);
    text += name + number;
  }
  return text;
}

std::map<std::string, double> figures_of(const std::string& text) {
  std::map<std::string, double> figures;
  for (size_t begin = 0; begin < text.size();) {
    const size_t space = text.find(' ', begin);
    figures[text.substr(begin, space - begin)] = std::strtod(text.c_str() + space, nullptr);
    begin = text.find('\n', begin) + 1;
  }
  return figures;
}

// The batches of the first step, which overfit_batch repeats.
void put_batches(StateTree& tree, const std::string& prefix, const std::vector<Batch>& batches) {
  tree.put_int(
      state_path(prefix, "count"), static_cast<int64_t>(batches.size()), TENON_STATE_PER_RANK);
  for (size_t i = 0; i < batches.size(); ++i) {
    const std::string at = state_path(prefix, std::to_string(i));
    tree.put_int(state_path(at, "samples"), batches[i].samples, TENON_STATE_PER_RANK);
    tree.put_int(state_path(at, "tokens"), batches[i].tokens, TENON_STATE_PER_RANK);
    for (size_t f = 0; f < batches[i].fields.size(); ++f) {
      if (batches[i].fields[f].defined()) {
        tree.put_tensor(state_path(at, "fields/" + std::to_string(f)),
                        batches[i].fields[f],
                        StateTree::Copy::kNo,
                        TENON_STATE_PER_RANK);
      }
    }
  }
}

std::vector<Batch> get_batches(const StateTree& tree,
                               const std::string& prefix,
                               const BatchSchema& schema) {
  std::vector<Batch> batches;
  const int64_t count = tree.get_int(state_path(prefix, "count"));
  for (int64_t i = 0; i < count; ++i) {
    const std::string at = state_path(prefix, std::to_string(i));
    Batch batch;
    batch.schema = schema;
    batch.samples = tree.get_int(state_path(at, "samples"));
    batch.tokens = tree.get_int(state_path(at, "tokens"));
    batch.fields.resize(schema->size());
    for (size_t f = 0; f < batch.fields.size(); ++f) {
      const std::string field = state_path(at, "fields/" + std::to_string(f));
      if (tree.find(field) != nullptr) {
        batch.fields[f] = tree.get_tensor(field);
      }
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

}  // namespace

void Trainer::snapshot(StateTree& tree) {
  settle_guard();
  tree.set_version("", kRunStateVersion);
  snapshot_loop(tree);
  parts_.parameters.snapshot(tree, kParameters);
  parts_.optimizer.snapshot(tree, kOptimizer);
  if (parts_.loss_scale != nullptr) {
    parts_.loss_scale->snapshot(tree, kLossScale);
  }
  if (parts_.tables != nullptr) {
    parts_.tables->snapshot(tree, kTables);
  }
  if (parts_.components != nullptr) {
    parts_.components->snapshot(tree, kComponents);
  }
  parts_.metric_set.snapshot(tree, kMetrics);
  parts_.metrics.snapshot(tree, kFigures);
  guard_.snapshot(tree, kGuard);
  if (parts_.best != nullptr) {
    parts_.best->snapshot(tree, kBest);
  }
  parts_.train_data.snapshot(tree, kTrainData);
  for (size_t i = 0; i < parts_.eval_sets.size(); ++i) {
    if (has_paired_windows(parts_.eval_sets[i])) {
      parts_.eval_sets[i].data->snapshot(tree, eval_data(i));
    }
  }
}

// What exports take of it.
void Trainer::snapshot_weights(StateTree& tree) const {
  tree.set_version("", kRunStateVersion);
  parts_.parameters.snapshot(tree, kParameters);
  if (parts_.tables != nullptr) {
    parts_.tables->snapshot(tree, kTables);
  }
}

void Trainer::load(const StateTree& tree) {
  load_own(tree);
  finish_load();
}

void Trainer::finish_load() {
  parts_.flow.publish();
  parts_.sinks.resume(state_.step, records_of_step_);
}

// What a rank does alone: another may find that its part is damaged.
void Trainer::load_own(const StateTree& tree) {
  if (const uint32_t version = tree.version(""); version != kRunStateVersion) {
    throw Error("state.bad_version",
                "the saved state of the run has version " + std::to_string(version) +
                    ", this host knows " + std::to_string(kRunStateVersion) +
                    "; go on with the release that saved it");
  }
  load_learned(tree, [&](const std::string& role) { return saved_role(tree, role); });
  load_loop(tree);
  load_data(tree);
  hooks_.event().step = state_.step;
  parts_.published.set(state_);
  if (!goes_on_with_epoch_) {
    vote_loaded_wishes();
  }
  check_horizon();
}

// Of an epoch and window that `state_` says.
void Trainer::load_data(const StateTree& tree) {
  for (size_t i = 0; i < parts_.eval_sets.size(); ++i) {
    if (has_paired_windows(parts_.eval_sets[i])) {
      parts_.eval_sets[i].data->load(tree, eval_data(i));
    }
  }
  DataStream& data = parts_.train_data;
  data.load(tree, kTrainData);
  goes_on_with_epoch_ = data.epoch() == state_.epochs;
  goes_on_with_window_ = goes_on_with_epoch_ && data.has_window();
  hooks_.event().epoch =
      goes_on_with_epoch_ || state_.epochs == 0 ? state_.epochs : state_.epochs - 1;
}

// The place in the data of another run, for one that begins anew: epochs and windows are counted on
// from there, steps are not.
void Trainer::load_position(const StateTree& tree) {
  const auto get = [&](const char* name) { return tree.get_int(state_path(kRun, name)); };
  state_.epochs = static_cast<uint64_t>(get("epochs"));
  state_.windows = static_cast<uint64_t>(get("windows"));
  steps_in_window_ = get("steps_in_window");
  load_data(tree);
  if (goes_on_with_window_) {
    parts_.metric_set.begin_window(CallPlace{state_.step, 0, true});
  }
  parts_.published.set(state_);
  check_horizon();
}

// Metrics go by their names: "metrics/1" may have been "metrics/0", or nothing.
std::string Trainer::saved_role(const StateTree& tree, const std::string& role) const {
  const std::string prefix = std::string(kMetrics) + "/";
  if (!role.starts_with(prefix)) {
    return role;
  }
  const auto place =
      parts_.metric_set.saved_place(tree, kMetrics, std::stoul(role.substr(prefix.size())));
  return place.has_value() ? state_path(kMetrics, std::to_string(*place)) : "";
}

// All but the loop, and where it is in its data.
void Trainer::load_learned(const StateTree& tree,
                           const std::function<std::string(const std::string& role)>& role_in) {
  if (parts_.best != nullptr) {
    parts_.best->load(tree, kBest);
  }
  parts_.parameters.load(tree, kParameters);
  parts_.optimizer.load(tree, kOptimizer);
  if (parts_.loss_scale != nullptr) {
    parts_.loss_scale->load(tree, kLossScale);
  }
  if (parts_.tables != nullptr) {
    parts_.tables->load(tree, kTables);
  }
  if (parts_.components != nullptr) {
    parts_.components->load(tree, kComponents, role_in);
  }
  parts_.metric_set.load(tree, kMetrics);
  parts_.metrics.load(tree, kFigures);
  guard_.load(tree, kGuard);
}

void Trainer::snapshot_loop(StateTree& tree) const {
  const auto put = [&](const char* name, auto value, uint32_t scope = TENON_STATE_REPLICATED) {
    tree.put_int(state_path(kRun, name), static_cast<int64_t>(value), scope);
  };
  put("step", state_.step);
  put("updates", state_.updates);
  put("epochs", state_.epochs);
  put("windows", state_.windows);
  put("samples", state_.samples);
  put("tokens", state_.tokens);
  tree.put_double(state_path(kRun, "seconds"), seconds_so_far(), TENON_STATE_PER_RANK);
  put("epoch_step", epoch_step_);
  put("steps_in_window", steps_in_window_);
  put("logged_step", logged_step_);
  // Rank 0's, which has the sinks. What was written of an evaluation that is made up for goes.
  put("records_of_step", parts_.sinks.num_of_step(state_.step) - num_cut_records_);
  put("logged_samples", logged_samples_);
  put("logged_tokens", logged_tokens_);
  put("has_loss_to_log", has_loss_to_log_ ? 1 : 0);
  put("has_late_skips", has_late_skips_ ? 1 : 0);
  put("evaluated", evaluated_step_.has_value() ? 1 : 0);
  put("evaluated_step", evaluated_step_.value_or(0));
  put("due/all", due_.all ? 1 : 0);
  put("due/next_window", due_.next_window ? 1 : 0);
  put("due/with_window", due_.with_window ? 1 : 0);
  put("has_told_skip_list", has_told_skip_list_ ? 1 : 0);
  put("windows_skipped", outcome_.windows.skipped);
  put("windows_repeated", outcome_.windows.repeated);
  put("windows_empty", outcome_.windows.empty);
  tree.put_bytes(state_path(kRun, "last_window"), outcome_.windows.last);
  tree.put_bytes(state_path(kRun, "last_figures"), figures_text(outcome_.last_metrics));
  tree.put_double(state_path(kRun, "hook_lr_factor"), hook_lr_factor_);
  for (const auto& [vote, name] : kWishes) {
    put((std::string("wishes/") + name).c_str(),
        agreement_.pending().has(vote) ? 1 : 0,
        TENON_STATE_PER_RANK);
  }
  tree.put_bytes(state_path(kRun, "stop_reason"), stop_reason_, TENON_STATE_PER_RANK);
  snapshot_roll_backs(tree);
  if (scaler_skips_.defined()) {
    tree.put_tensor(state_path(kRun, "scaler_skips"), scaler_skips_, StateTree::Copy::kYes);
  }
  size_t number = 0;
  for (const auto& [name, sums] : series_) {
    const std::string at = state_path(kRun, "series/" + std::to_string(number++));
    tree.put_bytes(state_path(at, "name"), name);
    for (size_t l = 0; l < sums.size(); ++l) {
      const std::string loss = state_path(at, std::to_string(l));
      tree.put_double(state_path(loss, "sum"), sums[l][0]);
      tree.put_double(state_path(loss, "count"), sums[l][1]);
    }
  }
  put_batches(tree, state_path(kRun, "first_batch"), first_batch_);
}

void Trainer::load_loop(const StateTree& tree) {
  const auto get = [&](const std::string& name) { return tree.get_int(state_path(kRun, name)); };
  const auto get_count = [&](const char* name) { return static_cast<uint64_t>(get(name)); };
  // False where it belonged to ranks, and they have changed.
  const auto has = [&](const std::string& name) {
    return tree.find(state_path(kRun, name)) != nullptr;
  };
  state_ = {.step = get_count("step"),
            .updates = get_count("updates"),
            .epochs = get_count("epochs"),
            .windows = get_count("windows"),
            .samples = get("samples"),
            .tokens = get("tokens")};
  first_step_ = state_.step;
  records_of_step_ = get_count("records_of_step");
  if (has("seconds")) {
    const std::chrono::duration<double> before(tree.get_double(state_path(kRun, "seconds")));
    start_ = std::chrono::steady_clock::now() -
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(before);
  }
  epoch_step_ = get_count("epoch_step");
  steps_in_window_ = get("steps_in_window");
  logged_step_ = get_count("logged_step");
  logged_samples_ = get("logged_samples");
  logged_tokens_ = get("logged_tokens");
  has_loss_to_log_ = get("has_loss_to_log") != 0;
  has_late_skips_ = get("has_late_skips") != 0;
  evaluated_step_ =
      get("evaluated") != 0 ? std::optional(get_count("evaluated_step")) : std::nullopt;
  due_ = {.all = get("due/all") != 0,
          .next_window = get("due/next_window") != 0,
          .with_window = get("due/with_window") != 0};
  has_told_skip_list_ = get("has_told_skip_list") != 0;
  outcome_.windows = {.skipped = get_count("windows_skipped"),
                      .repeated = get_count("windows_repeated"),
                      .empty = get_count("windows_empty"),
                      .last = tree.get_bytes(state_path(kRun, "last_window"))};
  loaded_wishes_ = {};
  outcome_.last_metrics = figures_of(tree.get_bytes(state_path(kRun, "last_figures")));
  hook_lr_factor_ = tree.get_double(state_path(kRun, "hook_lr_factor"));
  for (const auto& [vote, name] : kWishes) {
    const std::string wish = std::string("wishes/") + name;
    if (has(wish) && get(wish) != 0) {
      loaded_wishes_.set(vote);
    }
  }
  if (has("stop_reason")) {
    stop_reason_ = tree.get_bytes(state_path(kRun, "stop_reason"));
  }
  load_roll_backs(tree);
  scaler_skips_ =
      has("scaler_skips") ? tree.get_tensor(state_path(kRun, "scaler_skips")) : at::Tensor();
  series_.clear();
  for (size_t number = 0;; ++number) {
    const std::string at = state_path(kRun, "series/" + std::to_string(number));
    if (tree.find(state_path(at, "name")) == nullptr) {
      break;
    }
    auto& sums = series_[tree.get_bytes(state_path(at, "name"))];
    for (size_t l = 0; l < parts_.losses.size(); ++l) {
      const std::string loss = state_path(at, std::to_string(l));
      sums.push_back(
          {tree.get_double(state_path(loss, "sum")), tree.get_double(state_path(loss, "count"))});
    }
  }
  if (has("first_batch/count")) {
    first_batch_ = get_batches(
        tree, state_path(kRun, "first_batch"), parts_.train_data.source().info().schema);
  }
}

// Wishes of the step before act where they would have: in the next one.
void Trainer::vote_loaded_wishes() {
  for (const auto& [vote, name] : kWishes) {
    if (loaded_wishes_.has(vote)) {
      agreement_.vote(vote);
    }
  }
  loaded_wishes_ = {};
}

}  // namespace tenon
