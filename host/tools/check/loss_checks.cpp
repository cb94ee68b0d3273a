// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/loss_proxy.hpp"
#include "host/plugin/own_handles.hpp"
#include "host/plugin/plugin_gradients.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/recipe_inputs.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"
#include "host/tools/check/tensor_views.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// Faults often show only after the first step.
constexpr std::array<uint64_t, 2> kSteps = {0, 7};

// Of sums in another order, relative to the largest element.
constexpr double kLossViewTolerance = 1e-5;

bool is_near(double found, double expected) {
  return std::abs(found - expected) <= kLossViewTolerance * std::max(1.0, std::abs(expected));
}

std::string tensor_text(const at::Tensor& tensor) {
  return std::string(c10::toString(tensor.scalar_type())) + " " + shape_text(tensor.sizes());
}

// A loss and inputs that it accepts.
class LossTrial {
 public:
  LossTrial(Subject& subject, const CheckedComponent& checked, ComponentInstance instance)
      : subject_(subject),
        checked_(checked),
        name_(checked.name()),
        loss_(std::move(instance)),
        frame_(loss_.instance().host(), check_exec_base(subject.request())) {}

  const std::vector<Port>& ports() const { return loss_.info().ports; }
  const LossInfo& info() const { return loss_.info(); }
  const SampleInputs& inputs() const { return inputs_; }
  bool has_inputs() const { return !inputs_.empty(); }
  const std::string& reason() const { return reason_; }

  // Finds inputs that the loss accepts, in this dtype: those of the recipe, otherwise guesses.
  void find_inputs(at::ScalarType floating) {
    inputs_.clear();
    frame_ = ExecFrame(loss_.instance().host(), check_exec_base(subject_.request(), floating));
    RefusedInputs refused;
    if (takes_inputs_of_recipe(floating)) {
      return;
    }
    for (const InputGuess& guess : input_guesses()) {
      std::mt19937_64 generator = subject_.generator();
      try {
        const SampleInputs inputs = make_inputs(ports(), guess, floating, generator);
        if (try_inputs(inputs) != kInfinity) {
          inputs_ = inputs;
          return;
        }
        reason_ = "its sum is infinite for the guessed ones; pass a recipe that uses it";
      } catch (const Error& error) {
        refused.add(error);
      }
    }
    reason_ = reason_.empty() ? refused.reason() : reason_;
  }

