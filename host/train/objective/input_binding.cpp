// SPDX-License-Identifier: Apache-2.0
#include "host/train/objective/input_binding.hpp"

#include "host/error/error.hpp"
#include "host/tensor/batch_positions.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/handle.hpp"
#include "host/text/joined.hpp"
#include "host/text/nearest_name.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// Converts an input to the dtype of its port, since a model may compute in another dtype.
// MicrobatchState::add_grad converts the gradients back.
at::Tensor as_wanted(const Port& port, const at::Tensor& input, at::ScalarType compute_dtype) {
  if (!input.defined() || !input.is_floating_point()) {
    return input;
  }
  if (port.dtype == TENON_CLASS_COMPUTE) {
    return input.to(compute_dtype);
  }
  return is_floating_dtype(port.dtype) ? input.to(static_cast<at::ScalarType>(port.dtype)) : input;
}

std::string list_of(const std::vector<std::string>& names) {
  return names.empty() ? "nothing" : joined(names);
}

template <class T>
std::vector<std::string> names_of(const std::vector<T>& entries) {
  std::vector<std::string> names;
  names.reserve(entries.size());
  for (const T& entry : entries) {
    names.push_back(entry.name);
  }
  return names;
}

std::optional<int64_t> position_axis_of(const std::optional<std::vector<Axis>>& axes) {
  return axes.has_value() ? position_axis(*axes) : std::nullopt;
}

Described described(const Port& port) {
  return {port.dtype, port.axes.has_value() ? &*port.axes : nullptr};
}

}  // namespace

InputBinding::InputBinding(PortOwner owner,
                           const std::vector<Port>& ports,
                           const std::map<std::string, std::string>& inputs,
                           const ModelGraph& graph,
                           const std::string& model_name)
    : owner_(std::move(owner)), output_names_(graph.output_names()) {
  for (const auto& [name, target] : inputs) {
    if (std::ranges::find(ports, name, &Port::name) == ports.end()) {
      fail_unknown(owner_.name + " has no input '" + name + "'; its inputs are " +
                   list_of(names_of(ports)));
    }
  }
  for (const Port& port : ports) {
    Binding binding{.port = port, .field = port.name};
    const auto mapped = inputs.find(port.name);
    if (mapped != inputs.end()) {
      binding.is_mapped = true;
      binding.field = mapped->second;
      const std::string prefix = model_name + ".";
      if (mapped->second.starts_with(prefix)) {
        binding.value = graph.find_output(mapped->second.substr(prefix.size()));
        if (!binding.value.has_value()) {
          fail_unknown(owner_.name + " wants '" + mapped->second + "', but the outputs of model '" +
                       model_name + "' are " + list_of(output_names_));
        }
      }
    }
    if (!binding.value.has_value()) {
      binding.value = graph.find_output(binding.field);
    }
    if (const size_t dot = binding.field.find('.');
        !binding.value.has_value() && dot != std::string::npos) {  // MODEL.OUTPUT of another model
      binding.value =
          graph.find_output(binding.field.substr(0, dot) + "/" + binding.field.substr(dot + 1));
    }
    if (binding.value.has_value()) {
      const ModelValue& value = graph.values[*binding.value];
      binding.axes = value.axes;
      binding.split = value.split;
      binding.is_divided = value.is_divided;
      const Described have{value.dtype, value.axes.has_value() ? &*value.axes : nullptr};
      if (const auto difference = mismatch(have, described(port))) {
        fail_mismatch("input '" + port.name + "' of " + owner_.name + " and the model's output '" +
                      value.name + "' differ: " + *difference);
      }
    }
    bindings_.push_back(std::move(binding));
  }
}

