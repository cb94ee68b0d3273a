// SPDX-License-Identifier: Apache-2.0
//
// A hook that fills parameters, gradients or a field of the batch with one value, or with a formula
// that another program can compute too, at one event of some steps.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/tensor.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "chosen_rank.hpp"

namespace {

struct PlantAtOptions {
  std::string event;
  uint64_t first_step = 1;
  std::optional<uint64_t> last_step;
  uint32_t into = TENON_TOUCH_PARAMETERS;
  std::string name;
  std::optional<double> value;
  bool waves = false;
  std::optional<int64_t> rank;
  bool rank_0_only = false;
  bool full_parameters = false;
};

class PlantAt : public tenon::Hook {
 public:
  static constexpr const char* kType = "plant_at";
  static constexpr const char* kSummary = "for tests: fills a tensor of the run with a value";
  using Options = PlantAtOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    std::vector<std::string> names;
    for (uint32_t event = 0; event < TENON_NUM_EVENTS; ++event) {
      names.push_back(tenon::event_name(event));
    }
    binder.field("event", &Options::event).choices(names).required().doc("name of the event");
    binder.field("first_step", &Options::first_step).min(0).doc("the first step of the event");
    binder.field("last_step", &Options::last_step)
        .min(0)
        .doc("the last one; the first one if absent");
    binder
        .choice("into",
                &Options::into,
                {{"parameters", uint32_t{TENON_TOUCH_PARAMETERS}},
                 {"gradients", uint32_t{TENON_TOUCH_GRADIENTS}},
                 {"batch", uint32_t{TENON_TOUCH_BATCH}}})
        .doc("what is filled");
    binder.field("name", &Options::name).doc("of the parameter or field; empty: all parameters");
    binder.field("value", &Options::value).doc("what it is filled with; NaN if absent");
    binder.field("waves", &Options::waves)
        .doc("fill element i of parameter k with sin(1 + i + 10 k) / 2 instead");
    binder.field("rank", &Options::rank).doc("the rank that does; all if absent");
    binder.field("rank_0_only", &Options::rank_0_only).doc("what the hook says of itself");
    binder.field("full_parameters", &Options::full_parameters)
        .doc("ask for tensors that are whole on each rank");
  }

  PlantAt(const Options& options, const tenon::CreateContext& context)
      : options_(options), is_here_(is_chosen_rank(options.rank, context)) {}

  void describe(tenon_hook_info& info) override {
    info.events = TENON_EVENT_BIT(tenon::event_of(options_.event));
    info.writes = options_.into;
    info.rank_0_only = options_.rank_0_only ? 1 : 0;
    info.full_parameters = options_.full_parameters ? 1 : 0;
  }

  void on_event(const tenon::Event& event) override {
    if (!is_here_ || event.step() < options_.first_step ||
        event.step() > options_.last_step.value_or(options_.first_step)) {
      return;
    }
    if (options_.into == TENON_TOUCH_BATCH) {
      fill(event.field(options_.name).handle());
      return;
    }
    for (size_t i = 0; i < event.num_parameters(); ++i) {
      const tenon::ParameterView view = event.parameter(i);
      if (options_.name.empty() || view.name == options_.name) {
        fill(options_.into == TENON_TOUCH_GRADIENTS ? view.grad.handle() : view.value.handle(), i);
      }
    }
  }

 private:
  void fill(const tenon_tensor* handle, size_t number = 0) const {
    at::Tensor tensor = tenon::unwrap(handle);
    if (options_.waves) {
      const at::Tensor numbers = at::arange(tensor.numel(), at::kDouble);
      const double offset = 1 + 10 * static_cast<double>(number);
      tensor.copy_((at::sin(numbers + offset) / 2).view(tensor.sizes()));
      return;
    }
    tensor.fill_(options_.value.value_or(std::numeric_limits<double>::quiet_NaN()));
  }

  Options options_;
  bool is_here_;
};

}  // namespace

TENON_PLUGIN(PlantAt)
