// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/metric_proxy.hpp"
#include "host/tensor/handle.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/recipe_inputs.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"
#include "host/tools/check/tensor_views.hpp"
#include "host/train/objective/metric_state.hpp"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr int kNumMetricBatches = 4;
constexpr double kMergeTolerance = 1e-9;       // of sums in another order
constexpr double kMetricViewTolerance = 1e-6;  // of fp32 sums in another order

// A metric, and batches that it accepts.
class MetricTrial {
 public:
  MetricTrial(Subject& subject, const CheckedComponent& checked, ComponentInstance instance)
      : metric_(std::move(instance)),
        frame_(metric_.instance().host(), check_exec_base(subject.request())) {
    frame_.move_to({.step = 7, .is_train = false});
    RefusedInputs refused;
    if (takes_batches_of_recipe(subject, checked)) {
      return;
    }
    for (const InputGuess& guess : input_guesses()) {
      std::mt19937_64 generator = subject.generator();
      std::vector<SampleInputs> batches;
      for (int i = 0; i < kNumMetricBatches; ++i) {
        batches.push_back(make_inputs(metric_.info().ports, guess, at::kFloat, generator));
      }
      try {
        values_of(batches);
        batches_ = std::move(batches);
        return;
      } catch (const Error& error) {
        refused.add(error);
      }
    }
    reason_ = refused.reason();
  }

  const std::vector<SampleInputs>& batches() const { return batches_; }
  const std::string& reason() const { return reason_; }
  const MetricInfo& info() const { return metric_.info(); }
  const MetricProxy& metric() const { return metric_; }

  // Inputs without samples on their first axis stay whole.
  SampleInputs without_samples(const SampleInputs& inputs) const {
    SampleInputs empty = inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& axes = info().ports[i].axes;
      if (inputs[i].defined() && inputs[i].dim() > 0 && (!axes || axes->front().name == "B")) {
        empty[i] = inputs[i].slice(0, 0, 0);
      }
    }
    return empty;
  }

  MetricState state_of(const std::vector<SampleInputs>& batches) const {
    MetricState state(metric_);
    add(state, batches);
    return state;
  }
  void add(MetricState& state, const std::vector<SampleInputs>& batches) const {
    for (const SampleInputs& inputs : batches) {
      const auto handles = borrow_all(inputs);
      state.update(frame_.exec(), handles.data(), handles.size(), at::kCPU);
    }
  }
  void merge(MetricState& state, const MetricState& next) const {
    state.merge(frame_.exec(), next);
  }
  std::vector<double> compute(MetricState& state) const { return state.compute(frame_.exec()); }
  std::vector<double> values_of(const std::vector<SampleInputs>& batches) const {
    MetricState state = state_of(batches);
    return compute(state);
  }

 private:
  // False if there are none. What the recipe cannot do, the checks of recipes report.
  bool takes_batches_of_recipe(Subject& subject, const CheckedComponent& checked) {
    try {
      std::vector<SampleInputs> batches =
          recipe_inputs(subject, checked, metric_.info().ports, at::kFloat, kNumMetricBatches);
      if (!batches.empty()) {
        values_of(batches);
        batches_ = std::move(batches);
      }
    } catch (const Error&) {
      return false;
    }
    return !batches_.empty();
  }

  MetricProxy metric_;
  ExecFrame frame_;
  std::vector<SampleInputs> batches_;
  std::string reason_;
};

using MetricBody =
    std::function<void(const MetricTrial& trial, const std::string& name, Findings& findings)>;

CheckResult for_each_metric(Subject& subject, const MetricBody& body) {
  return subject.for_each_instance(
      "metric",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        const at::AutoGradMode no_grad(false);
        subject.note("update, merge or compute of " + checked.name());
        const MetricTrial trial(subject, checked, std::move(instance));
        if (trial.batches().empty()) {
          findings.add_skipped("no inputs were found that " + checked.name() +
                               " accepts: " + trial.reason());
          return;
        }
        findings.add_examined();
        body(trial, checked.name(), findings);
      });
}

