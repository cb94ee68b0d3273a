// SPDX-License-Identifier: Apache-2.0
//
// The loop: epochs, windows, steps and microbatches, with their events. It reads top to bottom like
// the list of events in docs/architecture.md. It knows kinds of plugins, never a plugin.
// Invariants: an accumulation never crosses a window; every before_ event has its after_, unless an
// error ends the run (after_evaluate: or a signal cuts it); `end` fires once, always. Threads:
// owned and driven by the train thread.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/device/gpu.hpp"
#include "host/distributed/agreement.hpp"
#include "host/distributed/group.hpp"
#include "host/embedding/table_set.hpp"
#include "host/hook/hook_list.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/metrics/sink_list.hpp"
#include "host/model/model_runner.hpp"
#include "host/model/parameter_flow.hpp"
#include "host/optim/clip.hpp"
#include "host/optim/loss_scale.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/plugin/lr_scheduler_proxy.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/best_state.hpp"
#include "host/train/checkpointing.hpp"
#include "host/train/component_states.hpp"
#include "host/train/loss_set.hpp"
#include "host/train/metric_set.hpp"
#include "host/train/non_finite_origin.hpp"
#include "host/train/outcome.hpp"
#include "host/train/published_state.hpp"
#include "host/train/same_data.hpp"
#include "host/train/saved_states.hpp"
#include "host/train/signal_watch.hpp"
#include "host/train/step_profile.hpp"
#include "host/train/update_guard.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// What the loop works by, settled before anything is allocated.
struct LoopPlan {
  int64_t microbatches_per_step = 1;
  bool counts_ahead = true;  // losses are counted before the first backward of a step
  uint64_t total_steps = 0;  // of the schedule; 0 where it is not known
};

// Errors  hook.unordered_writers; hook.one_rank_writes; loss.late_count where the losses cannot be
// normalised exactly;
//         recipe.no_total where the schedule needs a length that the recipe does not give;
//         recipe.indivisible
LoopPlan plan_loop(const Recipe& recipe,
                   const LossSet& losses,
                   const std::vector<HookProxy>& hooks,
                   const LrSchedulerProxy* lr_scheduler,
                   uint32_t world_size);

class ModelBank;
class Trainer;
enum class ReloadPoint;
enum class RestPoint;
struct Load;
struct LoadTargets;

// A dataset to evaluate on, and what the names of its figures begin with.
struct EvalSet {
  std::string prefix;
  DataStream* data = nullptr;
};

// What the loop drives. All is borrowed and outlives the trainer.
struct TrainerParts {
  const Recipe& recipe;
  LoopPlan plan;
  ParameterStore& parameters;
  ParameterFlow& flow;
  ModelRunner& model;
  LossSet& losses;
  MetricSet& metric_set;
  OptimizerDriver& optimizer;
  TableSet* tables = nullptr;                      // null where the model looks nothing up
  LossScale* loss_scale = nullptr;                 // null but under fp16
  const LrSchedulerProxy* lr_scheduler = nullptr;  // null: the factor is 1
  DataStream& train_data;
  std::vector<EvalSet> eval_sets;
  std::vector<EvalSet> test_sets;
  ComponentStates* components = nullptr;  // null where none has a state
  // Of a run like this one, at rest: gone on from, in place of starting anew. Null: none.
  const StateTree* start_from = nullptr;
  // The same on disks, tried one after the other.
  SavedStates* saved = nullptr;
  // What others have trained: loaded where the run begins anew, and again where that is due.
  ModelBank* bank = nullptr;
  // Is called wherever the run is at rest, so that its state can be taken.
  std::function<void(RestPoint point, Trainer& trainer)> at_rest;
  Checkpointing* checkpoints = nullptr;  // null where nothing is saved
  BestState* best = nullptr;             // null where the best evaluation's parameters are not kept
  bool is_eval_only = false;             // evaluate in place of training
  bool is_seed_only = false;             // save the first parameters in place of training
  Gpu* gpu = nullptr;                    // null where the run is on the CPU
  MetricBook& metrics;
  SinkList& sinks;
  Progress& progress;
  Collective& collective;
  const Mesh& mesh;
  Group* norms = nullptr;  // all ranks, on the GPU; null on the CPU, or where there is one rank
  const SignalWatch* signals = nullptr;
  PublishedState& published;
  StepProfile* profile = nullptr;
  std::string run_dir;
  std::function<void()> initialise;  // gives parameters their first values, between the init events
  // Is called as soon as an error ends the run on this rank, before hooks hear of it: the others
  // wait for collectives that this rank will not join any more. Says what the run ends with.
  std::function<FailedEnd(const Error& error)> on_failure;
  std::function<void()> after_first_step;
};

