// SPDX-License-Identifier: Apache-2.0
//
// Components of the benchmarks: datasets in memory, a hook on all events that times the steps, a
// hook that times the pauses between steps, and a hook that calls an operator by name many times.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/op.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../random_clicks.hpp"
#include "../random_table.hpp"
#include "../stopwatch.hpp"

namespace {

struct TableOptions {
  int64_t samples = RandomTable::kRows;
};

class InMemory : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "bench_table";
  static constexpr const char* kSummary = "4096 random rows of 64 numbers with labels of ten";
  using Options = TableOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("samples", &Options::samples)
        .min(1)
        .doc("number of samples; rows repeat if there are fewer");
  }

  explicit InMemory(const Options& options) : samples_(options.samples) {}

  void describe(tenon::DatasetInfo& info) override {
    x_ = info.field("x", {"B", tenon::Axis("D", RandomTable::kWidth)}, TENON_F32);
    labels_ = info.field("labels", {"B"}, TENON_I64, -100);
  }

  int64_t size(const tenon_window*) override { return samples_; }

  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const auto batch = static_cast<int64_t>(n);
    auto* x = writer.add<float>(x_, {batch, RandomTable::kWidth});
    auto* labels = writer.add<int64_t>(labels_, {batch});
    for (size_t b = 0; b < n; ++b) {
      TENON_CHECK(0 <= indices[b] && indices[b] < samples_, "no row ", indices[b]);
      table_.copy_row(indices[b] % RandomTable::kRows,
                      x + static_cast<int64_t>(b) * RandomTable::kWidth,
                      labels + b);
    }
    writer.set_counts(batch, 0);
  }

  bool next_window(tenon::Window&) override { return false; }
  void reset(uint64_t) override {}

 private:
  int64_t samples_;
  RandomTable table_;
  uint32_t x_ = 0;
  uint32_t labels_ = 0;
};

struct ClicksOptions {
  int64_t samples = 1;
};

class ClicksInMemory : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "bench_clicks";
  static constexpr const char* kSummary = "samples of 26 ids, 13 numbers and a label";
  using Options = ClicksOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("samples", &Options::samples).min(1).doc("number of samples");
  }

  explicit ClicksInMemory(const Options& options) : clicks_(options.samples) {}

  void describe(tenon::DatasetInfo& info) override {
    for (int64_t c = 0; c < RandomClicks::kColumns; ++c) {
      ids_.push_back(info.field("c" + std::to_string(c), {"B"}, TENON_I64));
    }
    dense_ = info.field("dense", {"B", tenon::Axis("D", RandomClicks::kNumbers)}, TENON_F32);
    label_ = info.field("label", {"B"}, TENON_F32);
  }

  int64_t size(const tenon_window*) override { return clicks_.samples(); }

  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const auto batch = static_cast<int64_t>(n);
    for (int64_t c = 0; c < RandomClicks::kColumns; ++c) {
      auto* ids = writer.add<int64_t>(ids_[static_cast<size_t>(c)], {batch});
      for (size_t b = 0; b < n; ++b) {
        TENON_CHECK(0 <= indices[b] && indices[b] < clicks_.samples(), "no sample ", indices[b]);
        ids[b] = clicks_.id(c, indices[b]);
      }
    }
    auto* dense = writer.add<float>(dense_, {batch, RandomClicks::kNumbers});
    auto* labels = writer.add<float>(label_, {batch});
    for (size_t b = 0; b < n; ++b) {
      std::memcpy(dense + static_cast<int64_t>(b) * RandomClicks::kNumbers,
                  clicks_.numbers(indices[b]),
                  RandomClicks::kNumbers * sizeof(float));
      labels[b] = clicks_.label(indices[b]);
    }
    writer.set_counts(batch, 0);
  }

  bool next_window(tenon::Window&) override { return false; }
  void reset(uint64_t) override {}

 private:
  RandomClicks clicks_;
  std::vector<uint32_t> ids_;
  uint32_t dense_ = 0;
  uint32_t label_ = 0;
};

struct StopwatchOptions {
  int64_t warmup = 1;
  int64_t steps = 1;
  std::string path;
  bool wait = false;
  bool all_events = true;
};