// Adds a problem if the values differ by more than `tolerance`; a NaN equals a NaN.
void compare(const MetricTrial& trial,
             const std::vector<double>& expected,
             const std::vector<double>& found,
             double tolerance,
             const std::string& what,
             Findings& findings) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool is_equal =
        std::isnan(expected[i])
            ? std::isnan(found[i])
            : std::abs(found[i] - expected[i]) <= tolerance * std::max(1.0, std::abs(expected[i]));
    if (!is_equal) {
      findings.add_problem(formatted(
          "{}: {} is {}, expected {}", what, trial.info().metrics[i], found[i], expected[i]));
    }
  }
}

}  // namespace

CheckResult check_metric_values(Subject& subject) {
  return for_each_metric(
      subject, [](const MetricTrial& trial, const std::string& name, Findings& findings) {
        const std::vector<double> first = trial.values_of(trial.batches());
        compare(trial,
                first,
                trial.values_of(trial.batches()),
                0,
                name + " of equal batches, the second time",
                findings);
        for (std::size_t i = 0; i < first.size(); ++i) {
          if (std::isinf(first[i])) {
            findings.add_problem(formatted("{} of {} is infinite", trial.info().metrics[i], name));
          }
        }
      });
}

CheckResult check_metric_merge(Subject& subject) {
  return for_each_metric(subject,
                         [](const MetricTrial& trial, const std::string& name, Findings& findings) {
                           const std::vector<double> whole = trial.values_of(trial.batches());
                           const auto begin = trial.batches().begin();
                           MetricState merged = trial.state_of({begin, begin + 1});
                           trial.merge(merged, trial.state_of({begin + 1, begin + 2}));
                           trial.merge(merged, trial.state_of({begin + 2, trial.batches().end()}));
                           compare(trial,
                                   whole,
                                   trial.compute(merged),
                                   kMergeTolerance,
                                   name + " of three states that are merged",
                                   findings);
                         });
}

CheckResult check_metric_state(Subject& subject) {
  return for_each_metric(subject,
                         [](const MetricTrial& trial, const std::string& name, Findings& findings) {
                           const std::vector<double> whole = trial.values_of(trial.batches());
                           const auto begin = trial.batches().begin();
                           const MetricState first = trial.state_of({begin, begin + 2});
                           StateTree tree;
                           first.snapshot(tree, "metric");
                           MetricState resumed(trial.metric());
                           resumed.load(tree, "metric");
                           trial.add(resumed, {begin + 2, trial.batches().end()});
                           compare(trial,
                                   whole,
                                   trial.compute(resumed),
                                   0,
                                   name + " of a state that was saved and loaded",
                                   findings);
                         });
}

CheckResult check_metric_views(Subject& subject) {
  return for_each_metric(
      subject, [](const MetricTrial& trial, const std::string& name, Findings& findings) {
        const std::vector<double> expected = trial.values_of(trial.batches());
        for (const ViewKind kind : kViewKinds) {
          std::vector<SampleInputs> views;
          for (const SampleInputs& inputs : trial.batches()) {
            views.push_back(views_of(inputs, kind));
          }
          try {
            compare(trial,
                    expected,
                    trial.values_of(views),
                    kMetricViewTolerance,
                    formatted("{} of inputs that are views {}", name, view_name(kind)),
                    findings);
          } catch (const PluginError&) {  // a status is a right answer
          }
        }
      });
}

CheckResult check_metric_empty(Subject& subject) {
  return for_each_metric(
      subject, [](const MetricTrial& trial, const std::string& name, Findings& findings) {
        const std::vector<double> expected = trial.values_of(trial.batches());
        std::vector<SampleInputs> batches = trial.batches();
        batches.insert(batches.begin() + 1, trial.without_samples(batches.front()));
        try {
          compare(trial,
                  expected,
                  trial.values_of(batches),
                  0,
                  name + " after a batch without samples",
                  findings);
        } catch (const PluginError& error) {
          findings.add_remark(name + " refuses a batch without samples: " + error.message());
        }
      });
}

}  // namespace tenon
