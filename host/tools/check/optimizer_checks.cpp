// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/optimizer_proxy.hpp"
#include "host/tensor/handle.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr int kNumUpdates = 6;
constexpr double kLearningRate = 1e-2;

// The parameters that an optimizer updates, and its state: copies are independent.
struct Training {
  std::vector<at::Tensor> parameters = {};
  std::vector<at::Tensor> slots = {};  // slot s of piece i is slots[s * pieces + i]
  uint64_t num_updates = 0;

  Training copy() const {
    Training made{.num_updates = num_updates};
    for (const at::Tensor& parameter : parameters) {
      made.parameters.push_back(parameter.clone());
    }
    for (const at::Tensor& slot : slots) {
      made.slots.push_back(slot.clone());
    }
    return made;
  }
};

bool is_equal(const Training& a, const Training& b) {
  const auto all_equal = [](const std::vector<at::Tensor>& x, const std::vector<at::Tensor>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!is_same_to_the_bit(x[i], y[i])) {
        return false;
      }
    }
    return x.size() == y.size();
  };
  return all_equal(a.parameters, b.parameters) && all_equal(a.slots, b.slots);
}

// An optimizer, and the updates to make with it.
class OptimizerTrial {
 public:
  OptimizerTrial(Subject& subject, ComponentInstance instance)
      : subject_(subject),
        optimizer_(std::move(instance)),
        frame_(optimizer_.instance().host(), check_exec_base(subject.request())) {}

  const OptimizerInfo& info() const { return optimizer_.info(); }

  Training start(const std::vector<std::vector<int64_t>>& shapes) const {
    std::mt19937_64 generator = subject_.generator();
    Training training;
    for (const std::vector<int64_t>& shape : shapes) {
      training.parameters.push_back(random_tensor(shape, at::kFloat, -1, 1, generator));
    }
    for (const SlotSpec& slot : info().slots) {
      const at::ScalarType dtype = slot.dtype == TENON_CLASS_PARAM
                                       ? at::kFloat
                                       : scalar_type_of(slot.dtype).value_or(at::kFloat);
      for (const std::vector<int64_t>& shape : shapes) {
        training.slots.push_back(
            at::full(info().slot_shape(slot, shape), slot.init, at::TensorOptions(dtype)));
      }
    }
    return training;
  }

  // Makes updates, each with gradients that depend on its number.
  void update(Training& training, int count, bool found_inf = false) {
    for (int i = 0; i < count; ++i) {
      training.num_updates += found_inf ? 0 : 1;
      std::mt19937_64 generator(subject_.request().seed + 1000 + training.num_updates);
      std::vector<at::Tensor> grads;
      std::vector<at::Tensor> steps;
      for (const at::Tensor& parameter : training.parameters) {
        grads.push_back(random_tensor(parameter.sizes().vec(), at::kFloat, -1, 1, generator));
        steps.push_back(at::full({}, static_cast<double>(training.num_updates), at::kFloat));
      }
      apply(training, grads, steps, found_inf);
    }
  }

  bool has_evaluation_values() const { return optimizer_.has_evaluation_values(); }

  // Replaces the parameters by the values of evaluation.
  void use_evaluation_values(Training& training) {
    const at::AutoGradMode no_grad(false);
    std::vector<tenon_tensor*> parameters;
    std::vector<at::Tensor> steps;
    for (at::Tensor& parameter : training.parameters) {
      parameters.push_back(borrow_mutable(parameter));
      steps.push_back(at::full({}, static_cast<double>(training.num_updates), at::kFloat));
    }
    const auto slots = borrow_all(training.slots);
    const auto step_handles = borrow_all(steps);
    tenon_evaluation_values_args args{};
    args.struct_size = sizeof(args);
    args.num_pieces = parameters.size();
    args.parameters = parameters.data();
    args.slots = slots.data();
    args.steps = step_handles.data();
    frame_.move_to({.step = training.num_updates});
    optimizer_.evaluation_values(frame_.exec(), args);
  }

  // One update with these gradients.
  void apply(Training& training,
             const std::vector<at::Tensor>& grads,
             const std::vector<at::Tensor>& steps,
             bool found_inf = false) {
    frame_.move_to({.step = training.num_updates});
    const at::AutoGradMode no_grad(false);
    std::vector<tenon_tensor*> parameters;
    for (at::Tensor& parameter : training.parameters) {
      parameters.push_back(borrow_mutable(parameter));
    }
    std::vector<tenon_tensor*> slots;
    for (at::Tensor& slot : training.slots) {
      slots.push_back(borrow_mutable(slot));
    }
    const auto grad_handles = borrow_all(grads);
    const auto step_handles = borrow_all(steps);
    const at::Tensor lr = at::full({}, kLearningRate, at::kDouble);
    const at::Tensor inf = at::full({}, found_inf ? 1.0 : 0.0, at::kFloat);
    tenon_update_args args{};
    args.struct_size = sizeof(args);
    args.num_pieces = parameters.size();
    args.parameters = parameters.data();
    args.grads = grad_handles.data();
    args.slots = slots.data();
    args.steps = step_handles.data();
    args.lr = borrow(lr);
    args.found_inf = found_inf ? borrow(inf) : nullptr;
    optimizer_.update(frame_.exec(), args);
  }

 private:
  Subject& subject_;
  OptimizerProxy optimizer_;
  ExecFrame frame_;
};

using Shapes = std::vector<std::vector<int64_t>>;

const Shapes& sample_shapes(const OptimizerInfo& info) {
  static const Shapes shapes = {{8, 3}, {5}};
  static const Shapes matrices = {{8, 3}, {5, 6}};
  return info.has(TENON_OPTIMIZER_MATRICES_ONLY) ? matrices : shapes;
}

