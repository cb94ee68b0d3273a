// SPDX-License-Identifier: Apache-2.0
//
// Letters in names: N output width, K input width, W the effective parameter.
#include "host/error/status.hpp"
#include "host/plugin/parametrization_proxy.hpp"
#include "host/plugin/plugin_gradients.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/initializer.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/subject.hpp"
#include "host/tools/check/tensor_views.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr const char* kParameter = "layers.0.proj.weight";
// Multiples of 64, the usual block of stored weights.
const std::vector<std::vector<int64_t>> kShapes = {{64, 128}, {128}};
constexpr double kStoredLoss = 0.15;   // of the norm; 4-bit codes lose about 0.1
constexpr double kProductLoss = 2e-4;  // of sums in another order

// An instance for one parameter, and its real parameters and buffers.
class ParametrizationTrial {
 public:
  ParametrizationTrial(Subject& subject,
                       const CheckedComponent& checked,
                       ComponentInstance instance,
                       std::vector<int64_t> shape)
      : subject_(subject),
        name_(checked.name()),
        shape_(std::move(shape)),
        proxy_(std::move(instance),
               {.name = kParameter, .shape = shape_, .flags = TENON_PARAM_LINEAR}),
        frame_(proxy_.instance().host(), check_exec_base(subject.request())) {
    frame_.move_to({.is_train = false});  // without dropout
    std::mt19937_64 generator = subject_.generator();
    value_ = random_tensor(shape_, at::kFloat, -1, 1, generator);
    for (const RealSpec& real : proxy_.reals()) {
      reals_.push_back(real.suffix.empty() ? value_.clone() : drawn(real));
    }
    for (const RealBufferSpec& buffer : proxy_.buffers()) {
      buffers_.push_back(at::zeros(buffer.shape, dtype_of(buffer.dtype)));
    }
  }

  const std::string& name() const { return name_; }
  const at::Tensor& value() const { return value_; }
  const std::vector<at::Tensor>& reals() const { return reals_; }
  const std::vector<at::Tensor>& buffers() const { return buffers_; }
  const RealSpec& spec(std::size_t i) const { return proxy_.reals()[i]; }
  const ComponentIdentity& identity() const { return proxy_.instance().identity(); }
  bool has_product() const { return proxy_.has_product() && shape_.size() == 2; }
  bool is_trained(std::size_t i) const {
    return reals_[i].is_floating_point() && (spec(i).flags & TENON_PARAM_FROZEN) == 0;
  }

  void start() {
    const at::AutoGradMode no_grad(false);
    subject_.note("start of " + name_);
    proxy_.start(frame_.exec(), value_, reals_, buffers_);
  }

  // Moves the trained reals, as training would.
  void move_reals() {
    std::mt19937_64 generator(subject_.request().seed + 11);
    for (std::size_t i = 0; i < reals_.size(); ++i) {
      if (is_trained(i)) {
        reals_[i].add_(random_tensor(spec(i).shape, reals_[i].scalar_type(), -0.1, 0.1, generator));
      }
    }
  }

  void use_reals_of(const ParametrizationTrial& other) {
    reals_ = copies_of(other.reals_);
    buffers_ = copies_of(other.buffers_);
  }

  at::Tensor effective() const { return effective(reals_); }
  at::Tensor effective(const std::vector<at::Tensor>& reals) const {
    subject_.note("effective of " + name_);
    return proxy_.effective(frame_.exec(), borrow_all(reals), borrow_all(buffers_));
  }
  at::Tensor product(const at::Tensor& x, const std::vector<at::Tensor>& reals) const {
    subject_.note("product of " + name_);
    return proxy_.product(frame_.exec(), x, borrow_all(reals), borrow_all(buffers_));
  }

  // Reals of which the trained ones record gradients.
  std::vector<at::Tensor> leaves() const {
    std::vector<at::Tensor> leaves = copies_of(reals_);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i].requires_grad_(is_trained(i));
    }
    return leaves;
  }

 private:
  static at::ScalarType dtype_of(uint32_t dtype) {
    return dtype == TENON_CLASS_PARAM ? at::kFloat : scalar_type_of(dtype).value_or(at::kFloat);
  }
  at::Tensor drawn(const RealSpec& real) const {
    const at::Tensor made = at::empty(real.shape, dtype_of(real.dtype));
    fill_init(real.init,
              real.init_a,
              real.init_b,
              subject_.request().seed,
              kParameter + real.suffix,
              TensorPiece(real.shape),
              made);
    return made;
  }

  Subject& subject_;
  std::string name_;
  std::vector<int64_t> shape_;
  ParametrizationProxy proxy_;
  ExecFrame frame_;
  at::Tensor value_;
  std::vector<at::Tensor> reals_;
  std::vector<at::Tensor> buffers_;
};

