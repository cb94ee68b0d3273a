// SPDX-License-Identifier: Apache-2.0
//
// A hook that records the sum of the squares of some outputs of the model, and their number of
// elements, as the metrics squares/NAME and numel/NAME.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/tensor.hpp>

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

namespace {

struct OutputSumsOptions {
  std::vector<std::string> outputs;
};

class OutputSums : public tenon::Hook {
 public:
  static constexpr const char* kType = "output_sums";
  static constexpr const char* kSummary = "for tests: records sums of outputs of the model";
  using Options = OutputSumsOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("outputs", &Options::outputs).doc("names of outputs");
  }

  explicit OutputSums(Options options) : options_(std::move(options)) {}

  void describe(tenon_hook_info& info) override {
    info.events = TENON_EVENT_BIT(TENON_EVENT_BEFORE_BACKWARD);
    info.reads = TENON_TOUCH_OUTPUTS;
    info.rank_0_only = 1;
  }

  void on_event(const tenon::Event& event) override {
    for (const std::string& name : options_.outputs) {
      const at::Tensor output = tenon::unwrap(event.output(name).handle());
      event.add_metric("squares/" + name, output.to(at::kDouble).square().sum().item<double>());
      event.add_metric("numel/" + name, static_cast<double>(output.numel()));
    }
  }

 private:
  Options options_;
};

}  // namespace

TENON_PLUGIN(OutputSums)