using OptimizerBody =
    std::function<void(OptimizerTrial& trial, const CheckedComponent& checked, Findings& findings)>;

CheckResult for_each_optimizer(Subject& subject, const OptimizerBody& body) {
  return subject.for_each_instance(
      "optimizer",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        subject.note("describe or update of " + checked.name());
        OptimizerTrial trial(subject, std::move(instance));
        findings.add_examined();
        body(trial, checked, findings);
      });
}

}  // namespace

CheckResult check_optimizer_update(Subject& subject) {
  return for_each_optimizer(
      subject, [](OptimizerTrial& trial, const CheckedComponent& checked, Findings& findings) {
        Training training = trial.start(sample_shapes(trial.info()));
        const Training before = training.copy();
        trial.update(training, kNumUpdates);
        for (std::size_t i = 0; i < training.parameters.size(); ++i) {
          if (!training.parameters[i].isfinite().all().item<bool>()) {
            findings.add_problem(formatted("update of {} made parameter {} non-finite in {} steps",
                                           checked.name(),
                                           i,
                                           kNumUpdates));
          } else if (is_same_to_the_bit(training.parameters[i], before.parameters[i])) {
            findings.add_problem(formatted("update of {} did not change parameter {} in {} steps",
                                           checked.name(),
                                           i,
                                           kNumUpdates));
          }
        }
      });
}

CheckResult check_optimizer_resume(Subject& subject) {
  return for_each_optimizer(
      subject, [&](OptimizerTrial& trial, const CheckedComponent& checked, Findings& findings) {
        Training whole = trial.start(sample_shapes(trial.info()));
        trial.update(whole, kNumUpdates / 2);
        Training saved = whole.copy();
        trial.update(whole, kNumUpdates - kNumUpdates / 2);
        OptimizerTrial resumed(subject, subject.create(checked));
        subject.note("update of a new " + checked.name());
        resumed.update(saved, kNumUpdates - kNumUpdates / 2);
        if (!is_equal(whole, saved)) {
          findings.add_problem(checked.name() +
                               " updates parameters to other bits after its state was moved to a "
                               "new instance");
        }
      });
}

CheckResult check_found_inf(Subject& subject) {
  return for_each_optimizer(
      subject, [](OptimizerTrial& trial, const CheckedComponent& checked, Findings& findings) {
        Training training = trial.start(sample_shapes(trial.info()));
        trial.update(training, 1);
        const Training before = training.copy();
        trial.update(training, 1, /*found_inf=*/true);
        if (!is_equal(training, before)) {
          findings.add_problem("update of " + checked.name() +
                               " changed parameters or slots although found_inf is 1");
        }
      });
}

CheckResult check_evaluation_values(Subject& subject) {
  return for_each_optimizer(
      subject, [](OptimizerTrial& trial, const CheckedComponent& checked, Findings& findings) {
        if (!trial.has_evaluation_values()) {
          findings.add_remark(checked.name() + " has no evaluation_values");
          return;
        }
        Training training = trial.start(sample_shapes(trial.info()));
        Training untrained = training.copy();
        trial.use_evaluation_values(untrained);
        if (!is_equal(training, untrained)) {
          findings.add_problem("evaluation_values of " + checked.name() +
                               " changed parameters or slots before the first update");
        }
        trial.update(training, kNumUpdates);
        Training evaluated = training.copy();
        trial.use_evaluation_values(evaluated);
        if (!is_equal(Training{.slots = training.slots}, Training{.slots = evaluated.slots})) {
          findings.add_problem("evaluation_values of " + checked.name() + " changed slots");
        }
        for (const at::Tensor& parameter : evaluated.parameters) {
          if (!parameter.isfinite().all().item<bool>()) {
            findings.add_problem("evaluation_values of " + checked.name() +
                                 " made a parameter non-finite");
          }
        }
      });
}

CheckResult check_optimizer_pieces(Subject& subject) {
  return for_each_optimizer(
      subject, [&](OptimizerTrial& trial, const CheckedComponent& checked, Findings& findings) {
        if (trial.info().needs != TENON_OPTIMIZER_ELEMENTWISE) {
          findings.add_remark(checked.name() + " does not declare ELEMENTWISE");
          return;
        }
        // The host cuts at multiples of a block.
        const int64_t block = trial.info().block;
        const int64_t cut = block > 1 ? block : 11;
        const int64_t numel = 2 * cut + 15;
        std::mt19937_64 generator = subject.generator();
        const at::Tensor values = random_tensor({numel}, at::kFloat, -1, 1, generator);
        const at::Tensor gradient = random_tensor({numel}, at::kFloat, -1, 1, generator);
        const auto step = [] { return at::full({}, 1.0, at::kFloat); };

        Training whole = trial.start({{numel}});
        whole.parameters = {values.clone()};
        whole.num_updates = 1;
        trial.apply(whole, {gradient}, {step()});
        Training parts = trial.start({{cut}, {numel - cut}});
        parts.parameters = {values.slice(0, 0, cut).clone(), values.slice(0, cut).clone()};
        parts.num_updates = 1;
        trial.apply(parts,
                    {gradient.slice(0, 0, cut).clone(), gradient.slice(0, cut).clone()},
                    {step(), step()});
        if (!at::allclose(whole.parameters[0], at::cat(parts.parameters), 1e-6, 1e-7)) {
          findings.add_problem(checked.name() +
                               " declares ELEMENTWISE, but updates two parts of a parameter to "
                               "other values than the whole");
        }
      });
}

}  // namespace tenon