// Returns null for a shape that the component refuses.
//
// Errors   any error but TENON_UNSUPPORTED of describe
std::unique_ptr<ParametrizationTrial> trial_of(Subject& subject,
                                               const CheckedComponent& checked,
                                               ComponentInstance instance,
                                               const std::vector<int64_t>& shape) {
  try {
    subject.note("describe of " + checked.name());
    return std::make_unique<ParametrizationTrial>(subject, checked, std::move(instance), shape);
  } catch (const StatusError& error) {
    if (error.code() != TENON_UNSUPPORTED) {
      throw;
    }
    return nullptr;
  }
}

using ParametrizationBody = std::function<void(
    ParametrizationTrial& trial, const CheckedComponent& checked, Findings& findings)>;

// Calls `body` after start.
CheckResult for_each_parametrization(Subject& subject, const ParametrizationBody& body) {
  return subject.for_each_instance(
      "parametrization",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        std::unique_ptr<ParametrizationTrial> trial;
        for (const std::vector<int64_t>& shape : kShapes) {
          if (trial == nullptr) {
            trial =
                trial_of(subject,
                         checked,
                         &shape == &kShapes.front() ? std::move(instance) : subject.create(checked),
                         shape);
          }
        }
        if (trial == nullptr) {
          findings.add_skipped(checked.name() + " refuses matrices and vectors");
          return;
        }
        findings.add_examined();
        trial->start();
        body(*trial, checked, findings);
      });
}

std::vector<at::Tensor> trained_of(const ParametrizationTrial& trial,
                                   const std::vector<at::Tensor>& leaves) {
  std::vector<at::Tensor> trained;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (trial.is_trained(i)) {
      trained.push_back(leaves[i]);
    }
  }
  return trained;
}

std::vector<std::string> trained_names(const ParametrizationTrial& trial) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < trial.reals().size(); ++i) {
    if (trial.is_trained(i)) {
      names.push_back(trial.spec(i).suffix);
    }
  }
  return names;
}

bool is_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  return std::ranges::equal(a, b, is_same_to_the_bit);
}

}  // namespace

CheckResult check_started_value(Subject& subject) {
  return for_each_parametrization(
      subject, [](ParametrizationTrial& trial, const CheckedComponent&, Findings& findings) {
        const at::AutoGradMode no_grad(false);
        const at::Tensor effective = trial.effective().to(at::kFloat);
        const double loss =
            ((effective - trial.value()).norm() / trial.value().norm()).item<double>();
        if (!(loss <= kStoredLoss)) {
          findings.add_problem(formatted(
              "after start, the effective parameter of {} is off by {} of its norm, at most {} is "
              "expected of stored weights",
              trial.name(),
              loss,
              kStoredLoss));
        }
      });
}

CheckResult check_effective_repeatable(Subject& subject) {
  return for_each_parametrization(
      subject,
      [&](ParametrizationTrial& trial, const CheckedComponent& checked, Findings& findings) {
        const at::AutoGradMode no_grad(false);
        trial.move_reals();
        const std::vector<at::Tensor> reals = copies_of(trial.reals());
        const std::vector<at::Tensor> buffers = copies_of(trial.buffers());
        const at::Tensor first = trial.effective().clone();
        if (!is_same_to_the_bit(trial.effective(), first)) {
          findings.add_problem("effective of " + trial.name() + " called again gives other bits");
        }
        if (!is_same(trial.reals(), reals) || !is_same(trial.buffers(), buffers)) {
          findings.add_problem("effective of " + trial.name() + " wrote into its inputs");
          return;
        }
        // A resumed run has a new instance, and does not call start.
        const std::vector<int64_t> shape = trial.value().sizes().vec();
        const auto other = trial_of(subject, checked, subject.create(checked), shape);
        if (other == nullptr) {
          findings.add_problem(trial.name() + " refuses a parameter that it accepted before");
          return;
        }
        other->use_reals_of(trial);
        if (!is_same_to_the_bit(other->effective(), first)) {
          findings.add_problem("effective of " + trial.name() +
                               " gives other bits in a new instance without start");
        }
      });
}

