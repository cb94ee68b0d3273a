// SPDX-License-Identifier: Apache-2.0
#include "host/train/parameter_averages.hpp"

#include "host/tensor/handle.hpp"

#include <ATen/core/grad_mode.h>

namespace tenon {
namespace {

constexpr uint32_t kStateVersion = 1;
constexpr char kNumUpdates[] = "updates";

std::string value_name(const std::string& parameter) {
  return "values/" + parameter;
}

}  // namespace

ParameterAverages::ParameterAverages(const ParameterAverageProxy& average,
                                     std::vector<FlatGroup>& groups,
                                     const ExecBase& base)
    : average_(average), groups_(groups), frame_(average.host(), base) {}

void ParameterAverages::update(uint64_t step) {
  const at::AutoGradMode no_grad(false);
  if (averages_.empty()) {
    allocate();
  }
  ++num_updates_;
  std::vector<const tenon_tensor*> parameters;
  std::vector<tenon_tensor*> averages;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (averages_[g].defined()) {
      parameters.push_back(borrow(groups_[g].data()));
      averages.push_back(borrow_mutable(averages_[g]));
    }
  }
  tenon_parameter_average_args args{};
  args.struct_size = sizeof(args);
  args.num_pieces = parameters.size();
  args.parameters = parameters.data();
  args.averages = averages.data();
  args.num_updates = num_updates_;
  frame_.move_to({step, 0, true});
  average_.update(frame_.exec(), args);
}

// Each average starts as a copy of the parameters.
void ParameterAverages::allocate() {
  averages_.resize(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].is_trainable() && !groups_[g].sharing().is_elsewhere) {
      const at::Tensor& data = groups_[g].data();
      averages_[g] = data.to(average_dtype(data.scalar_type()),
                             /*non_blocking=*/false,
                             /*copy=*/true);
    }
  }
}

void ParameterAverages::use_averages() {
  const at::AutoGradMode no_grad(false);
  TENON_ASSERT(kept_.empty(), "the parameters hold the averages already");
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (averages_[g].defined()) {
      at::Tensor& data = groups_[g].data();
      kept_.emplace_back(data, data.clone());
      data.copy_(averages_[g]);
    }
  }
}

void ParameterAverages::use_training_values() {
  const at::AutoGradMode no_grad(false);
  for (auto& [slice, copy] : kept_) {
    slice.copy_(copy);
  }
  kept_.clear();
}

int64_t ParameterAverages::bytes() const {
  int64_t bytes = 0;
  for (const at::Tensor& average : averages_) {
    bytes += average.defined() ? static_cast<int64_t>(average.nbytes()) : 0;
  }
  return bytes;
}

// Calls take(name, tensor, part) for this rank's part of each average.
template <class Take>
void ParameterAverages::each_part(const std::string& prefix, Take take) const {
  for (size_t g = 0; g < averages_.size(); ++g) {
    const FlatGroup& group = groups_[g];
    for (size_t e = 0; averages_[g].defined() && e < group.entries().size(); ++e) {
      const FlatPart& part = group.part(e);
      if (part.length() == 0) {
        continue;
      }
      take(state_path(prefix, value_name(group.entries()[e].parameter.name)),
           averages_[g].narrow(0, part.in_slice, part.length()),
           StatePart{.piece = part.piece,
                     .is_sliced = group.sharing().num_slices > 1,
                     .num_copies = group.sharing().num_copies,
                     .is_saved = !group.sharing().is_copy});
    }
  }
}

void ParameterAverages::snapshot(StateTree& tree, const std::string& prefix) const {
  tree.set_version(prefix, kStateVersion);
  tree.put_int(state_path(prefix, kNumUpdates), static_cast<int64_t>(num_updates_));
  each_part(prefix,
            [&tree](const std::string& name, const at::Tensor& values, const StatePart& part) {
              tree.put_part(name, values, part, StateTree::Copy::kYes);
            });
}

void ParameterAverages::load(const StateTree& tree, const std::string& prefix) {
  const std::string updates = state_path(prefix, kNumUpdates);
  num_updates_ = tree.find(updates) != nullptr ? static_cast<uint64_t>(tree.get_int(updates)) : 0;
  averages_.clear();
  if (num_updates_ == 0) {
    return;
  }
  allocate();
  each_part(prefix,
            [&tree](const std::string& name, const at::Tensor& values, const StatePart& part) {
              if (!tree.is_excluded(name)) {
                tree.copy_tensor(name, values, part.piece);
              }
            });
}

}  // namespace tenon