// Where a run is at rest: nothing is half done, and its state can be taken.
enum class RestPoint {
  kStart,   // before the first epoch: all is initialised, nothing is trained
  kStep,    // at a step's end, its evaluation included
  kWindow,  // at a window's end, before after_window
  kEpoch,   // at an epoch's end, before after_epoch
};

class Trainer final : private RunView {
 public:
  // `hooks` in the order of the recipe.
  Trainer(TrainerParts parts, std::vector<HookProxy> hooks);

  // Runs from before_init to end. Errors become the outcome; nothing is thrown.
  Outcome run();

  // The whole state of the run (run_snapshot.hpp has the names): only where it is at rest. Nothing
  // is changed by it, but for what a device has found so far, which is waited for.
  void snapshot(StateTree& tree);
  // Parameters and tables alone.
  void snapshot_weights(StateTree& tree) const;
  const RunState& state() const { return state_; }

 private:
  struct Microbatch;
  void load(const StateTree& tree);
  void load_saved();
  void load_sound(SavedStates& saved, const std::function<void(const StateTree& tree)>& take);
  void load_own(const StateTree& tree);
  void load_data(const StateTree& tree);
  void load_position(const StateTree& tree);
  bool load_from_bank();
  void reload_where_due(ReloadPoint point, uint64_t count);
  LoadTargets load_targets();
  void tell_loads(const std::vector<Load>& loads);
  void load_learned(const StateTree& tree,
                    const std::function<std::string(const std::string& role)>& role_in);
  void finish_load();
  void snapshot_loop(StateTree& tree) const;
  std::string saved_role(const StateTree& tree, const std::string& role) const;
  void load_loop(const StateTree& tree);
  void rest(RestPoint point);
  void rest_at_end();
  void save_where_due(RestPoint point);
  void prepare_saves();
  void save_checkpoint(RestPoint point);
  void save_forms(RestPoint point, const SaveForms& forms);
  void make_up_exports();
  void make_up_evaluations();
  void export_at_end();
  void vote_on_saves();
  void settle_save(const Decision& decision);
  void tell_saves();
  // Errors  checkpoint.failed where the recipe stops a run for it
  void finish_saves();
  // However long they take; returns what has gone wrong, on all ranks.
  std::optional<Error> finish_all_saves();
  std::optional<std::chrono::duration<double>> grace_left();
  [[noreturn]] void stop_for_failed_save();
  // In place of training.  Errors  checkpoint.failed
  void save_seed();

  // Going back (trainer_roll_back.cpp).
  struct Spike {
    uint64_t first_bad_step = 0;
    std::string why;
  };
  void hear_spikes(const Decision& decision);
  // Errors  train.non_finite, train.spike where it cannot
  void go_back();
  void load_back(const StateTree& tree, const StateTree& now);
  void pin_good_one();
  void snapshot_roll_backs(StateTree& tree) const;
  void load_roll_backs(const StateTree& tree);

  // The loop, outermost first.
  void train();
  void run_epoch();
  void begin_epoch();
  void vote_loaded_wishes();
  NextWindow open_next_window();
  void end_waiting();
  void run_window();
  bool is_window_full() const {
    return train_.steps_per_window.has_value() && steps_in_window_ >= *train_.steps_per_window;
  }
  bool run_step();
  void run_microbatch(std::vector<Microbatch>& microbatches, size_t i);
  void finish_gradients();
  void finish_table_gradients();
  bool is_found_on_device() const;
  void agree_on_touched();
  void name_unused() const;
  void check_replicas();
  void judge_gradients();
  void share_norm();
  void share_device_judgement();
  std::string origin_among_ranks(const NonFiniteOrigin& mine);
  void judge_again();
  void note_judgement();
  bool is_left_out() const { return !is_finite_ && !guard_.is_lenient(); }
  bool is_finite_figure(const at::Tensor& sum, const at::Tensor& count);
  void excuse_overflow(const at::Tensor& norm);
  void settle_guard();
  void settle_loss_scale();
  void evaluate();
  void evaluate_test_sets();
  void evaluate_next_window();
  void evaluate_with_window();
  NextWindow open_next_windows();
  bool has_paired_windows(const EvalSet& set) const;
  // What an evaluation adds up, by loss.
  struct Tally {
    explicit Tally(size_t num_losses);
    std::vector<at::Tensor> sums;
    std::vector<at::Tensor> counts;
    uint64_t microbatch = 0;
  };
  // An evaluation with its two events, and its record of figures that begin with `family`. Gives
  // none where a signal has cut it.
  std::optional<MetricRecord> run_evaluation(
      const std::string& family,
      const std::string& window,
      const std::function<bool(std::string& line)>& evaluate_all);
  // All: false where a signal has cut it.
  bool evaluate_set(const EvalSet& set, std::string& line);
  bool evaluate_windows(DataStream& data, const std::string& prefix, Tally& tally);
  bool evaluate_open_window(DataStream& data, const std::string& prefix, std::string& line);
  bool evaluate_window(DataStream& data, Tally& tally);
  bool record_evaluation(const std::string& prefix,
                         const Tally& tally,
                         const std::string& series,
                         std::string& line);
  void restore_best();
  enum class Turn { kGoOn, kEnd, kCut };
  void begin_turn(DataStream& data);
  Turn settle_turn(DataStream& data);
  bool is_evaluation_cut();
  void cut_evaluation();

