// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/tensor_borders.hpp"

#include "host/kernels/autocast.hpp"
#include "host/kernels/saved_by.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace tenon {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_recorded(const at::Tensor& x) {
  return at::GradMode::is_enabled() && x.requires_grad();
}

// ---- what tensor_in keeps for products: the input of the norm that made x, or x ----

GatheredInputPtr saved_input(const AutogradContext& context) {
  return c10::static_intrusive_pointer_cast<GatheredInput>(
      context.saved_data.at("input").toCapsule());
}

void save_piece(AutogradContext& context, const at::Tensor& x, const RegionCall& call) {
  auto input = c10::make_intrusive<GatheredInput>();
  input->call = {call.region, "second gather of " + call.op};
  context.saved_data["input"] = c10::IValue::make_capsule(
      c10::static_intrusive_pointer_cast<torch::CustomClassHolder>(std::move(input)));
  if (const auto norm = norm_of(x)) {
    context.saved_data["is_layer_norm"] = norm->is_layer_norm;
    context.saved_data["eps"] = norm->eps;
    context.save_for_backward({norm->x, norm->weight, norm->bias});
  } else {
    context.save_for_backward({x});
  }
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
    if (call.region->has_pieces()) {
      save_piece(*context, x, call);
    }
    return entered(call, x);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    if (context->saved_data.count("input") > 0) {
      saved_input(*context)->whole.reset();
    }
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

std::optional<EnteredPiece> entered_piece_of(const at::Tensor& y) {
  const auto saved = saved_by<TensorIn>(y, 0);
  if (!saved || saved->saved.empty()) {
    return std::nullopt;
  }
  const AutogradContext& context = *saved->context;
  EnteredPiece entered{.input = saved_input(context), .norm = {}, .piece = {}};
  if (context.saved_data.count("eps") > 0) {
    entered.norm = NormAgain{.is_layer_norm = context.saved_data.at("is_layer_norm").toBool(),
                             .eps = context.saved_data.at("eps").toDouble(),
                             .x = saved->saved[0],
                             .weight = saved->saved[1],
                             .bias = saved->saved[2]};
  } else {
    entered.piece = saved->saved[0];
  }
  return entered;
}

at::Tensor gather_again(GatheredInput& input, const at::Tensor& piece) {
  input.whole = enter(input.call, piece);
  return input.whole;
}

}  // namespace tenon
