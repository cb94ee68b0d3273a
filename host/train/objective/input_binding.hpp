// SPDX-License-Identifier: Apache-2.0
//
// The inputs of one loss or metric: which output of the model or field of the batch each of its
// ports reads, resolved before the first step, and their tensors call by call. It calls no plugin.
// Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/tensor/batch.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Whose ports they are, for messages and the ids of errors.
struct PortOwner {
  enum class Kind { kLoss, kMetric };
  Kind kind;
  std::string name;  // "loss 'lm' (cross_entropy)"
};

class InputBinding {
 public:
  // What becomes of the model's outputs in a call.
  enum class Outputs { kAbsent, kDetached, kLeaves };

  // Binds each port to an output of the model or a field of the batch: what `inputs` maps it to
  // (MODEL.OUTPUT or a field), else what has its own name. Graph and ports are copied from.
  //
  // Errors  loss.unknown_input, metric.unknown_input: what was looked for, and what there is;
  //         loss.input_mismatch, metric.input_mismatch
  InputBinding(PortOwner owner,
               const std::vector<Port>& ports,
               const std::map<std::string, std::string>& inputs,
               const ModelGraph& graph,
               const std::string& model_name);

  // Checks that a dataset has the fields that are read.
  // Errors  as the constructor
  void check_fields(const std::vector<FieldInfo>& fields, const std::string& dataset) const;

  // Fills the call's inputs, in the order of the ports; undefined if optional and absent.
  // Floating ones get the dtype that their port names, TENON_CLASS_COMPUTE is `compute_dtype`.
  // `runner` may be null only where outputs are absent.
  void gather(const ModelRunner* runner,
              const Batch& batch,
              Outputs outputs,
              at::ScalarType compute_dtype);
  void clear();

  const PortOwner& owner() const { return owner_; }
  // Of the call under way.
  size_t size() const { return inputs_.size(); }
  const at::Tensor& input(size_t i) const { return inputs_[i]; }
  const tenon_tensor* const* handles() const { return handles_.data(); }
  // The model's value that port `i` reads, if it reads one.
  std::optional<uint32_t> value(size_t i) const { return bindings_[i].value; }
  // The model's values that are read.
  std::vector<uint32_t> values() const;
  // The batch fields that are read.
  std::vector<std::string> fields() const;

 private:
  struct Binding {
    Port port;
    std::optional<uint32_t> value;  // of the model; else a batch field
    std::string field;
    bool is_mapped = false;
  };

  [[noreturn]] void fail_unknown(const std::string& message) const;
  [[noreturn]] void fail_mismatch(const std::string& message) const;

  PortOwner owner_;
  std::vector<std::string> output_names_;  // of the model, for messages
  std::vector<Binding> bindings_;
  std::vector<at::Tensor> inputs_;
  std::vector<const tenon_tensor*> handles_;
};

}  // namespace tenon