  // Counting and normalising.
  bool has_next_batch();
  std::vector<Microbatch> take_microbatches();
  void repeat_first_batch(std::vector<Microbatch>& microbatches);
  void count_ahead(std::vector<Microbatch>& microbatches);
  void start_agreement(const std::vector<Microbatch>& microbatches);
  void settle_totals(const std::vector<Microbatch>& microbatches);
  at::Tensor own_total(const std::vector<Microbatch>& microbatches, size_t loss) const;
  at::Tensor late_total(const std::vector<Microbatch>& microbatches);
  void seed_losses(std::vector<Microbatch>& microbatches);
  void record_losses(const std::vector<Microbatch>& microbatches);
  at::Tensor mean_loss_so_far() const;

  // Deciding. `end_with` keeps the first reason.
  bool is_alone() const { return parts_.collective.world_size() == 1; }
  bool any_rank(bool mine);
  std::string first_text(const std::string& mine);
  void settle_wishes();
  void act_on(const Decision& decision);
  int signal_received() const;  // 0: none
  bool is_interrupted() const;
  std::string own_interruption() const;
  std::string interruption_text();
  void vote_on_interruption();
  void end_with(ExitCode code, std::string reason);
  bool is_over() const { return is_over_; }
  void check_horizon();
  void check_clock(const Decision& decision);
  void end_in_time();
  void check_tokens() const;
  bool is_time_up() const;

  // Telling.
  void fire(uint32_t event) {
    parts_.published.set_event(event);
    if (((parameter_writes_ | full_parameters_) & TENON_EVENT_BIT(event)) != 0) {
      fire_with_parameters(event);
    } else {
      hooks_.fire(event);
    }
  }
  void fire_with_parameters(uint32_t event);
  void log_step();
  void record_mix();
  void record_tables();
  void tell_end_of_window();
  void note_empty_window();
  void note_end_of_epoch();
  const std::string& loss_figure(size_t l) const;
  bool is_log_due() const;
  std::string memory_report() const;
  double lr_factor() const;
  double seconds_so_far() const;

  // RunView: what hooks see.
  void wish(uint32_t wishes, const std::string& reason) override;
  std::optional<double> metric(std::string_view name) const override;
  const at::Tensor* scalar(std::string_view name) override;
  void add_metric(const std::string& name, double value) override;
  at::Tensor* field(std::string_view name) override;
  void set_lr_factor(double factor) override;
  size_t num_parameters() const override;
  ParameterView parameter(size_t i) override;
  const std::string& run_dir() const override;
  size_t num_lr_groups() const override;
  LrGroupView lr_group(size_t i) override;
  std::optional<double> lr_group_option(size_t i, const std::string& pointer) const override;
  void roll_back(uint64_t first_bad_step, const std::string& reason) override;

  TrainerParts parts_;
  const TrainRecipe& train_;
  const EvalRecipe& eval_;
  Agreement agreement_;
  Agreement turns_;  // of an evaluation
  UpdateGuard guard_;
  HookList hooks_;
  uint64_t parameter_writes_ = 0;  // TENON_EVENT_BIT of events at which a hook writes parameters
  uint64_t full_parameters_ = 0;   // and at which one sees them whole
  bool is_on_cpu_ = true;
  bool are_gradients_rewritten_ = false;  // by a hook, when they are finished
  bool has_state_buffers_ = false;

