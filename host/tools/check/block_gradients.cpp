// SPDX-License-Identifier: Apache-2.0
//
// Letters in comments: L the sum of all outputs times random weights, plus auxiliary losses.
#include "host/tools/check/block_gradients.hpp"

#include <tenon/model.h>

#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/sample_inputs.hpp"
#include "host/tools/check/tensor_views.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <cmath>
#include <dlfcn.h>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace tenon {
namespace {

constexpr uint64_t kWeightSeed = 31;
constexpr uint64_t kDirectionSeed = 37;

// Step of a difference, and what it may be wrong by.
struct DifferenceStep {
  double step;
  double relative;  // to the larger of gradient and difference
  double rounding;  // of L, relative to the larger of |L| and 1
};

DifferenceStep difference_step(at::ScalarType dtype) {
  return dtype == at::kDouble ? DifferenceStep{1e-6, 1e-4, 1e-13}
                              : DifferenceStep{1e-2, 5e-2, 1e-6};
}

bool is_hand_written(const ModelTrial& trial, uint32_t b) {
  return trial.graph().blocks[b].has(TENON_BLOCK_HAND_WRITTEN);
}

// Returns L. Auxiliary losses that autograd did not record have no gradient; `counted` says which.
double loss_of(const ModelTrial& trial,
               const BlockTape& tape,
               const std::vector<at::Tensor>& weights,
               const std::vector<bool>& counted) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i].defined()) {
      sum += (tape.outputs[i].detach().to(at::kDouble) * weights[i].to(at::kDouble))
                 .sum()
                 .item<double>();
    }
  }
  for (std::size_t i = 0; i < std::min(tape.aux.size(), counted.size()); ++i) {
    if (counted[i]) {
      sum += trial.value_of(tape.aux[i]);
    }
  }
  return sum;
}

// Returns the address at which the library with this address is loaded, or the program.
const void* library_of(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// True if libtorch or the host implement all operators that autograd recorded. The plugin may
// implement others wrongly.
bool records_known_operators(const BlockTape& tape) {
  using torch::autograd::Node;
  const auto class_of = [](const Node& node) {  // its vtable
    return library_of(*reinterpret_cast<const void* const*>(&node));
  };
  const at::AutoGradMode with_grad(true);
  const at::Tensor of_torch = at::zeros({}).requires_grad_().neg();
  const void* const known[] = {class_of(*of_torch.grad_fn()),
                               library_of(reinterpret_cast<const void*>(&is_hand_written))};
  std::vector<const Node*> open;
  const auto add = [&open](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.grad_fn() != nullptr) {
      open.push_back(tensor.grad_fn().get());
    }
  };
  std::ranges::for_each(tape.outputs, add);
  std::ranges::for_each(tape.aux, add, &AuxLoss::sum);
  std::set<const Node*> seen;
  while (!open.empty()) {
    const Node* const node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) {
      continue;
    }
    if (std::ranges::find(known, class_of(*node)) == std::end(known)) {
      return false;
    }
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.function != nullptr) {
        open.push_back(edge.function.get());
      }
    }
  }
  return true;
}

// What a check of one block needs for each of its tensors.
class DirectionalDifference {
 public:
  DirectionalDifference(Subject& subject, ModelTrial& trial, uint32_t b, uint64_t step)
      : trial_(trial),
        b_(b),
        step_(step),
        difference_(difference_step(trial.dtype())),
        generator_(subject.request().seed + kDirectionSeed),
        inputs_(trial.inputs_of(b)) {
    BlockTape tape = trial.forward(b, inputs_, call());
    weights_ = random_weights(subject, trial, b, tape);
    for (const AuxLoss& aux : tape.aux) {
      counted_.push_back(aux.sum.requires_grad() || is_hand_written(trial, b));
    }
    value_ = loss_of(trial, tape, weights_, counted_);
    is_exact_ = !is_hand_written(trial, b) && records_known_operators(tape);
    has_any_ = !tape.aux.empty() || std::ranges::any_of(weights_, &at::Tensor::defined);
    if (has_any_) {
      gradients_ = trial.backward(b, tape, weights_);
    }
  }

  // False if no output has a gradient.
  bool has_any() const { return has_any_; }
  bool is_finite() const { return std::isfinite(value_); }
  // True if the gradient is that of what autograd recorded.
  bool is_exact() const { return is_exact_; }
  const BlockGradients& gradients() const { return gradients_; }
  const std::vector<at::Tensor>& inputs() const { return inputs_; }

  // Moves tensors that are the same value, and compares. Returns a problem, or "".
  std::string compare(const std::vector<at::Tensor>& moved, const at::Tensor& gradient) {
    const at::AutoGradMode no_grad(false);
    const at::Tensor& first = moved.front();
    if (gradient.defined() && gradient.sizes() != first.sizes()) {
      return "has the shape " + shape_text(gradient.sizes()) + ", expected " +
             shape_text(first.sizes());
    }
    const at::Tensor direction =
        random_tensor(first.sizes().vec(), first.scalar_type(), -1, 1, generator_);
    const double found =
        gradient.defined()
            ? (gradient.to(at::kDouble) * direction.to(at::kDouble)).sum().item<double>()
            : 0.0;
    const at::Tensor before = first.clone();
    const auto value_at = [&](double step) {
      for (const at::Tensor& tensor : moved) {
        tensor.copy_(before + direction * step);
      }
      return loss_of(trial_, trial_.forward(b_, inputs_, call()), weights_, counted_);
    };
    const double high = value_at(difference_.step);
    const double low = value_at(-difference_.step);
    for (const at::Tensor& tensor : moved) {
      tensor.copy_(before);
    }
    const double expected = (high - low) / (2 * difference_.step);
    const double allowed =
        difference_.relative * std::max(std::abs(found), std::abs(expected)) +
        difference_.rounding * std::max(1.0, std::abs(value_)) / difference_.step;
    if (std::isfinite(found) && std::abs(found - expected) <= allowed) {
      return "";
    }
    return formatted(
        "changes the outputs by {} along a random direction, central differences "
        "give {}{}",
        found,
        expected,
        is_exact_ ? "; that is right if a stop-gradient such as detach() is intended" : "");
  }

