// SPDX-License-Identifier: Apache-2.0
#include "host/train/step_log.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// "data/web/samples".
std::string mix_metric(const MixPartInfo& part, const char* what) {
  return "data/" + part.name + "/" + what;
}

at::Tensor unless_bad(const at::Tensor& bad, const at::Tensor& value) {
  return bad.defined() ? at::where(bad.eq(1), at::zeros_like(value), value) : value;
}

}  // namespace

// A single loss with weight 1 is the metric "loss". Otherwise each loss has its own metric, in
// addition to the weighted sum.
StepLog::StepLog(RunServices& run,
                 const RunState& state,
                 const StopConditions& stop,
                 FiniteCheck& finite_check)
    : run_(run), state_(state), stop_(stop), finite_check_(finite_check) {
  const LossSet& losses = run_.model.losses;
  const bool is_plain = losses.size() == 1 && losses.weight(0) == 1;
  for (size_t l = 0; l < losses.size(); ++l) {
    loss_names_.push_back(is_plain ? "loss" : "loss/" + losses.name(l));
  }
}

void StepLog::add_losses(const std::vector<Microbatch>& microbatches, const at::Tensor& bad) {
  has_loss_ = true;
  for (size_t l = 0; l < loss_names_.size(); ++l) {
    if (!run_.plan.loop.schedule.has_losses()) {
      run_.report.metrics.add(loss_names_[l], 0, 0);  // keeps the place of the loss in records
    }
    for (const Microbatch& microbatch : microbatches) {
      if (!microbatch.sums.empty()) {
        run_.report.metrics.add_tensor(loss_names_[l],
                                       unless_bad(bad, microbatch.sums[l]),
                                       unless_bad(bad, microbatch.counts[l]));
      }
      for (const SourceSums& source : microbatch.by_source) {
        run_.report.metrics.add_tensor(source_loss(source.part, l),
                                       unless_bad(bad, source.sums[l]),
                                       unless_bad(bad, source.counts[l]));
      }
    }
  }
}

std::string StepLog::source_loss(uint32_t part, size_t loss) const {
  return mix_metric(run_.data.train.source().parts()[part], loss_names_[loss].c_str());
}

void StepLog::add_work(const std::vector<Microbatch>& microbatches) {
  for (const Microbatch& microbatch : microbatches) {
    if (run_.report.flops != nullptr && run_.role().counts_samples()) {
      run_.report.flops->add(microbatch.batch);
    }
  }
}

void StepLog::restart_clock() {
  if (run_.report.flops != nullptr) {
    run_.report.flops->drop_recent();
  }
  logged_at_ = Clock::now();
  pause_ = {};
  data_wait_ = {};
}

bool StepLog::is_due() const {
  const uint64_t step = state_.step;
  return step == 1 || (run_.recipe().train.log_every > 0 &&
                       step % static_cast<uint64_t>(run_.recipe().train.log_every) == 0);
}

void StepLog::log(size_t num_roll_backs) {
  finite_check_.sync();
  finite_check_.sync_loss_scale(run_.report.metrics);
  const auto now = Clock::now();
  RunPace pace = record_speed(now);
  run_.report.metrics.share(run_.ranks.groups.sums());
  const bool has_loss = std::exchange(has_loss_, false);
  if (has_loss) {
    record_total_loss();
  }
  const CallPoint point{state_.step, 0, true};
  for (const auto& [name, value] :
       run_.model.metrics.close_record(run_.ranks.groups.sums(), point)) {
    run_.report.metrics.set(name, value);
  }
  pace.non_finite_steps = finite_check_.guard().count().steps;
  if (pace.non_finite_steps > 0) {
    run_.report.metrics.set("non_finite_steps", static_cast<double>(pace.non_finite_steps));
  }
  if (num_roll_backs > 0) {
    run_.report.metrics.set("roll_backs", static_cast<double>(num_roll_backs));
  }
  record_mix();
  record_tables();
  write(pace, has_loss);
  logged_step_ = state_.step;
  logged_samples_ = state_.samples;
  logged_tokens_ = state_.tokens;
  logged_at_ = now;
  pause_ = {};
  data_wait_ = {};
}

RunPace StepLog::record_speed(Clock::time_point now) {
  const RunState& state = state_;
  MetricBook& metrics = run_.report.metrics;
  const double seconds = std::max(1e-9, seconds_of(now - logged_at_) - seconds_of(pause_));
  const double steps = std::max(1.0, static_cast<double>(state.step - logged_step_));
  RunPace pace;
  if (run_.recipe().train.steps.has_value()) {
    pace.total_steps = static_cast<uint64_t>(*run_.recipe().train.steps);
  }
  pace.samples_per_second = static_cast<double>(state.samples - logged_samples_) / seconds;
  pace.tokens_per_second = static_cast<double>(state.tokens - logged_tokens_) / seconds;
  pace.seconds = stop_.seconds();
  metrics.set("samples_per_second", pace.samples_per_second);
  if (state.tokens > 0) {
    metrics.set("tokens_per_second", pace.tokens_per_second);
  }
  record_memory();
  record_flops(seconds, pace);
  metrics.set("step_seconds", seconds / steps);
  metrics.set("data_wait_seconds", seconds_of(data_wait_) / steps, MetricBook::OfRanks::kLargest);
  return pace;
}