  // True if the first axis of an input counts samples.
  bool has_samples(std::size_t i) const {
    const auto& axes = ports()[i].axes;
    const at::Tensor& input = inputs_[i];
    return input.defined() && input.dim() > 0 && (!axes || axes->front().name == "B");
  }
  // Returns the name of an input that declares another first axis than B; "" if there is none.
  std::string port_without_samples() const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto& axes = ports()[i].axes;
      if (inputs_[i].defined() && axes && !axes->empty() && axes->front().name != "B") {
        return ports()[i].name;
      }
    }
    return "";
  }
  int64_t num_samples() const {
    int64_t samples = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      samples = has_samples(i) ? inputs_[i].size(0) : samples;
    }
    return samples;
  }
  // Returns the inputs of some samples. Inputs without samples on their first axis stay whole.
  SampleInputs part(int64_t begin, int64_t end) const {
    SampleInputs inputs = inputs_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = has_samples(i) ? inputs[i].slice(0, begin, end).clone() : inputs[i];
    }
    return inputs;
  }

  void at_step(uint64_t step) { frame_.move_to({.step = step}); }

  double count(const SampleInputs& inputs) {
    subject_.note("count of " + name_);
    const auto handles = borrow_all(inputs);
    const at::AutoGradMode no_grad(false);
    const at::Tensor count =
        take_handle(loss_.count(frame_.exec(), handles.data(), handles.size()));
    if (count.numel() != 1 || count.dim() != 0 || count.scalar_type() != at::kDouble) {
      loss_.instance().identity().fail_result("count returned " + tensor_text(count) +
                                              ", expected a Double scalar");
    }
    return count.item<double>();
  }

  at::Tensor sum(const SampleInputs& inputs) {
    subject_.note("compute of " + name_);
    const auto handles = borrow_all(inputs);
    at::Tensor sum = take_handle(loss_.compute(frame_.exec(), handles.data(), handles.size()));
    if (sum.dim() != 0 || !at::isFloatingType(sum.scalar_type())) {
      loss_.instance().identity().fail_result("compute returned " + tensor_text(sum) +
                                              ", expected a floating-point scalar");
    }
    return sum;
  }

  double value_of_sum(const SampleInputs& inputs) {
    const at::AutoGradMode no_grad(false);
    return sum(inputs).item<double>();
  }

  // Returns the gradient of the sum by each input; undefined if there is none.
  std::vector<at::Tensor> gradients(const SampleInputs& inputs) {
    const bool has_backward = loss_.has_backward();
    SampleInputs leaves;
    std::vector<at::Tensor> wrt;
    for (const at::Tensor& input : inputs) {
      at::Tensor leaf = input;
      if (input.defined() && at::isFloatingType(input.scalar_type())) {
        leaf = input.detach();  // in the layout of the input
        leaf.requires_grad_(!has_backward);
        wrt.push_back(leaf);
      }
      leaves.push_back(leaf);
    }
    const at::AutoGradMode grad(!has_backward);
    const at::Tensor total = sum(leaves);
    const at::Tensor seed = at::ones_like(total.detach());
    subject_.note("backward of " + name_);
    if (has_backward) {
      const auto handles = borrow_all(leaves);
      OwnHandles results(leaves.size());
      loss_.backward(frame_.exec(), handles.data(), handles.size(), borrow(seed), results.data());
      return results.take(loss_.instance().identity(), "backward");
    }
    std::vector<at::Tensor> found(leaves.size());
    if (!total.requires_grad()) {
      return found;
    }
    const std::vector<at::Tensor> of_wrt =
        plugin_gradients(loss_.instance().identity(), {total}, wrt, {seed});
    std::size_t next = 0;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].defined() && at::isFloatingType(leaves[i].scalar_type())) {
        found[i] = of_wrt[next++];
      }
    }
    return found;
  }

 private:
  // Infinity may be the right answer to inputs that have no meaning, as in CTC.
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double try_inputs(const SampleInputs& inputs) {
    at_step(0);
    const at::AutoGradMode no_grad(false);
    return value_of_sum(inputs);
  }
  // False if there are none. What the recipe cannot do, the checks of recipes report.
  bool takes_inputs_of_recipe(at::ScalarType floating) {
    try {
      for (const SampleInputs& inputs :
           recipe_inputs(subject_, checked_, ports(), floating, /*most_batches=*/1)) {
        try_inputs(inputs);
        inputs_ = inputs;
        return true;
      }
    } catch (const Error&) {
      return false;
    }
    return false;
  }

  Subject& subject_;
  const CheckedComponent& checked_;
  std::string name_;
  LossProxy loss_;
  ExecFrame frame_;
  SampleInputs inputs_;
  std::string reason_;
};

// Step and tolerance of a central difference, by the precision of the sum.
struct Difference {
  double step;
  double tolerance;  // relative to the larger of 1 and the gradient
};

Difference difference_for(const at::Tensor& input, const at::Tensor& sum) {
  const bool is_double = input.scalar_type() == at::kDouble && sum.scalar_type() == at::kDouble;
  return is_double ? Difference{1e-6, 1e-5} : Difference{1e-2, 2e-2};
}

