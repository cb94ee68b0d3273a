// SPDX-License-Identifier: Apache-2.0
//
// The inputs of one loss or metric. Binds each port to an output of the model or a field of the
// batch before the first step, and gathers the tensors for each call. Calls no plugin.
// Threads: the train thread.
#pragma once

#include "host/model/microbatch_state.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/tensor/batch.hpp"
#include "host/train/objective/batch_range.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// The loss or metric that owns the ports, for messages and error ids.
struct PortOwner {
  enum class Kind { kLoss, kMetric };
  Kind kind;
  std::string name;  // "loss 'lm' (cross_entropy)"
};

// The inputs of one call of a loss or a metric, by port. Not copied, since handles point to
// tensors.
class BoundInputs {
 public:
  BoundInputs() = default;
  // `tensors` are undefined where an optional input is absent.
  explicit BoundInputs(std::vector<at::Tensor> tensors);
  BoundInputs(BoundInputs&&) = default;
  BoundInputs& operator=(BoundInputs&&) = default;
  BoundInputs(const BoundInputs&) = delete;
  BoundInputs& operator=(const BoundInputs&) = delete;

  size_t size() const { return tensors_.size(); }
  const at::Tensor& operator[](size_t i) const { return tensors_[i]; }
  const std::vector<at::Tensor>& tensors() const { return tensors_; }
  // Null for an absent input.
  const tenon_tensor* const* handles() const { return handles_.data(); }
  // True if an input needs a gradient.
  bool has_leaf() const {
    return std::ranges::any_of(
        tensors_, [](const at::Tensor& input) { return input.defined() && input.requires_grad(); });
  }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<const tenon_tensor*> handles_;
};

// What a call sees whole although ranks divide it. Gathering is a collective call of these ranks.
struct SeenWhole {
  const DividedSequences* sequences = nullptr;  // of which the batch is a part; null: none
  TensorGroup* units = nullptr;                 // divided values; null: parts, as they are
};

class InputBinding {
 public:
  // How a call receives the model's outputs: not at all, detached, or as leaves with gradients.
  enum class Outputs { kAbsent, kDetached, kLeaves };

  // Binds each port to an output of a model or a field of the batch: the target that `inputs` names
  // (MODEL.OUTPUT or a field), otherwise the output or field with the port's name. An output of a
  // model that is not trained has the name MODEL/OUTPUT. Keeps no references to the arguments.
  //
  // Errors  loss.unknown_input, metric.unknown_input, with the name and the available names;
  //         loss.input_mismatch, metric.input_mismatch
  InputBinding(PortOwner owner,
               const std::vector<Port>& ports,
               const std::map<std::string, std::string>& inputs,
               const ModelGraph& graph,
               const std::string& model_name);

  // Checks that a dataset has the fields that the ports read.
  // Errors  as the constructor
  void check_fields(const std::vector<FieldInfo>& fields, const std::string& dataset) const;

  // Returns the inputs of a call, in the order of the ports. Converts floating-point inputs to the
  // dtype of their port (`compute_dtype` for TENON_CLASS_COMPUTE). `values` may be null only with
  // Outputs::kAbsent.
  BoundInputs gather(const MicrobatchState* values,
                     const Batch& batch,
                     Outputs outputs,
                     at::ScalarType compute_dtype,
                     const SeenWhole& whole = {}) const;
  // Returns the gradient of input `i` that a rank adds to that of the value, from the gradient of
  // what the call saw.
  at::Tensor part_of(size_t i, at::Tensor grad, const SeenWhole& whole) const;
  // True if all inputs that a batch of this schema gives have an axis T.
  bool is_over_positions(const std::vector<FieldInfo>& schema) const;
  // True if all values with a split are divided, there are some, and each of `ranks` ranks has
  // separate units of them.
  bool is_over_units(uint32_t ranks) const;

  // Returns the inputs of a call on a part of the batch, as detached views.
  BoundInputs range_of(const BoundInputs& whole, const Batch& batch, const BatchRange& range) const;
  // Returns why the inputs have no such parts; "" if they have.
  std::string why_no_ranges() const;

  const PortOwner& owner() const { return owner_; }
  // The model's value that port `i` reads; nothing if it reads a batch field.
  std::optional<uint32_t> value(size_t i) const { return bindings_[i].value; }
  // The model's values that the ports read.
  std::vector<uint32_t> values() const;
  // The batch fields that the ports read.
  std::vector<std::string> fields() const;

 private:
  struct Binding {
    Port port;
    std::optional<uint32_t> value = {};          // of the model; nothing for a batch field
    std::optional<std::vector<Axis>> axes = {};  // of the value
    std::optional<ModelSplit> split = {};        // of the value
    bool is_divided = false;                     // ranks have parts of the split
    std::string field;
    bool is_mapped = false;
  };

  std::optional<int64_t> axis_of_positions(size_t i, const Batch& batch) const;
  std::string hint_for(const std::string& field, const std::vector<FieldInfo>& fields) const;
  [[noreturn]] void fail_unknown(const std::string& message) const;
  [[noreturn]] void fail_mismatch(const std::string& message) const;

  PortOwner owner_;
  std::vector<std::string> output_names_;  // of the model, for error messages
  std::vector<Binding> bindings_;
};

}  // namespace tenon