  RunState state_;
  int64_t steps_in_window_ = 0;   // begun
  uint64_t records_of_step_ = 0;  // as it was loaded
  uint64_t first_step_ = 0;       // the last step before this process
  uint64_t epoch_step_ = 0;       // the last step before this epoch
  std::string window_label_;      // of the window that is trained on
  // What was loaded and is gone on with: an epoch, a window, wishes that act in the next step.
  bool goes_on_with_epoch_ = false;
  bool goes_on_with_window_ = false;
  Decision loaded_wishes_;
  bool is_checkpoint_asked_ = false;  // by a hook, a signal or the clock, for the next rest
  bool is_saving_prepared_ = false;
  std::optional<std::chrono::steady_clock::time_point> grace_until_;
  bool is_cut_by_signal_ = false;  // what has ended the run, or the kill switch
  bool is_over_ = false;
  Outcome outcome_;
  std::string stop_reason_;         // of the hook that wished to stop
  std::optional<Spike> own_spike_;  // that hooks of this rank have seen
  std::optional<Spike> spike_;      // the same of all ranks: the run goes back with this step
  std::vector<std::string> loss_figures_;
  std::optional<uint64_t> evaluated_step_;
  // Evaluations that were to be made, and that a signal has cut short.
  struct Due {
    bool all = false;          // of data.eval
    bool next_window = false;  // of the open window, before its first step
    bool with_window = false;  // of the windows beside it
  } due_;
  uint64_t num_cut_records_ = 0;  // of what a cut evaluation has told, all of which comes again
  bool is_best_restored_ = false;
  bool has_told_skip_list_ = false;
  // By series of evaluations, then by loss: sum and count over all ranks.
  std::map<std::string, std::vector<std::array<double, 2>>> series_;
  uint64_t logged_step_ = 0;
  bool has_loss_to_log_ = false;
  double hook_lr_factor_ = 1;
  std::vector<Batch> first_batch_;  // overfit_batch: that of the first step, untouched by hooks

  const at::Tensor zero_ = at::scalar_tensor(0.0, at::kDouble);
  // On the run's device: a copy from the CPU would wait.
  const at::Tensor one_ = at::scalar_tensor(
      1.0, at::TensorOptions().dtype(at::kDouble).device(parts_.parameters.device()));

  // Of the step under way, over all its microbatches and all ranks.
  struct Totals {
    int64_t samples = 0;
    int64_t tokens = 0;
    double num_parts = 0;            // microbatches with samples
    std::vector<at::Tensor> counts;  // by loss, [] f64; empty where they come late
  };

  // Of the step under way.
  Totals totals_;
  std::optional<double> lr_factor_;  // once its update is made, or skipped
  Batch* batch_ = nullptr;
  const std::vector<Microbatch>* microbatches_ = nullptr;
  int64_t batch_bytes_ = 0;
  at::Tensor loss_;  // what scalar() lends
  at::Tensor grad_norm_;
  at::Tensor applied_;
  // Whether the update is finite. On the CPU that is known as soon as the gradients are. Elsewhere
  // `is_finite_` is true unless somebody has waited, and the device has `found_inf_` to act upon.
  bool is_finite_ = true;
  bool is_applied_ = true;
  bool are_gradients_final_ = false;
  bool are_figures_finite_ = true;  // losses and what else is added up, on the CPU
  std::optional<double> norm_;      // on the CPU
  at::Tensor figures_;              // elsewhere: [] f64, finite if the figures of the step are
  GradientNorms device_norms_;
  at::Tensor found_;             // [] f32
  at::Tensor found_inf_;         // the same; undefined where the update is made in any case
  bool has_late_skips_ = false;  // that hooks have not heard of
  at::Tensor overflow_;          // [] f32, under a loss scale: 1 if gradients are not finite
  at::Tensor scaler_skips_;  // [] f64: updates that the loss scale has cost since the last record
  at::Tensor final_scale_;   // 1 / count, where the count is known only at the end
  std::vector<at::Tensor> parameter_values_;  // what parameter() lends
  // By group, while hooks see them whole and this rank has a slice.
  std::vector<at::Tensor> full_values_;
  std::vector<at::Tensor> full_grads_;

  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point logged_at_;
  int64_t logged_samples_ = 0;
  int64_t logged_tokens_ = 0;
  double paused_seconds_ = 0;                        // spent evaluating since the last record
  std::chrono::steady_clock::duration data_wait_{};  // for training batches, since the last record
};

}  // namespace tenon
