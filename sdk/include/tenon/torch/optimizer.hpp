// SPDX-License-Identifier: Apache-2.0
//
// Dense optimizers on at::Tensor, in the form that libtorch's fused kernels take.
// <tenon/optimizer.h> defines the contract.
#ifndef TENON_TORCH_OPTIMIZER_HPP
#define TENON_TORCH_OPTIMIZER_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/optimizer.hpp>
#include <tenon/torch/tensor.hpp>

#include <optional>
#include <vector>

TENON_NAMESPACE_BEGIN

/* One update of n pieces; see tenon_update_args. */
struct TorchUpdate {
  std::vector<at::Tensor> parameters;         /* [n], updated in place */
  std::vector<at::Tensor> grads;              /* [n], normalized and clipped */
  std::vector<std::vector<at::Tensor>> slots; /* [num_slots][n], updated in place */
  std::vector<at::Tensor> steps;       /* [n] f32 scalars: number of updates, including this one */
  at::Tensor lr;                       /* f64 scalar: the scheduled learning rate */
  std::optional<at::Tensor> found_inf; /* f32 scalar; if it is 1, change nothing */
};

/* Pieces whose values of training are replaced by those of evaluation; see
 * tenon_evaluation_values_args. */
struct TorchEvaluationValues {
  TorchEvaluationValues(const tenon_evaluation_values_args& args, size_t num_slots) {
    const size_t n = args.num_pieces;
    slots.resize(num_slots);
    for (size_t i = 0; i < n; ++i) {
      parameters.push_back(unwrap(args.parameters[i]));
      steps.push_back(unwrap(args.steps[i]));
      for (size_t s = 0; s < num_slots; ++s) {
        slots[s].push_back(unwrap(args.slots[s * n + i]));
      }
    }
  }

  std::vector<at::Tensor> parameters;         /* [n], replaced in place */
  std::vector<std::vector<at::Tensor>> slots; /* [num_slots][n], unchanged */
  std::vector<at::Tensor> steps;              /* [n] f32 scalars: number of updates so far */
};

/* An optimizer on at::Tensor. */
class TorchOptimizer : public AnyOptimizer {
 public:
  /* Applies one update. Autograd does not record it.
   *
   * Shapes   as in TorchUpdate, on exec's device
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return */
  virtual void update(const Exec& exec, const TorchUpdate& update) = 0;

 private:
  void call_update(const Exec& exec, const tenon_update_args& args) override {
    call_torch([&] {
      const size_t n = args.num_pieces;
      TorchUpdate u;
      const auto add = [](std::vector<at::Tensor>& to, const tenon_tensor* handle) {
        to.push_back(unwrap(handle));
      };
      u.parameters.reserve(n);
      u.grads.reserve(n);
      u.steps.reserve(n);
      for (size_t i = 0; i < n; ++i) {
        add(u.parameters, args.parameters[i]);
        add(u.grads, args.grads[i]);
        add(u.steps, args.steps[i]);
      }
      u.slots.resize(num_slots());
      for (size_t s = 0; s < num_slots(); ++s) {
        u.slots[s].reserve(n);
        for (size_t i = 0; i < n; ++i) {
          add(u.slots[s], args.slots[s * n + i]);
        }
      }
      u.lr = unwrap(args.lr);
      if (args.found_inf != nullptr) {
        u.found_inf = unwrap(args.found_inf);
      }
      update(exec, u);
    });
  }
};

TENON_NAMESPACE_END

#endif