 private:
  BlockCall call() const {
    return {.samples = trial_.num_samples(), .step = step_, .is_recompute = true};
  }

  ModelTrial& trial_;
  uint32_t b_;
  uint64_t step_;
  DifferenceStep difference_;
  std::mt19937_64 generator_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> weights_;  // by output
  std::vector<bool> counted_;        // by auxiliary loss
  double value_ = 0;                 // L
  bool has_any_ = false;
  bool is_exact_ = false;
  BlockGradients gradients_;
};

}  // namespace

std::vector<at::Tensor> random_weights(Subject& subject,
                                       const ModelTrial& trial,
                                       uint32_t b,
                                       const BlockTape& tape) {
  std::mt19937_64 generator(subject.request().seed + kWeightSeed);
  std::vector<at::Tensor> weights;
  for (std::size_t i = 0; i < tape.outputs.size(); ++i) {
    const at::Tensor& output = tape.outputs[i];
    const bool has_gradient = output.is_floating_point() &&
                              trial.needs_gradient(trial.graph().blocks[b].outputs[i]) &&
                              (output.requires_grad() || is_hand_written(trial, b));
    weights.push_back(
        has_gradient ? random_tensor(output.sizes().vec(), output.scalar_type(), -1, 1, generator)
                     : at::Tensor());
  }
  return weights;
}

namespace {

// What is wrong with the gradient by one tensor; the tensor has no name if it is that of no one.
struct GradientProblem {
  std::string name;
  std::string text;
  bool is_absent = false;  // there is no gradient
  bool is_exact = false;   // the gradient is that of what autograd recorded
};

std::vector<GradientProblem> problems_at(Subject& subject,
                                         ModelTrial& trial,
                                         uint32_t b,
                                         uint64_t step) {
  const ModelGraph& graph = trial.graph();
  const ModelBlock& block = graph.blocks[b];
  DirectionalDifference difference(subject, trial, b, step);
  if (!difference.has_any()) {
    return {{.name = "",
             .text = "no output and no auxiliary loss has a gradient, although the block has "
                     "parameters to train or reads values that have a gradient"}};
  }
  if (!difference.is_finite()) {
    return {
        {.name = "", .text = "the outputs are NaN or infinite for random parameters and inputs"}};
  }
  std::vector<GradientProblem> problems;
  const auto compare = [&](const std::string& name,
                           const std::vector<at::Tensor>& moved,
                           const at::Tensor& gradient) {
    const std::string problem = difference.compare(moved, gradient);
    if (!problem.empty()) {
      problems.push_back({.name = name,
                          .text = "the gradient by \"" + name + "\" " + problem,
                          .is_absent = !gradient.defined(),
                          .is_exact = gradient.defined() && difference.is_exact()});
    }
  };
  for (std::size_t i = 0; i < block.inputs.size(); ++i) {
    const uint32_t v = block.inputs[i];
    const at::Tensor& input = difference.inputs()[i];
    const bool is_first =
        std::ranges::find(block.inputs, v) - block.inputs.begin() == static_cast<std::ptrdiff_t>(i);
    if (!input.defined() || !trial.needs_gradient(v) || !input.is_floating_point() || !is_first) {
      continue;
    }
    std::vector<at::Tensor> same;  // a block may read one value twice
    for (std::size_t k = i; k < block.inputs.size(); ++k) {
      if (block.inputs[k] == v) {
        same.push_back(difference.inputs()[k]);
      }
    }
    compare(graph.values[v].name, same, difference.gradients().inputs[i]);
  }
  for (std::size_t i = 0; i < block.parameters.size(); ++i) {
    const uint32_t p = block.parameters[i];
    if (trial.store().is_trainable(p)) {
      compare(graph.parameters[p].name,
              {trial.store().leaf(p).detach()},
              difference.gradients().parameters[i]);
    }
  }
  return problems;
}

}  // namespace

GradientFindings compare_gradients(Subject& subject, ModelTrial& trial, uint32_t b) {
  const uint64_t step = BlockCall().step;
  std::vector<GradientProblem> problems = problems_at(subject, trial, b, step);
  if (std::ranges::any_of(problems, &GradientProblem::is_absent)) {
    // The parts of a GAN are trained in turn: what has no gradient now may have one in the next
    // step.
    const std::vector<GradientProblem> next = problems_at(subject, trial, b, step + 1);
    std::erase_if(problems, [&next](const GradientProblem& problem) {
      return problem.is_absent && std::ranges::none_of(next, [&](const GradientProblem& other) {
               return other.name.empty() || other.name == problem.name;
             });
    });
  }
  GradientFindings findings;
  for (GradientProblem& problem : problems) {
    (problem.is_exact ? findings.unrecorded : findings.problems).push_back(std::move(problem.text));
  }
  return findings;
}

}  // namespace tenon
