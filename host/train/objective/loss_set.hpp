// SPDX-License-Identifier: Apache-2.0
//
// The losses of a run, each with its weight and its own count, on one model's outputs. It gives
// sums and counts; dividing them is the loop's business.
// Threads: the train thread.
#pragma once

#include "host/model/model_runner.hpp"
#include "host/plugin/loss_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/train/objective/input_binding.hpp"

#include <map>
#include <string>
#include <vector>

namespace tenon {

struct NamedLoss {
  std::string name;
  double weight = 1;
  std::map<std::string, std::string> inputs;  // port to MODEL.OUTPUT or batch field
  LossProxy proxy;
};

class LossSet {
 public:
  // Binds each port to an output of the model or a field of the batch.
  // Errors  loss.unknown_input: what was looked for, and what there is; loss.input_mismatch
  LossSet(std::vector<NamedLoss> losses,
          const ModelGraph& graph,
          const std::string& model_name,
          const ExecBase& base);
  ~LossSet();
  LossSet(const LossSet&) = delete;
  LossSet& operator=(const LossSet&) = delete;

  // Checks that a dataset has the fields that the losses read.
  // Errors  loss.unknown_input, loss.input_mismatch
  void check_fields(const std::vector<FieldInfo>& fields, const std::string& dataset) const;

  size_t size() const;
  const std::string& name(size_t i) const;
  double weight(size_t i) const;
  // The batch fields that loss i reads.
  std::vector<std::string> fields_read(size_t i) const;
  // What loss i is called in messages, what of the model it reads, and whether its sum over pieces
  // of T is its sum over the whole.
  std::string text(size_t i) const;
  std::vector<uint32_t> values_read(size_t i) const;
  bool is_additive_over_tokens(size_t i) const;
  // Checks that losses summed over `num_parts` microbatches are those of all samples at once, which
  // "normalize": "items" promises.
  // Errors  loss.not_additive
  void check_additive(int64_t num_parts) const;
  // True if every loss can be counted before the forward.
  bool count_from_batch() const;

  // Counts of one microbatch, before its forward: [] f64 each.
  std::vector<at::Tensor> count(const Batch& batch, const CallPlace& place);
  // The same after the forward, and before `compute`, whose inputs it would drop.
  std::vector<at::Tensor> count(const ModelRunner& runner,
                                const Batch& batch,
                                const CallPlace& place);

  // Computes the sums of one microbatch: [] each. In training they keep what backward needs.
  std::vector<at::Tensor> compute(const ModelRunner& runner,
                                  const Batch& batch,
                                  const CallPlace& place);
  // Gives the runner the gradients of all sums, the i-th times seeds[i]. After `compute` in
  // training.
  // Shapes  seeds [] each, of the dtype of the sum
  void backward(ModelRunner& runner, const std::vector<at::Tensor>& seeds);

 private:
  struct Entry;
  at::Tensor count_one(Entry& entry, const CallPlace& place);

  at::ScalarType compute_dtype_;
  std::vector<Entry> entries_;
};

}  // namespace tenon
