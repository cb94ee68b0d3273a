// SPDX-License-Identifier: Apache-2.0
//
// Adds the learning rate of each parameter group to the run's metrics, and numeric optimizer
// options on request. It runs just before the metrics are written, so each record has the rates of
// its own step.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace {

struct LrMonitorOptions {
  std::vector<std::string> also;
};

class LrMonitor : public tenon::Hook {
 public:
  static constexpr const char* kType = "lr_monitor";
  static constexpr const char* kSummary = "logs the learning rate of each parameter group";
  using Options = LrMonitorOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("also", &Options::also)
        .non_empty()
        .doc("numeric optimizer options to log too, for example weight_decay, betas, momentum");
  }

  explicit LrMonitor(Options options) : options_(std::move(options)) {}

  // Runs on rank 0 only: learning rates are equal on all ranks.
  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_AFTER_OPTIMIZER_STEP});
    info.reads = TENON_TOUCH_LR;
    info.rank_0_only = 1;
  }

  void on_event(const tenon::Event& event) override {
    if (!is_known_) {
      find_options(event);
    }
    const size_t num_groups = event.num_lr_groups();
    for (size_t i = 0; i < num_groups; ++i) {
      const tenon::LrGroup group = event.lr_group(i);
      event.add_metric("lr_monitor/" + group.name + "/lr", group.rate);
    }
    for (const auto& [name, value] : constants_) {
      event.add_metric(name, value);
    }
  }

 private:
  // Options are constant during a run, so they are looked up once. An optimizer may lack an option,
  // but an option that no optimizer has is an error.
  void find_options(const tenon::Event& event) {
    const size_t num_groups = event.num_lr_groups();
    for (const std::string& option : options_.also) {
      const size_t num_before = constants_.size();
      for (size_t i = 0; i < num_groups; ++i) {
        add_option(event, i, option);
      }
      if (constants_.size() == num_before) {
        TENON_FAIL(TENON_NOT_FOUND,
                   "lr_monitor.no_option",
                   "`also` has \"",
                   option,
                   "\", but no optimizer of this run has a numeric option of this name");
      }
    }
    is_known_ = true;
  }

  // Adds a number, or each entry of a list: "betas.0", "betas.1".
  void add_option(const tenon::Event& event, size_t group, const std::string& option) {
    const std::string name = "lr_monitor/" + event.lr_group(group).name + "/" + option;
    if (const std::optional<double> value = event.lr_group_option(group, "/" + option)) {
      constants_.emplace_back(name, *value);
      return;
    }
    for (size_t i = 0;; ++i) {
      const std::string index = std::to_string(i);
      const std::optional<double> value = event.lr_group_option(group, "/" + option + "/" + index);
      if (!value) {
        return;
      }
      constants_.emplace_back(name + "." + index, *value);
    }
  }

  Options options_;
  bool is_known_ = false;
  std::vector<std::pair<std::string, double>> constants_;  // metric names and values of options
};

}  // namespace

TENON_PLUGIN(LrMonitor)
