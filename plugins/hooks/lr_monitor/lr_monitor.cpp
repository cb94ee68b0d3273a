// SPDX-License-Identifier: Apache-2.0
//
// Puts the rate of each group of parameters into the run's figures, and numbers of the options of
// its optimizer where they are asked for. The event is the one before the line of metrics is
// written, so that a line has the rates of its own step.
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
  static constexpr const char* kSummary = "records the learning rate of each group of parameters";
  using Options = LrMonitorOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("also", &Options::also)
        .non_empty()
        .doc("options of the optimizers to record beside the rate: weight_decay, betas, momentum");
  }

  explicit LrMonitor(Options options) : options_(std::move(options)) {}

  // On rank 0 alone: rates are the same on all.
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
  // Options do not change in a run: they are looked up once. Not each optimizer has each of them,
  // but one that none has would be without effect.
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
                   "\", which is no number and no list of numbers among the options of any "
                   "optimizer of this run");
      }
    }
    is_known_ = true;
  }

  // A number, or a list of them: "betas.0", "betas.1".
  void add_option(const tenon::Event& event, size_t group, const std::string& option) {
    const std::string name = "lr_monitor/" + event.lr_group(group).name + "/" + option;
    if (const std::optional<double> value = event.lr_group_option(group, "/" + option)) {
      constants_.emplace_back(name, *value);
      return;
    }
    for (size_t i = 0;; ++i) {
      const std::string place = std::to_string(i);
      const std::optional<double> value = event.lr_group_option(group, "/" + option + "/" + place);
      if (!value) {
        return;
      }
      constants_.emplace_back(name + "." + place, *value);
    }
  }

  Options options_;
  bool is_known_ = false;
  std::vector<std::pair<std::string, double>> constants_;  // figures of options, with their values
};

}  // namespace

TENON_PLUGIN(LrMonitor)
