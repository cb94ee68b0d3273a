// SPDX-License-Identifier: Apache-2.0
//
// Dense optimizers on at::Tensor, in the form that libtorch's fused kernels take.
#ifndef TENON_TORCH_OPTIMIZER_HPP
#define TENON_TORCH_OPTIMIZER_HPP

#include <tenon/cpp/optimizer.hpp>
#include <tenon/torch/tensor.hpp>

#include <optional>
#include <vector>

namespace tenon {

/* One update of n pieces; see tenon_update_args. */
struct TorchUpdate {
  std::vector<at::Tensor> parameters;         /* [n], changed in place */
  std::vector<at::Tensor> grads;              /* [n] */
  std::vector<std::vector<at::Tensor>> slots; /* [num_slots][n], changed in place */
  std::vector<at::Tensor> steps;              /* [n] scalars f32, this update included */
  at::Tensor lr;                              /* scalar f64 */
  std::optional<at::Tensor> found_inf;        /* scalar f32; where it is 1 nothing may change */
};

class TorchOptimizer : public AnyOptimizer {
 public:
  /* Applies the update; not recorded by autograd.  Threads [step] */
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

}  // namespace tenon

#endif
