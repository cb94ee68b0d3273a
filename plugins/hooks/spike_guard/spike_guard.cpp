// SPDX-License-Identifier: Apache-2.0
//
// Requests a roll-back to an earlier checkpoint on a loss spike: the loss, or the gradient norm,
// rises far above its values in recent steps.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>

namespace {

enum class Watched { kLoss, kGradNorm };

struct SpikeGuardOptions {
  Watched watch = Watched::kLoss;
  int64_t window = 100;
  double factor = 6.0;
  double min_rise = 0.1;
  int64_t warm_up = 100;
  int64_t patience = 1;
};

class SpikeGuard : public tenon::Hook, public tenon::Stateful {
 public:
  static constexpr const char* kType = "spike_guard";
  static constexpr const char* kSummary = "rolls back to an earlier checkpoint on a loss spike";
  using Options = SpikeGuardOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder
        .choice(
            "watch", &Options::watch, {{"loss", Watched::kLoss}, {"grad_norm", Watched::kGradNorm}})
        .doc("step metric to watch");
    binder.field("window", &Options::window)
        .min(2)
        .max(kMaxWindow)
        .doc("number of preceding good steps that give the mean and standard deviation");
    binder.field("factor", &Options::factor)
        .min(0)
        .doc(
            "a step is bad if it exceeds the mean by this many standard deviations and by "
            "`min_rise`");
    binder.field("min_rise", &Options::min_rise)
        .min(0)
        .doc("minimum rise of a bad step above the mean, as a fraction of the mean");
    binder.field("warm_up", &Options::warm_up)
        .min(0)
        .doc("initial steps of the run that are not checked");
    binder.field("patience", &Options::patience)
        .min(1)
        .doc(
            "consecutive bad steps before rolling back to a checkpoint taken before the first one");
  }

  explicit SpikeGuard(const Options& options) : options_(options) {}

  // Runs on all ranks: each rank sees the loss of its own samples. A request from one rank applies
  // to all.
  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_AFTER_STEP});
    info.reads = TENON_TOUCH_LOSS;
  }

  void on_event(const tenon::Event& event) override {
    if (event.scalar("applied").item() == 0) {
      return;  // the update was skipped
    }
    const tenon::TensorRef metric = event.find_scalar(name());
    if (!metric) {
      return;
    }
    const double value = metric.item();
    if (!is_bad(value, event.step())) {
      num_bad_ = 0;
      recent_.push_back(value);
      if (recent_.size() > static_cast<size_t>(options_.window)) {
        recent_.pop_front();
      }
      return;
    }
    if (num_bad_++ == 0) {
      first_bad_step_ = event.step();
    }
    if (num_bad_ >= options_.patience) {
      num_bad_ = 0;
      event.roll_back(first_bad_step_, reason(value, event.step()));
    }
  }

  void snapshot(tenon::StateWriter& writer) override {
    std::string bytes;
    for (const double value : recent_) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
    writer.put_bytes("recent", bytes, TENON_STATE_PER_RANK);
    writer.put_int("num_bad", num_bad_, TENON_STATE_PER_RANK);
    writer.put_int("first_bad_step", static_cast<int64_t>(first_bad_step_), TENON_STATE_PER_RANK);
  }

  void load(const tenon::StateReader& reader) override {
    recent_.clear();
    num_bad_ = 0;
    try {
      const std::string bytes = reader.get_bytes("recent");
      recent_.resize(bytes.size() / sizeof(double));
      for (size_t i = 0; i < recent_.size(); ++i) {
        std::memcpy(&recent_[i], bytes.data() + i * sizeof(double), sizeof(double));
      }
      num_bad_ = reader.get_int("num_bad");
      first_bad_step_ = static_cast<uint64_t>(reader.get_int("first_bad_step"));
    } catch (const tenon::Error& error) {
      if (error.code() != TENON_NOT_FOUND) {
        throw;
      }
      // The number of ranks changed, and with it each rank's samples. Collect the statistics again.
    }
    while (recent_.size() > static_cast<size_t>(options_.window)) {  // `window` was reduced
      recent_.pop_front();
    }
  }

 private:
  static constexpr int64_t kMaxWindow = 100'000;  // limit on the size of the saved state

  struct Statistics {
    double mean = 0;
    double deviation = 0;
  };

  const char* name() const { return options_.watch == Watched::kLoss ? "loss" : "grad_norm"; }

  Statistics statistics() const {
    Statistics result;
    const auto n = static_cast<double>(recent_.size());
    for (const double value : recent_) {
      result.mean += value / n;
    }
    double variance = 0;
    for (const double value : recent_) {
      variance += (value - result.mean) * (value - result.mean) / n;
    }
    result.deviation = std::sqrt(variance);
    return result;
  }

  bool is_bad(double value, uint64_t step) const {
    if (!std::isfinite(value)) {
      return true;
    }
    if (step <= static_cast<uint64_t>(options_.warm_up) ||
        recent_.size() < static_cast<size_t>(options_.window)) {
      return false;
    }
    const auto [mean, deviation] = statistics();
    return value - mean > std::max(options_.factor * deviation, options_.min_rise * std::abs(mean));
  }

  std::string reason(double value, uint64_t step) const {
    std::string text = tenon::concat("spike_guard: the ", name(), " of step ", step, " is ", value);
    if (!recent_.empty()) {
      const auto [mean, deviation] = statistics();
      text += tenon::concat(" (recent mean ", mean, ", standard deviation ", deviation, ")");
    }
    return text;
  }

  Options options_;
  std::deque<double> recent_;  // metric of the last good steps
  int64_t num_bad_ = 0;        // current streak of bad steps
  uint64_t first_bad_step_ = 0;
};

}  // namespace

TENON_PLUGIN(SpikeGuard)
