// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/meta_backward.hpp"

#include "host/plugin/own_handles.hpp"
#include "host/tensor/handle.hpp"

#include <iterator>
#include <utility>

namespace tenon {

std::vector<at::Tensor> call_backward(const ModelProxy& model,
                                      const tenon_exec& exec,
                                      const MetaBackward& call) {
  const auto saved = borrow_all(call.saved);
  const auto parameters = borrow_all(call.parameters);
  const auto gradients = borrow_all(call.gradients);
  OwnHandles of_inputs(call.wants_input.size());
  OwnHandles of_parameters(call.wants_parameter.size());
  tenon_backward_args args{};
  args.struct_size = sizeof(args);
  args.block = call.block;
  args.saved = saved.data();
  args.num_saved = saved.size();
  args.parameters = parameters.data();
  args.num_parameters = parameters.size();
  args.grad_outputs = gradients.data();
  args.num_outputs = gradients.size();
  args.want_grad_inputs = call.wants_input.data();
  args.num_inputs = call.wants_input.size();
  args.want_grad_parameters = call.wants_parameter.data();
  args.grad_inputs_own = of_inputs.data();
  args.grad_parameters_own = of_parameters.data();
  model.backward(exec, args);
  std::vector<at::Tensor> results = of_inputs.take(model.instance().identity(), "backward");
  std::vector<at::Tensor> more = of_parameters.take(model.instance().identity(), "backward");
  results.insert(
      results.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  return results;
}

}  // namespace tenon
