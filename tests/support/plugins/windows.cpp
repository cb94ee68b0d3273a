// SPDX-License-Identifier: Apache-2.0
//
// A map-style dataset with the windows listed in the recipe, or without windows. `sample_id` counts
// samples across all windows of an epoch, including skipped ones.
#include <tenon/cpp/plugin.hpp>

#include <csignal>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

#include "chosen_rank.hpp"
#include "sample_values.hpp"

namespace {

struct WindowOptions {
  std::string label;
  int64_t size = 0;
  bool skip = false;
  int64_t comes_at = 0;
  std::optional<int64_t> id;
  static void bind(tenon::OptionBinder<WindowOptions>& binder) {
    binder.field("label", &WindowOptions::label).doc("label of the window");
    binder.field("size", &WindowOptions::size).min(0).required().doc("number of samples");
    binder.field("skip", &WindowOptions::skip)
        .doc("skip the window: count its samples without training");
    binder.field("comes_at", &WindowOptions::comes_at)
        .min(0)
        .doc("number of failed requests before the window is available");
    binder.field("id", &WindowOptions::id)
        .min(0)
        .doc("id of the window; null: its index in the list");
  }
};

struct WindowsOptions {
  std::vector<WindowOptions> windows;
  int64_t samples = 16;
  int64_t dim = 4;
  int64_t num_classes = 3;
  int64_t tokens_per_sample = 0;
  std::optional<int64_t> fail_at_sample;
  std::optional<int64_t> hang_at_sample;
  std::optional<int64_t> shorter_on_rank;
  std::optional<int64_t> late_on_rank;
  int64_t wait_ms = 1;
  int64_t terminate_when_asked = 0;
  int64_t spoilt_first = 0;
  int64_t spoilt_last = -1;
  std::optional<double> spoilt_by;
};

class Windows : public tenon::MapDataset {
 public:
  static constexpr const char* kType = "windows";
  static constexpr const char* kSummary = "test plugin: windows as listed in the recipe";
  using Options = WindowsOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("windows", &Options::windows).doc("empty: a dataset without windows");
    binder.field("samples", &Options::samples).min(0).doc("number of samples without windows");
    binder.field("dim", &Options::dim).min(1).doc("size of x");
    binder.field("num_classes", &Options::num_classes).min(1).doc("number of labels");
    binder.field("tokens_per_sample", &Options::tokens_per_sample)
        .min(0)
        .doc("token count of each sample");
    binder.field("fail_at_sample", &Options::fail_at_sample)
        .doc("the read that has this sample_id fails");
    binder.field("hang_at_sample", &Options::hang_at_sample)
        .doc("the read that has this sample_id never returns");
    binder.field("shorter_on_rank", &Options::shorter_on_rank)
        .doc("on this rank, the dataset or its last window is one sample shorter");
    binder.field("late_on_rank", &Options::late_on_rank)
        .doc("windows are delayed on this rank only");
    binder.field("wait_ms", &Options::wait_ms).min(1).doc("retry interval, ms");
    binder.field("terminate_when_asked", &Options::terminate_when_asked)
        .min(0)
        .doc("raise SIGTERM at this failed request; 0: never");
    binder.field("spoilt_first", &Options::spoilt_first).doc("first corrupted sample_id");
    binder.field("spoilt_last", &Options::spoilt_last)
        .doc("last corrupted sample_id; below spoilt_first: none");
    binder.field("spoilt_by", &Options::spoilt_by)
        .doc("factor of x in corrupted samples; null: NaN");
  }

  Windows(const Options& options, const tenon::CreateContext& context)
      : options_(options), fields_(options.dim, options.num_classes) {
    fields_.spoil(options.spoilt_first,
                  options.spoilt_last,
                  options.spoilt_by.value_or(std::numeric_limits<double>::quiet_NaN()));
    if (options.shorter_on_rank && is_chosen_rank(options.shorter_on_rank, context)) {
      --(options_.windows.empty() ? options_.samples : options_.windows.back().size);
    }
    if (options_.late_on_rank && !is_chosen_rank(options.late_on_rank, context)) {
      for (WindowOptions& window : options_.windows) {
        window.comes_at = 0;
      }
    }
    first_ids_.push_back(0);
    for (const WindowOptions& window : options_.windows) {
      first_ids_.push_back(first_ids_.back() + window.size);
    }
  }

  void describe(tenon::DatasetInfo& info) override {
    fields_.declare(info);
    if (!options_.windows.empty()) {
      info.windows();
    }
  }

  int64_t size(const tenon_window* window) override {
    if (options_.windows.empty()) {
      TENON_CHECK(window == nullptr, "window passed to a dataset without windows");
      return options_.samples;
    }
    return of(window).size;
  }

  void read(const tenon_window* window,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const int64_t first = window == nullptr ? 0 : first_ids_[index_of(window)];
    const int64_t num_samples = size(window);
    std::vector<int64_t> ids;
    for (size_t b = 0; b < n; ++b) {
      TENON_CHECK(0 <= indices[b] && indices[b] < num_samples, "no sample ", indices[b]);
      ids.push_back(first + indices[b]);
      if (options_.fail_at_sample == ids.back()) {
        TENON_FAIL(TENON_IO, "windows.asked_to_fail", "sample ", ids.back(), " cannot be read");
      }
      while (options_.hang_at_sample == ids.back()) {
        pause();
      }
    }
    fields_.write(ids, writer, options_.tokens_per_sample);
  }

  bool next_window(tenon::Window& out) override {
    if (next_ == options_.windows.size()) {
      return false;
    }
    const WindowOptions& window = options_.windows[next_];
    if (num_asked_ < window.comes_at) {
      if (++num_asked_ == options_.terminate_when_asked) {
        kill(getpid(), SIGTERM);
      }
      out.wait_ms = static_cast<uint32_t>(options_.wait_ms);
      return true;
    }
    num_asked_ = 0;
    out.id = id_of(next_);
    out.label = window.label;
    out.size = window.size;
    out.skip = window.skip;
    ++next_;
    return true;
  }

  void reset(uint64_t) override { next_ = 0; }

 private:
  uint64_t id_of(size_t index) const {
    const std::optional<int64_t>& id = options_.windows[index].id;
    return id ? static_cast<uint64_t>(*id) : index;
  }

  // Index of the first window with this id.
  size_t index_of(const tenon_window* window) const {
    TENON_CHECK(window != nullptr, "window is null");
    size_t index = 0;
    while (index < options_.windows.size() && id_of(index) != window->id) {
      ++index;
    }
    TENON_CHECK(index < options_.windows.size(), "no such window");
    return index;
  }

  const WindowOptions& of(const tenon_window* window) const {
    return options_.windows[index_of(window)];
  }

  Options options_;
  SampleFields fields_;
  std::vector<int64_t> first_ids_;  // sample_id of each window's first sample
  size_t next_ = 0;
  int64_t num_asked_ = 0;  // failed requests for the next window
};

}  // namespace

TENON_PLUGIN(Windows)
