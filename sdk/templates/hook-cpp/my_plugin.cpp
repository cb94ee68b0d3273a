// SPDX-License-Identifier: Apache-2.0
//
// Records a moving average of the loss as the metric my_plugin/loss, and ends the run when the
// average reaches a target.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace {

struct MyPluginOptions {
  double target = 0.0;
  double decay = 0.9;
};

class MyPlugin final : public tenon::Hook, public tenon::Stateful {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "ends the run when the average loss reaches a target";
  using Options = MyPluginOptions;
  static void bind(tenon::OptionBinder<Options>& b) {
    b.field("target", &Options::target).doc("average loss that ends the run");
    b.field("decay", &Options::decay)
        .min(0)
        .max(0.9999)
        .doc("weight of the previous steps in the average");
  }

  explicit MyPlugin(const Options& options) : options_(options) {}

  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_AFTER_OPTIMIZER_STEP});
    info.reads = TENON_TOUCH_LOSS;
  }

  void on_event(const tenon::Event& event) override {
    const std::optional<double> loss = event.step_loss();  // the same on all ranks
    if (!loss) {
      return;  // NaN or infinite
    }
    // The sum of the weights corrects the average of the first steps.
    sum_ = options_.decay * sum_ + *loss;
    weight_ = options_.decay * weight_ + 1;
    const double average = sum_ / weight_;
    event.add_metric("my_plugin/loss", average);
    if (average <= options_.target) {
      event.request(
          TENON_REQUEST_STOP,
          tenon::concat(
              "my_plugin: the average loss is ", average, " (target ", options_.target, ")"));
    }
  }

  // Checkpoints store the state, so that a resumed run continues the average.
  void snapshot(tenon::StateWriter& writer) override {
    writer.put_double("sum", sum_);
    writer.put_double("weight", weight_);
  }

  void load(const tenon::StateReader& reader) override {
    sum_ = reader.get_double("sum");
    weight_ = reader.get_double("weight");
  }

 private:
  Options options_;
  double sum_ = 0;
  double weight_ = 0;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
