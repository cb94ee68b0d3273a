// SPDX-License-Identifier: Apache-2.0
//
// Writes the records of training every N steps, to metric sinks and to the terminal: losses and
// other metrics of the loop. Time spent on evaluation does not count as training time.
// Invariant: a record is the same on all ranks.
// Threads: the train thread; log() and the functions it calls are collective calls.
#pragma once

#include "host/data/data_stream.hpp"
#include "host/device/gpu.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/embedding/table_set.hpp"
#include "host/journal/run_state.hpp"
#include "host/metrics/metric_book.hpp"
#include "host/metrics/progress.hpp"
#include "host/metrics/sink_list.hpp"
#include "host/train/finite_check.hpp"
#include "host/train/flop_meter.hpp"
#include "host/train/microbatch.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"
#include "host/train/state_fields.hpp"
#include "host/train/stop_conditions.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tenon {

class StepLog final : public WithStateFields<StepLog> {
 public:
  // All are borrowed.
  StepLog(RunServices& run,
          const RunState& state,
          const StopConditions& stop,
          FiniteCheck& finite_check);

  // ---- between two records ----

  // Adds the losses of a step to the means of the next record.
  // Shapes  bad [] f32: 1 if the device excludes the losses; undefined if they always count
  void add_losses(const std::vector<Microbatch>& microbatches, const at::Tensor& bad);
  // Adds the operations of a step.
  void add_work(const std::vector<Microbatch>& microbatches);
  // Adds time that training waited for data, or paused for an evaluation.
  void add_data_wait(std::chrono::steady_clock::duration time) { data_wait_ += time; }
  void add_pause(std::chrono::steady_clock::duration time) { pause_ += time; }
  // Measures the time of the next record from now on.
  void restart_clock();

  // ---- records ----

  // Returns true at step 1, and every N steps by the recipe's log_every.
  bool is_due() const;
  // Returns true if the last step has been logged.
  bool has_logged() const { return logged_step_ == state_.step; }
  // Writes a record of the steps since the last one.
  void log(size_t num_roll_backs);

  // The last recorded value of every metric of training.
  std::map<std::string, double> last_metrics() const;

  template <class Self, class Fields>
  static void describe(Self& self, Fields& f) {
    f.field("logged_step", self.logged_step_);
    f.field("logged_samples", self.logged_samples_, kNotNegative);
    f.field("logged_tokens", self.logged_tokens_, kNotNegative);
    f.field("has_loss_to_log", self.has_loss_);
  }

 private:
  RunPace record_speed(std::chrono::steady_clock::time_point now);
  void record_memory();
  void record_flops(double seconds, RunPace& pace);
  void record_total_loss();
  std::string source_loss(uint32_t part, size_t loss) const;
  void record_mix();
  void record_tables();
  void write(const RunPace& pace, bool has_loss);

  RunServices& run_;
  const RunState& state_;
  const StopConditions& stop_;
  FiniteCheck& finite_check_;
  std::vector<std::string> loss_names_;  // of the losses' metrics
  uint64_t logged_step_ = 0;
  int64_t logged_samples_ = 0;
  int64_t logged_tokens_ = 0;
  bool has_loss_ = false;  // losses were added since the last record
  std::chrono::steady_clock::time_point logged_at_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration pause_{};
  std::chrono::steady_clock::duration data_wait_{};
};

}  // namespace tenon