class StopwatchHook : public tenon::Hook {
 public:
  static constexpr const char* kType = "bench_stopwatch";
  static constexpr const char* kSummary = "times the steps, and by default listens to every event";
  using Options = StopwatchOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("warmup", &Options::warmup).min(1).doc("steps before the timed steps");
    binder.field("steps", &Options::steps).min(1).doc("steps to time");
    binder.field("path", &Options::path).doc("output file; empty: none");
    binder.field("wait", &Options::wait)
        .doc("read the loss at timed steps, so that the GPU has finished them");
    binder.field("all_events", &Options::all_events)
        .doc(
            "listen to every event; false: to ends of steps only, so that no output of the model "
            "has to be computed for hooks");
  }

  explicit StopwatchHook(const Options& options)
      : path_(options.path),
        waits_(options.wait),
        hears_all_(options.all_events),
        first_(static_cast<uint64_t>(options.warmup)),
        last_(static_cast<uint64_t>(options.warmup + options.steps)),
        watch_(static_cast<uint64_t>(options.warmup), static_cast<uint64_t>(options.steps)) {}

  void describe(tenon_hook_info& info) override {
    info.events =
        hears_all_ ? TENON_ALL_EVENTS : tenon::events({TENON_EVENT_AFTER_STEP, TENON_EVENT_END});
    info.rank_0_only = 1;
  }

  void on_event(const tenon::Event& event) override {
    ++num_events_;
    if (event.id() == TENON_EVENT_AFTER_STEP) {
      const uint64_t step = event.step();
      if (waits_ && (step == 1 || step == first_ || step == last_)) {
        loss_ = event.scalar("loss").item();
      }
      watch_.tick(event.step());
    } else if (event.id() == TENON_EVENT_END && !path_.empty()) {
      std::FILE* file = std::fopen(path_.c_str(), "we");
      TENON_CHECK(file != nullptr, "cannot open ", path_);
      watch_.write(file);
      TENON_CHECK(std::fclose(file) == 0, "cannot write ", path_);
    }
  }

 private:
  std::string path_;
  bool waits_;
  bool hears_all_;
  uint64_t first_;
  uint64_t last_;
  double loss_ = 0;
  Stopwatch watch_;
  uint64_t num_events_ = 0;
};

struct PausesOptions {
  std::string path;
};

// Times each pause from the end of a step to the start of the next step.
class PausesHook : public tenon::Hook {
 public:
  static constexpr const char* kType = "bench_pauses";
  static constexpr const char* kSummary =
      "times the pauses between steps, with and without checkpoints";
  using Options = PausesOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path).doc("output file for the seconds; empty: none");
  }

  explicit PausesHook(const Options& options) : path_(options.path) {}

  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_BEFORE_STEP,
                                 TENON_EVENT_AFTER_STEP,
                                 TENON_EVENT_AFTER_CHECKPOINT,
                                 TENON_EVENT_END});
    info.rank_0_only = 1;
  }

  void on_event(const tenon::Event& event) override {
    switch (event.id()) {
      case TENON_EVENT_AFTER_STEP:
        begin_ = Stopwatch::now();
        saved_ = false;
        break;
      case TENON_EVENT_AFTER_CHECKPOINT:
        saved_ = true;
        break;
      case TENON_EVENT_BEFORE_STEP:
        if (begin_ != 0) {
          (saved_ ? with_ : without_).push_back(Stopwatch::now() - begin_);
        }
        break;
      default:
        write();
    }
  }

 private:
  void write() const {
    if (path_.empty()) {
      return;
    }
    std::FILE* file = std::fopen(path_.c_str(), "we");
    TENON_CHECK(file != nullptr, "cannot open ", path_);
    const auto put = [&](const char* name, const std::vector<double>& pauses) {
      std::fprintf(file, "\"%s\": [", name);
      for (size_t i = 0; i < pauses.size(); ++i) {
        std::fprintf(file, "%s%.9g", i > 0 ? ", " : "", pauses[i]);
      }
      std::fputs("]", file);
    };
    std::fputs("{", file);
    put("with_save_s", with_);
    std::fputs(", ", file);
    put("without_s", without_);
    std::fputs("}\n", file);
    TENON_CHECK(std::fclose(file) == 0, "cannot write ", path_);
  }

  std::string path_;
  double begin_ = 0;
  bool saved_ = false;
  std::vector<double> with_;
  std::vector<double> without_;
};

struct OpCallerOptions {
  int64_t calls = 1;
};

class OpCaller : public tenon::Hook {
 public:
  static constexpr const char* kType = "bench_op_caller";
  static constexpr const char* kSummary = "adds two small tensors many times before each forward";
  using Options = OpCallerOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("calls", &Options::calls).min(1).doc("additions at each event");
  }

  OpCaller(const Options& options, const tenon::CreateContext& context)
      : calls_(options.calls),
        add_(context.host, "aten::add.Tensor"),
        a_(tenon::Tensor::full(context.host, TENON_F32, {TENON_CPU, 0}, {8}, 1.0)),
        b_(tenon::Tensor::full(context.host, TENON_F32, {TENON_CPU, 0}, {8}, 1.0)) {}

  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_BEFORE_FORWARD});
  }

  void on_event(const tenon::Event&) override {
    for (int64_t i = 0; i < calls_; ++i) {
      add_({a_, b_});
    }
  }

 private:
  int64_t calls_;
  tenon::Op add_;
  tenon::Tensor a_;
  tenon::Tensor b_;
};

}  // namespace

TENON_PLUGIN(InMemory, ClicksInMemory, StopwatchHook, PausesHook, OpCaller)