void InputBinding::check_fields(const std::vector<FieldInfo>& fields,
                                const std::string& dataset) const {
  for (const Binding& binding : bindings_) {
    if (binding.value.has_value()) {
      continue;
    }
    const auto at = find_field(fields, binding.field);
    if (!at.has_value()) {
      if (binding.port.is_optional() && !binding.is_mapped) {
        continue;
      }
      fail_unknown(owner_.name + " reads '" + binding.field +
                   "', which is neither an output of the model (" + list_of(output_names_) +
                   ") nor a field of " + dataset + " (" + list_of(names_of(fields)) +
                   "); map it with \"inputs\"" + hint_for(binding.field, fields));
    }
    const FieldInfo& field = fields[*at];
    if (const auto difference = mismatch({field.dtype, &field.axes}, described(binding.port))) {
      fail_mismatch("input '" + binding.port.name + "' of " + owner_.name + " and the field '" +
                    field.name + "' of " + dataset + " differ: " + *difference);
    }
  }
}

// Returns names that may be meant, and the model that NAME/OUTPUT asks for if the run lacks it.
std::string InputBinding::hint_for(const std::string& field,
                                   const std::vector<FieldInfo>& fields) const {
  std::vector<std::string> names = names_of(fields);
  names.insert(names.end(), output_names_.begin(), output_names_.end());
  std::string hint = did_you_mean(field, names);
  hint = hint.empty() ? "" : "; " + hint;
  const size_t slash = field.find('/');
  const std::string prefix = field.substr(0, slash == std::string::npos ? 0 : slash + 1);
  const bool has_model = std::ranges::any_of(
      output_names_, [&](const std::string& name) { return name.starts_with(prefix); });
  if (!prefix.empty() && !has_model) {
    hint += ", or add the model '" + field.substr(0, slash) + "' to \"models\"";
  }
  return hint;
}

BoundInputs::BoundInputs(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  for (const at::Tensor& tensor : tensors_) {
    handles_.push_back(tensor.defined() ? borrow(tensor) : nullptr);
  }
}

BoundInputs InputBinding::gather(const MicrobatchState* values,
                                 const Batch& batch,
                                 Outputs outputs,
                                 at::ScalarType compute_dtype,
                                 const SeenWhole& whole) const {
  std::vector<at::Tensor> inputs;
  const auto seen = [&](size_t i, at::Tensor input) {
    if (input.defined() && whole.units != nullptr && bindings_[i].is_divided) {
      input = whole.units->whole(input, *bindings_[i].split, "inputs of " + owner_.name);
    }
    if (whole.sequences == nullptr || !input.defined()) {
      return input;
    }
    const DividedSequences& divided = *whole.sequences;
    const auto axis = axis_of_positions(i, batch);
    return axis.has_value()
               ? divided.group->whole(input, *axis, divided.parts, "inputs of " + owner_.name)
               : input;
  };
  for (size_t i = 0; i < bindings_.size(); ++i) {
    const Binding& binding = bindings_[i];
    at::Tensor input;
    if (binding.value.has_value()) {
      if (outputs != Outputs::kAbsent) {
        input = as_wanted(
            binding.port, seen(i, values->value_of_part(*binding.value).detach()), compute_dtype);
        if (outputs == Outputs::kLeaves && values->needs_grad(*binding.value) &&
            input.is_floating_point()) {
          input.set_requires_grad(true);
        }
      }
    } else if (const at::Tensor* field = batch.find(binding.field)) {
      input = as_wanted(binding.port, seen(i, *field), compute_dtype);
    }
    inputs.push_back(std::move(input));
  }
  return BoundInputs(std::move(inputs));
}

std::optional<int64_t> InputBinding::axis_of_positions(size_t i, const Batch& batch) const {
  const Binding& binding = bindings_[i];
  if (binding.value.has_value()) {
    return position_axis_of(binding.axes);
  }
  if (const auto field = find_field(*batch.schema, binding.field)) {
    return position_axis((*batch.schema)[*field].axes);
  }
  return binding.field == kPositionsField ? std::optional<int64_t>(1) : std::nullopt;
}