// The line of progress has the exact count, or else the first formula that applies.
void StepLog::record_flops(double seconds, RunPace& pace) {
  if (run_.report.flops == nullptr) {
    return;
  }
  const FlopReport report = run_.report.flops->report(run_.ranks.groups.all(), seconds);
  for (const FormulaFlops& formula : report.formulas) {
    if (!formula.why_not.empty()) {
      continue;
    }
    const double mfu = report.utilization(formula.model);
    run_.report.metrics.set("mfu/" + formula.id, mfu);
    if (std::isfinite(formula.hardware)) {
      run_.report.metrics.set("hfu/" + formula.id, report.utilization(formula.hardware));
    }
    if (formula.id == kExactFlops) {
      run_.report.metrics.set("flops_per_second", formula.model / seconds);
    }
    if (!pace.mfu.has_value() || formula.id == kExactFlops) {
      pace.mfu = mfu;
    }
  }
}

void StepLog::record_memory() {
  if (run_.plan.context.gpu == nullptr) {
    return;
  }
  const GpuMemory memory = run_.plan.context.gpu->memory();
  const auto set_largest = [&](const char* name, int64_t bytes) {
    run_.report.metrics.set(name, static_cast<double>(bytes), MetricBook::OfRanks::kLargest);
  };
  set_largest("gpu/allocated_bytes", memory.allocated);
  set_largest("gpu/reserved_bytes", memory.reserved);
  set_largest("gpu/peak_bytes", memory.peak_allocated);
}

void StepLog::record_total_loss() {
  const LossSet& losses = run_.model.losses;
  if (losses.size() == 1 && losses.weight(0) == 1) {
    return;  // the only loss is the total
  }
  double total = 0;
  for (size_t l = 0; l < losses.size(); ++l) {
    total += losses.weight(l) * run_.report.metrics.mean(loss_names_[l]);
  }
  run_.report.metrics.set("loss", total);
}

// Records how much of each source of a mix the run has read, over all ranks.
void StepLog::record_mix() {
  const DataSource& source = run_.data.train.source();
  std::vector<int64_t> samples = run_.data.train.part_samples();
  if (!samples.empty() && source.info().style == DatasetStyle::kStream) {
    run_.ranks.groups.samples().all_reduce(std::span(samples), Reduce::kSum, "samples of a mix");
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const MixPartInfo& part = source.parts()[i];
    const auto count = static_cast<double>(samples[i]);
    run_.report.metrics.set(mix_metric(part, "samples"), count);
    if (part.size.has_value() && *part.size > 0) {
      run_.report.metrics.set(mix_metric(part, "epochs"), count / static_cast<double>(*part.size));
    }
  }
}

// Records table sizes, and their changes since the last record, over all ranks. Skips changes of 0
// for single tables.
void StepLog::record_tables() {
  if (run_.model.tables == nullptr) {
    return;
  }
  const std::vector<TableMetrics> tables = run_.model.tables->take_metrics();
  std::vector<int64_t> numbers;
  for (const TableMetrics& table : tables) {
    numbers.insert(numbers.end(),
                   {table.rows,
                    table.bytes,
                    table.counts.inserted,
                    table.counts.refused,
                    table.counts.evicted});
  }
  run_.ranks.groups.sums().all_reduce(std::span(numbers), Reduce::kSum, "metrics of tables");
  constexpr const char* kNames[] = {"rows", "bytes", "inserted", "refused", "evicted"};
  constexpr size_t kNumSizes = 2;
  std::array<int64_t, std::size(kNames)> all{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t which = i % std::size(kNames);
    all[which] += numbers[i];
    if (which < kNumSizes || numbers[i] != 0) {
      run_.report.metrics.set("tables/" + tables[i / std::size(kNames)].name + "/" + kNames[which],
                              static_cast<double>(numbers[i]));
    }
  }
  for (size_t which = 0; which < all.size(); ++which) {
    run_.report.metrics.set(std::string("tables/") + kNames[which],
                            static_cast<double>(all[which]));
  }
}

void StepLog::write(const RunPace& pace, bool has_loss) {
  MetricRecord record = run_.report.metrics.close(state_.step);
  record.window = run_.data.train.window_label();
  run_.report.journal.add(MetricsRecorded{.record = record, .pace = pace, .has_loss = has_loss});
}

std::map<std::string, double> StepLog::last_metrics() const {
  std::vector<std::string> names = {"loss", "lr", "grad_norm"};
  for (const std::string& name : run_.model.metrics.training_metrics()) {
    names.push_back(name);
  }
  for (const MixPartInfo& part : run_.data.train.source().parts()) {
    names.push_back(mix_metric(part, "samples"));
    names.push_back(mix_metric(part, "epochs"));
    for (const std::string& loss : loss_names_) {
      names.push_back(mix_metric(part, loss.c_str()));
    }
  }
  std::map<std::string, double> metrics;
  for (const std::string& name : names) {
    if (const auto value = run_.report.metrics.last(name)) {
      metrics[name] = *value;
    }
  }
  return metrics;
}

}  // namespace tenon
