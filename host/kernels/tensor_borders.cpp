// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/tensor_borders.hpp"

#include "host/kernels/autocast.hpp"
#include "host/kernels/region_call.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tenon {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_recorded(const at::Tensor& x) {
  return at::GradMode::is_enabled() && x.requires_grad();
}

// ---- the borders: each is the adjoint of the other, also of second order ----

at::Tensor enter(const RegionCall& call, const at::Tensor& x);
at::Tensor leave(const RegionCall& call, const at::Tensor& x);

at::Tensor entered(const RegionCall& call, const at::Tensor& x) {
  return call.region->has_pieces() ? gather_pieces(call, x) : x;
}

at::Tensor left(const RegionCall& call, const at::Tensor& x) {
  return call.region->has_pieces() ? sum_pieces(call, x) : sum_of_ranks(call, x);
}

class TensorIn : public torch::autograd::Function<TensorIn> {
 public:
  // Without pieces, autograd makes the result a view of x: the same tensor for kept_input.hpp.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const RegionCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below;
    save_call(*context, call);
    return entered(call, x);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {leave(saved_call(*context).backward(), grads[0]), at::Tensor()};
  }
};

class TensorOut : public torch::autograd::Function<TensorOut> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const RegionCall& call) {
    const at::AutoDispatchBelowADInplaceOrView below;
    save_call(*context, call);
    return left(call, x);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {enter(saved_call(*context).backward(), grads[0]), at::Tensor()};
  }
};

at::Tensor enter(const RegionCall& call, const at::Tensor& x) {
  return is_recorded(x) ? TensorIn::apply(x, call) : entered(call, x);
}

at::Tensor leave(const RegionCall& call, const at::Tensor& x) {
  return is_recorded(x) ? TensorOut::apply(x, call) : left(call, x);
}

// ---- sums inside ----

at::Tensor add_over(const RegionCall& call, const at::Tensor& x, int64_t copies);

at::Tensor added_over(const RegionCall& call, const at::Tensor& x, int64_t copies) {
  at::Tensor sum = sum_of_ranks(call, x);
  return copies == 1 ? sum : sum.div_(copies);
}

class SumOver : public torch::autograd::Function<SumOver> {
 public:
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const RegionCall& call,
                            int64_t copies) {
    const at::AutoDispatchBelowADInplaceOrView below;
    save_call(*context, call);
    context->saved_data["copies"] = copies;
    return added_over(call, x, copies);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const int64_t copies = context->saved_data["copies"].toInt();
    return {
        add_over(saved_call(*context).backward(), grads[0], copies), at::Tensor(), at::Tensor()};
  }
};

at::Tensor add_over(const RegionCall& call, const at::Tensor& x, int64_t copies) {
  return is_recorded(x) ? SumOver::apply(x, call, copies) : added_over(call, x, copies);
}

}  // namespace

at::Tensor tensor_in(const at::Tensor& x) {
  const at::Tensor in = x.is_floating_point() ? AutocastCopies(x).of(x) : x;
  const TensorRegionPtr& region = tensor_region();
  return region ? enter(begin_call(region, "tensor_in"), in) : in;
}

at::Tensor tensor_out(const at::Tensor& x) {
  const TensorRegionPtr& region = tensor_region();
  return region ? leave(begin_call(region, "tensor_out"), x) : x;
}

at::Tensor sum_over(const at::Tensor& x, int64_t mine, int64_t whole) {
  TORCH_CHECK(x.is_floating_point(), "tenon::sum_over: x is ", x.scalar_type());
  const int64_t copies = num_copies("sum_over", mine, whole);
  const TensorRegionPtr& region = tensor_region();
  return region ? add_over(begin_call(region, "sum_over"), x, copies) : x;
}

at::Tensor max_over(const at::Tensor& x) {
  const TensorRegionPtr& region = tensor_region();
  return region ? max_of_ranks(begin_call(region, "max_over"), x) : x.detach();
}

int64_t tensor_rank() {
  const TensorRegionPtr& region = tensor_region();
  return region ? region->ranks->rank() : 0;
}

int64_t tensor_size() {
  const TensorRegionPtr& region = tensor_region();
  return region ? region->ranks->size() : 1;
}

}  // namespace tenon