bool InputBinding::is_over_positions(const std::vector<FieldInfo>& schema) const {
  return std::ranges::all_of(bindings_, [&schema](const Binding& binding) {
    if (binding.value.has_value()) {
      return position_axis_of(binding.axes).has_value();
    }
    const auto field = find_field(schema, binding.field);
    return field.has_value() ? position_axis(schema[*field].axes).has_value()
                             : binding.field != kLengthsField;
  });
}

bool InputBinding::is_over_units(uint32_t ranks) const {
  const auto is_even = [ranks](int64_t units) { return units % ranks == 0; };
  bool has_divided = false;
  for (const Binding& binding : bindings_) {
    if (binding.split.has_value() &&
        !(binding.is_divided && std::ranges::all_of(binding.split->units, is_even))) {
      return false;
    }
    has_divided = has_divided || binding.is_divided;
  }
  return has_divided;
}

at::Tensor InputBinding::part_of(size_t i, at::Tensor grad, const SeenWhole& whole) const {
  const Binding& binding = bindings_[i];
  if (whole.units != nullptr && binding.is_divided) {
    grad = whole.units->part_of_gradient(grad, *binding.split);
  }
  if (whole.sequences == nullptr) {
    return grad;
  }
  const DividedSequences& divided = *whole.sequences;
  if (const auto axis = position_axis_of(binding.axes)) {
    return divided.group->part(grad, *axis, divided.parts).contiguous();
  }
  return divided.group->is_first() ? grad : at::zeros_like(grad);
}

std::vector<uint32_t> InputBinding::values() const {
  std::vector<uint32_t> values;
  for (const Binding& binding : bindings_) {
    if (binding.value.has_value()) {
      values.push_back(*binding.value);
    }
  }
  return values;
}

std::vector<std::string> InputBinding::fields() const {
  std::vector<std::string> names;
  for (const Binding& binding : bindings_) {
    if (!binding.value.has_value()) {
      names.push_back(binding.field);
    }
  }
  return names;
}

BoundInputs InputBinding::range_of(const BoundInputs& whole,
                                   const Batch& batch,
                                   const BatchRange& range) const {
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < whole.size(); ++i) {
    const Binding& binding = bindings_[i];
    at::Tensor part = whole[i].defined() ? whole[i].detach() : at::Tensor();
    const auto field = find_field(*batch.schema, binding.field);
    const std::vector<Axis>* axes = binding.axes.has_value() ? &*binding.axes : nullptr;
    if (!binding.value.has_value() && field.has_value()) {
      axes = &(*batch.schema)[*field].axes;
    }
    for (int64_t d = 0; part.defined() && axes != nullptr && d < part.dim(); ++d) {
      const std::string& axis = (*axes)[static_cast<size_t>(d)].name;
      if (axis == "B") {
        part = part.narrow(d, range.row, range.num_rows);
      } else if (axis == "T" && range.length >= 0) {
        part = part.narrow(d, range.first, range.length);
      }
    }
    parts.push_back(std::move(part));
  }
  return BoundInputs(std::move(parts));
}

// Lengths of rows are not those of sequences in them.
std::string InputBinding::why_no_ranges() const {
  for (const Binding& binding : bindings_) {
    if (binding.value.has_value()) {
      const bool has_rows =
          binding.axes.has_value() && !binding.axes->empty() && binding.axes->front().name == "B";
      if (!has_rows) {
        return "the model does not declare the axes of '" + binding.field + "'";
      }
    } else if (binding.field == kLengthsField) {
      return "it reads the lengths of rows";
    }
  }
  return "";
}

void InputBinding::fail_unknown(const std::string& message) const {
  if (owner_.kind == PortOwner::Kind::kMetric) {
    throw Error("metric.unknown_input", message);
  }
  throw Error("loss.unknown_input", message);
}

void InputBinding::fail_mismatch(const std::string& message) const {
  if (owner_.kind == PortOwner::Kind::kMetric) {
    throw Error("metric.input_mismatch", message);
  }
  throw Error("loss.input_mismatch", message);
}

}  // namespace tenon