CheckResult check_effective_gradients(Subject& subject) {
  return for_each_parametrization(
      subject, [&](ParametrizationTrial& trial, const CheckedComponent&, Findings& findings) {
        trial.move_reals();
        std::mt19937_64 generator = subject.generator();
        const std::vector<at::Tensor> leaves = trial.leaves();
        const std::vector<at::Tensor> trained = trained_of(trial, leaves);
        const std::vector<std::string> names = trained_names(trial);
        if (trained.empty()) {
          findings.add_remark(trial.name() + " has no real parameter to train");
          return;
        }
        const at::Tensor w = trial.effective(leaves);
        if (!w.requires_grad()) {
          findings.add_problem("effective of " + trial.name() +
                               " returned a parameter that autograd did not record");
          return;
        }
        const at::Tensor seed = random_tensor(w.sizes().vec(), w.scalar_type(), -1, 1, generator);
        const auto gradients = plugin_gradients(trial.identity(), {w}, trained, {seed});
        for (std::size_t i = 0; i < trained.size(); ++i) {
          const at::Tensor& gradient = gradients[i];
          // The value may be no derivative: some adapters treat norms as constants.
          const bool is_useful = gradient.defined() && gradient.isfinite().all().item<bool>() &&
                                 gradient.count_nonzero().item<int64_t>() > 0;
          if (!is_useful) {
            findings.add_problem(formatted("{}: the gradient by real \"{}\" is {}",
                                           trial.name(),
                                           names[i],
                                           !gradient.defined() ? "missing"
                                           : gradient.isfinite().all().item<bool>()
                                               ? "zero"
                                               : "non-finite"));
          }
        }
      });
}

CheckResult check_effective_product(Subject& subject) {
  return for_each_parametrization(
      subject, [&](ParametrizationTrial& trial, const CheckedComponent&, Findings& findings) {
        if (!trial.has_product()) {
          findings.add_remark(trial.name() + " has no product");
          return;
        }
        trial.move_reals();
        std::mt19937_64 generator = subject.generator();
        const int64_t K = trial.value().size(1);
        const at::Tensor x = random_tensor({2, 3, K}, at::kFloat, -1, 1, generator);
        const std::vector<at::Tensor> leaves = trial.leaves();
        std::vector<at::Tensor> wrt = trained_of(trial, leaves);
        std::vector<std::string> names = trained_names(trial);
        const at::Tensor x_leaf = x.clone().requires_grad_();
        wrt.push_back(x_leaf);
        const at::Tensor expected = at::matmul(x_leaf, trial.effective(leaves).t());
        const at::Tensor found = trial.product(x_leaf, leaves);
        if (!is_close(found.detach(), expected.detach(), kProductLoss)) {
          findings.add_problem("product of " + trial.name() +
                               " differs from the product with its effective parameter");
          return;
        }
        if (!found.requires_grad()) {
          findings.add_problem("product of " + trial.name() +
                               " returned a value that autograd did not record");
          return;
        }
        const at::Tensor weights = random_tensor(found.sizes().vec(), at::kFloat, -1, 1, generator);
        const auto of_found = plugin_gradients(trial.identity(), {found}, wrt, {weights});
        const auto of_expected = plugin_gradients(trial.identity(), {expected}, wrt, {weights});
        for (std::size_t i = 0; i < wrt.size(); ++i) {
          const auto or_zeros = [&](const at::Tensor& gradient) {
            return gradient.defined() ? gradient : at::zeros_like(wrt[i]);
          };
          if (!is_close(or_zeros(of_found[i]), or_zeros(of_expected[i]), kProductLoss)) {
            findings.add_problem(formatted(
                "{}: the gradient of product by {} differs from that of the product with the "
                "effective parameter",
                trial.name(),
                i + 1 == wrt.size() ? std::string("x") : "real \"" + names[i] + "\""));
          }
        }
      });
}

}  // namespace tenon
