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

/* Pieces to convert between the values of training and those of evaluation; see
 * tenon_exchange_args. */
struct TorchExchange {
  std::vector<at::Tensor> parameters;         /* [n], converted in place */
  std::vector<std::vector<at::Tensor>> slots; /* [num_slots][n] */
  std::vector<at::Tensor> steps;              /* [n] f32 scalars: number of updates so far */
  uint32_t to = TENON_VALUES_EVALUATION;      /* the parameters hold the other values */
};

/* An optimizer on at::Tensor. */
class TorchOptimizer : public AnyOptimizer {
 public:
  using Base = TorchOptimizer;
  /* Applies one update. Autograd does not record it.
   *
   * Shapes   as in TorchUpdate, on exec's device
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return */
  virtual void update(const Exec& exec, const TorchUpdate& update) = 0;
  /* Converts parameters in place, for optimizers that evaluate at other values than they train at.
   * Override it in a public section; without it, both are the same.
   *
   * Shapes   as in TorchExchange, on exec's device
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return
   * Since    0.5 */
  virtual void exchange(const Exec&, const TorchExchange&) {}

 private:
  template <class Handles>
  static std::vector<at::Tensor> list_of(Handles handles, size_t n) {
    std::vector<at::Tensor> list;
    list.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      list.push_back(unwrap(handles[i]));
    }
    return list;
  }
  std::vector<std::vector<at::Tensor>> slots_of(tenon_tensor* const* handles, size_t n) const {
    std::vector<std::vector<at::Tensor>> slots;
    slots.reserve(num_slots());
    for (size_t s = 0; s < num_slots(); ++s) {
      slots.push_back(list_of(handles + s * n, n));
    }
    return slots;
  }

  void call_update(const Exec& exec, const tenon_update_args& args) override {
    call_torch([&] {
      const size_t n = args.num_pieces;
      TorchUpdate u;
      u.parameters = list_of(args.parameters, n);
      u.grads = list_of(args.grads, n);
      u.steps = list_of(args.steps, n);
      u.slots = slots_of(args.slots, n);
      u.lr = unwrap(args.lr);
      if (args.found_inf != nullptr) {
        u.found_inf = unwrap(args.found_inf);
      }
      update(exec, u);
    });
  }
  void call_exchange(const Exec& exec, const tenon_exchange_args& args) override {
    call_torch([&] {
      TorchExchange e;
      e.parameters = list_of(args.parameters, args.num_pieces);
      e.slots = slots_of(args.slots, args.num_pieces);
      e.steps = list_of(args.steps, args.num_pieces);
      e.to = args.to;
      exchange(exec, e);
    });
  }
};

TENON_NAMESPACE_END

#endif