// Compares the gradient by one input with central differences. Returns the worst problem, or "".
std::string gradient_problem(LossTrial& trial, std::size_t port, const at::Tensor& gradient) {
  const SampleInputs& inputs = trial.inputs();
  const at::Tensor& input = inputs[port];
  const std::string of = "by input \"" + trial.ports()[port].name + "\"";
  if (gradient.sizes() != input.sizes()) {
    return "the gradient " + of + " has the shape " + shape_text(gradient.sizes()) + ", expected " +
           shape_text(input.sizes());
  }
  const at::Tensor flat = gradient.detach().to(at::kDouble).contiguous().view({-1});
  at::Tensor sum;
  {
    const at::AutoGradMode no_grad(false);
    sum = trial.sum(inputs);
  }
  const Difference difference = difference_for(input, sum);
  double worst = 0;
  std::string problem;
  // Of a large input, some elements, evenly spread.
  constexpr int64_t kMostCompared = 200;
  const int64_t every = std::max<int64_t>(1, input.numel() / kMostCompared);
  for (int64_t i = 0; i < input.numel(); i += every) {
    const auto value_at = [&](double change) {
      SampleInputs moved = inputs;
      moved[port] = input.detach().clone();
      at::Tensor element = moved[port].view({-1})[i];
      element.add_(change);
      return std::pair(element.item<double>(), trial.value_of_sum(moved));
    };
    const auto [high_at, high] = value_at(difference.step);
    const auto [low_at, low] = value_at(-difference.step);
    const double expected = (high - low) / (high_at - low_at);
    const double found = flat[i].item<double>();
    const double error = std::abs(found - expected) / std::max(1.0, std::abs(expected));
    if (!std::isfinite(found) || error > std::max(worst, difference.tolerance)) {
      worst = error;
      problem = formatted("the gradient {} at element {} is {}, central differences give {}",
                          of,
                          i,
                          found,
                          expected);
      if (!std::isfinite(found)) {
        break;
      }
    }
  }
  return problem;
}

using LossBody = std::function<void(LossTrial& trial, const std::string& name, Findings& findings)>;

// Calls `body` for each loss, with inputs that it accepts: in fp64 if it can, else in fp32.
CheckResult for_each_loss(Subject& subject, const LossBody& body) {
  return subject.for_each_instance(
      "loss", [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        LossTrial trial(subject, checked, std::move(instance));
        trial.find_inputs(at::kDouble);
        if (!trial.has_inputs()) {
          trial.find_inputs(at::kFloat);
        }
        if (!trial.has_inputs()) {
          findings.add_skipped("no inputs were found that " + checked.name() +
                               " accepts: " + trial.reason());
          return;
        }
        findings.add_examined();
        body(trial, checked.name(), findings);
      });
}

}  // namespace

CheckResult check_loss_results(Subject& subject) {
  return for_each_loss(subject, [](LossTrial& trial, const std::string& name, Findings& findings) {
    for (const uint64_t step : kSteps) {
      trial.at_step(step);
      const double count = trial.count(trial.inputs());
      if (!(count > 0) || !std::isfinite(count)) {
        findings.add_problem(formatted("count of {} returned {} at step {}", name, count, step));
      }
      if (const double sum = trial.value_of_sum(trial.inputs()); !std::isfinite(sum)) {
        findings.add_problem(formatted("compute of {} returned {} at step {}", name, sum, step));
      }
    }
  });
}

CheckResult check_loss_gradients(Subject& subject) {
  return for_each_loss(subject, [](LossTrial& trial, const std::string& name, Findings& findings) {
    for (const uint64_t step : kSteps) {
      trial.at_step(step);
      const std::vector<at::Tensor> gradients = trial.gradients(trial.inputs());
      bool has_any = false;
      for (std::size_t i = 0; i < gradients.size() && !findings.has_problems(); ++i) {
        const at::Tensor& input = trial.inputs()[i];
        if (!gradients[i].defined() || !input.defined() ||
            !at::isFloatingType(input.scalar_type())) {
          continue;
        }
        has_any = true;
        if (const std::string problem = gradient_problem(trial, i, gradients[i]);
            !problem.empty()) {
          findings.add_problem(name + ": " + problem);
        }
      }
      if (!has_any) {
        findings.add_problem(name +
                             " has no gradient by any input; set `backward`, or compute with "
                             "operators that autograd records");
        return;
      }
    }
  });
}

CheckResult check_loss_repeatable(Subject& subject) {
  return for_each_loss(subject, [](LossTrial& trial, const std::string& name, Findings& findings) {
    trial.at_step(kSteps.back());
    const at::AutoGradMode no_grad(false);
    const at::Tensor first = trial.sum(trial.inputs());
    const at::Tensor second = trial.sum(trial.inputs());
    if (!is_same_to_the_bit(first, second)) {
      findings.add_problem(formatted("compute of {} returned {} and then {} for equal inputs",
                                     name,
                                     first.item<double>(),
                                     second.item<double>()));
    }
  });
}

