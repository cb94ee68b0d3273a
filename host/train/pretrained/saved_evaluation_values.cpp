// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/saved_evaluation_values.hpp"

#include "host/tensor/handle.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"
#include "host/train/pretrained/newest_checkpoint.hpp"
#include "host/train/run_state/run_state_names.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

namespace tenon {
namespace {

std::string entry_of(const std::string& name) {
  return state_path(run_state::kParameters, "values/" + name);
}

// True if a hook of the run averaged the parameters.
bool has_averages(const CheckpointReader& reader) {
  const auto& tensors = reader.index().shared.tensors;
  const std::string prefix = state_path(run_state::kAverages, "values/");
  const auto first = tensors.lower_bound(prefix);
  return first != tensors.end() && first->first.starts_with(prefix);
}

}  // namespace

SavedEvaluationValues::SavedEvaluationValues(const CheckpointReader& reader,
                                             const Recipe& recipe,
                                             const ModelGraph& graph,
                                             ComponentFactory& factory) {
  const OptimizerPlan plan = plan_optimizers(recipe.optimizer, graph);
  ExecBase base;
  base.tensors = tensor_service();
  base.ops = op_service();
  std::map<uint32_t, Used*> by_partition;
  for (uint32_t i = 0; i < plan.partitions.size(); ++i) {
    OptimizerProxy optimizer(factory.create(plan.partitions[i].use, formatted("optimizer/{}", i)));
    if (optimizer.has_evaluation_values()) {
      ExecFrame frame(optimizer.instance().host(), base);
      used_.push_back({std::move(optimizer), std::move(frame)});
      by_partition[i] = &used_.back();
    }
  }
  if (used_.empty() && !has_averages(reader)) {
    return;  // the rest of the state is not read
  }
  tree_.emplace(from_checkpoint([&] { return reader.state(0, 1, nullptr); }));
  for (size_t p = 0; p < graph.parameters.size(); ++p) {
    const std::string& name = graph.parameters[p].name;
    const auto used = by_partition.find(plan.partition_of[p]);
    if (used != by_partition.end() &&
        tree_->find(state_path(run_state::kOptimizer, "updates/" + name)) != nullptr) {
      by_entry_[entry_of(name)] = used->second;
    }
  }
}

at::Tensor SavedEvaluationValues::of(const std::string& entry, const at::Tensor& value) {
  if (!tree_.has_value() || !entry.starts_with(entry_of(""))) {
    return value;
  }
  const std::string name = entry.substr(entry_of("").size());
  const std::string average = state_path(run_state::kAverages, "values/" + name);
  if (tree_->find(average) != nullptr) {
    return from_checkpoint([&] { return tree_->get_tensor(average); }).to(value.scalar_type());
  }
  const auto found = by_entry_.find(entry);
  if (found == by_entry_.end()) {
    return value;
  }
  Used& used = *found->second;
  const auto saved = [&](const std::string& what) {
    return state_path(run_state::kOptimizer, what + "/" + name);
  };
  at::Tensor parameter = value.clone();
  const at::Tensor step =
      at::full({}, static_cast<double>(tree_->get_int(saved("updates"))), at::kFloat);
  std::vector<at::Tensor> slots;
  std::vector<const tenon_tensor*> slot_handles;
  for (const SlotSpec& slot : used.optimizer.info().slots) {
    slots.push_back(
        from_checkpoint([&] { return tree_->get_tensor(saved("slots/" + slot.name)); }));
  }
  for (const at::Tensor& slot : slots) {
    slot_handles.push_back(borrow(slot));
  }
  tenon_tensor* const parameters[] = {borrow_mutable(parameter)};
  const tenon_tensor* const steps[] = {borrow(step)};
  tenon_evaluation_values_args args{};
  args.struct_size = sizeof(args);
  args.num_pieces = 1;
  args.parameters = parameters;
  args.slots = slot_handles.data();
  args.steps = steps;
  const at::AutoGradMode no_grad(false);
  used.frame.move_to({});
  used.optimizer.evaluation_values(used.frame.exec(), args);
  return parameter;
}

void SavedEvaluationValues::convert(ParameterStore& store) {
  if (!tree_.has_value()) {
    return;
  }
  const at::AutoGradMode no_grad(false);
  for (FlatGroup& group : store.groups()) {
    for (size_t e = 0; e < group.entries().size(); ++e) {
      at::Tensor value = group.data_view(e);
      value.copy_(of(entry_of(group.entries()[e].parameter.name), value));
    }
  }
}

}  // namespace tenon
