// SPDX-License-Identifier: Apache-2.0
//
// Wishes that the run goes back to an earlier checkpoint when the loss, or the norm of the
// gradients, rises far above what it was in the steps before.
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
  static constexpr const char* kSummary = "goes back to an earlier checkpoint when the loss rises";
  using Options = SpikeGuardOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder
        .choice(
            "watch", &Options::watch, {{"loss", Watched::kLoss}, {"grad_norm", Watched::kGradNorm}})
        .doc("the figure of a step to watch");
    binder.field("window", &Options::window)
        .min(2)
        .max(kMaxWindow)
        .doc("so many good steps before say what is usual: their mean and standard deviation");
    binder.field("factor", &Options::factor)
        .min(0)
        .doc("a step is bad whose figure is so many standard deviations above the mean");
    binder.field("min_rise", &Options::min_rise)
        .min(0)
        .doc("and above it by so much of the mean at least");
    binder.field("warm_up", &Options::warm_up)
        .min(0)
        .doc("the first steps of the run, which are not judged");
    binder.field("patience", &Options::patience)
        .min(1)
        .doc("bad steps in a row after which the run goes back to before the first of them");
  }

  explicit SpikeGuard(const Options& options) : options_(options) {}

  // On all ranks: each has seen the losses of its own samples, and a wish of one counts for all.
  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_AFTER_STEP});
    info.reads = TENON_TOUCH_LOSS;
  }

  void on_event(const tenon::Event& event) override {
    if (event.scalar("applied").item() == 0) {
      return;  // nothing came of this step
    }
    const tenon::TensorRef figure = event.find_scalar(name());
    if (!figure) {
      return;
    }
    const double value = figure.item();
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
      // Ranks have changed, and with them the shares of a step: what is usual is gathered anew.
    }
    while (recent_.size() > static_cast<size_t>(options_.window)) {  // it has been made smaller
      recent_.pop_front();
    }
  }

 private:
  static constexpr int64_t kMaxWindow = 100'000;  // what a state may hold in bytes

  struct Usual {
    double mean = 0;
    double deviation = 0;
  };

  const char* name() const { return options_.watch == Watched::kLoss ? "loss" : "grad_norm"; }

  Usual usual() const {
    Usual result;
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
    const auto [mean, deviation] = usual();
    return value - mean > std::max(options_.factor * deviation, options_.min_rise * std::abs(mean));
  }

  std::string reason(double value, uint64_t step) const {
    std::string text = tenon::concat("spike_guard: the ", name(), " of step ", step, " is ", value);
    if (!recent_.empty()) {
      const auto [mean, deviation] = usual();
      text += tenon::concat(", and was ", mean, " with a deviation of ", deviation);
    }
    return text;
  }

  Options options_;
  std::deque<double> recent_;  // of good steps, the last ones
  int64_t num_bad_ = 0;        // in a row, up to the last step
  uint64_t first_bad_step_ = 0;
};

}  // namespace

TENON_PLUGIN(SpikeGuard)