CheckResult check_loss_additive(Subject& subject) {
  return subject.for_each_instance(
      "loss", [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        LossTrial trial(subject, checked, std::move(instance));
        if (trial.info().additive_over == TENON_ADDITIVE_NONE) {
          findings.add_skipped(checked.name() + " does not declare that its sum is additive");
          return;
        }
        trial.find_inputs(at::kDouble);
        if (!trial.has_inputs()) {
          findings.add_skipped("no inputs were found that " + checked.name() +
                               " accepts: " + trial.reason());
          return;
        }
        findings.add_examined();
        if (const std::string whole_port = trial.port_without_samples(); !whole_port.empty()) {
          findings.add_remark(checked.name() +
                              " is additive over microbatches, and cannot be cut "
                              "into samples: the first axis of its input \"" +
                              whole_port + "\" is not B");
          return;
        }
        const int64_t samples = trial.num_samples();
        const auto part = [&](int64_t begin, int64_t end) {
          const SampleInputs inputs = trial.part(begin, end);
          return std::pair(trial.value_of_sum(inputs), trial.count(inputs));
        };
        const auto [whole, count] = part(0, samples);
        const auto [first, first_count] = part(0, 1);
        const auto [rest, rest_count] = part(1, samples);
        if (std::abs(first + rest - whole) > 1e-4 * std::max(1.0, std::abs(whole))) {
          findings.add_problem(
              formatted("{} declares additive_over, but the sums of two parts, {} "
                        "and {}, do not add to {}",
                        checked.name(),
                        first,
                        rest,
                        whole));
        }
        if (first_count + rest_count != count) {
          findings.add_problem(formatted("{}: the counts of two parts, {} and {}, do not add to {}",
                                         checked.name(),
                                         first_count,
                                         rest_count,
                                         count));
        }
      });
}

CheckResult check_loss_views(Subject& subject) {
  return for_each_loss(subject, [](LossTrial& trial, const std::string& name, Findings& findings) {
    const double sum = trial.value_of_sum(trial.inputs());
    const double count = trial.count(trial.inputs());
    const std::vector<at::Tensor> gradients = trial.gradients(trial.inputs());
    for (const ViewKind kind : kViewKinds) {
      const SampleInputs inputs = views_of(trial.inputs(), kind);
      const std::string where = formatted(" if the inputs are views {}", view_name(kind));
      try {
        const double found = trial.value_of_sum(inputs);
        if (!is_near(found, sum)) {
          findings.add_problem(
              formatted("compute of {} returned {}, and {}{}", name, sum, found, where));
        }
        if (const double found_count = trial.count(inputs); found_count != count) {
          findings.add_problem(
              formatted("count of {} returned {}, and {}{}", name, count, found_count, where));
        }
        const std::vector<at::Tensor> found_gradients = trial.gradients(inputs);
        for (std::size_t i = 0; i < gradients.size(); ++i) {
          if (!is_close(found_gradients[i], gradients[i], kLossViewTolerance)) {
            findings.add_problem(name + ": the gradient by input \"" + trial.ports()[i].name +
                                 "\" differs" + where);
          }
        }
      } catch (const PluginError&) {  // a status is a right answer
      }
    }
  });
}

CheckResult check_loss_empty(Subject& subject) {
  return for_each_loss(subject, [](LossTrial& trial, const std::string& name, Findings& findings) {
    if (const std::string port = trial.port_without_samples(); !port.empty()) {
      findings.add_remark(name + " cannot be cut into samples: the first axis of its input \"" +
                          port + "\" is not B");
      return;
    }
    const SampleInputs inputs = trial.part(0, 0);
    try {
      const double count = trial.count(inputs);
      const double sum = trial.value_of_sum(inputs);
      if (count != 0 || sum != 0) {
        findings.add_problem(formatted(
            "{} of a batch without samples has the sum {} and the count {}, expected 0 and 0",
            name,
            sum,
            count));
      }
    } catch (const PluginError& error) {
      findings.add_remark(name + " refuses a batch without samples: " + error.message());
    }
  });
}

}  // namespace tenon
