// SPDX-License-Identifier: Apache-2.0
//
// The losses of a run on one model's outputs, each with its own weight and count. Returns sums and
// counts; the training loop divides them.
// Threads: the train thread.
#pragma once

#include "host/model/microbatch_state.hpp"
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

// Sums and counts of losses on the parts of a batch that come from one source.
struct SourceSums {
  uint32_t part = 0;               // number of the source in the mix
  std::vector<at::Tensor> sums;    // by loss, [] f64
  std::vector<at::Tensor> counts;  // by loss, [] f64
};

// The calls of the losses of one microbatch, from `compute` to `backward`.
struct LossCall {
  BoundInputs inputs;
  at::Tensor sum;
  SeenWhole whole = {};         // what `inputs` have of all ranks
  TensorRegionPtr region = {};  // null: the call needs no other ranks
};
using LossCalls = std::vector<LossCall>;  // by loss

class LossSet {
 public:
  // Binds each port to an output of the model or a field of the batch.
  // Errors  loss.unknown_input, with the name and the available names; loss.input_mismatch
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
  // The name of loss i in messages.
  std::string text(size_t i) const;
  // The model's values that loss i reads.
  std::vector<uint32_t> values_read(size_t i) const;
  // True if the sums of loss i over chunks of T add up to its sum over the whole of T.
  bool is_additive_over_tokens(size_t i) const;
  // Checks that the losses can be computed for each source of a mix: on rows, or on sequences
  // inside of rows if these are packed. `dataset` is its name, for messages.
  // Errors  loss.not_by_source, with the reason
  void check_by_source(const std::string& dataset, bool is_packed) const;
  // Checks that the losses, summed over `num_parts` microbatches, equal the losses of all samples
  // at once, as "normalize": "items" requires.
  // Errors  loss.not_additive
  void check_additive(int64_t num_parts) const;
  // True if every loss can be counted before the forward.
  bool count_from_batch() const;

  // Where ranks divide the positions of sequences, a loss that is a sum over tokens, and reads
  // nothing without positions, sees the part of this rank. All others see whole sequences: the
  // calls are then collective, and ranks except the first have sums and counts of 0.
  //
  // Where ranks divide blocks, a loss of TENON_LOSS_DIVISIBLE sees the parts of divided values, in
  // a region, if each rank has separate units of them. All others see whole values. Calls are
  // collective, and all ranks of a tensor group have the same sums and counts.

  // True if loss i sees parts of batches of this schema.
  bool sees_parts(size_t i, const std::vector<FieldInfo>& schema) const;

  // Returns the counts of one microbatch, before its forward: [] f64 each. `sequences` is null if
  // the batch is no part.
  std::vector<at::Tensor> count(const Batch& batch,
                                const CallPoint& point,
                                SequenceGroup* sequences = nullptr);
  // The same after the forward.
  std::vector<at::Tensor> count(const MicrobatchState& values,
                                const Batch& batch,
                                const CallPoint& point);

  // Returns the sums of one microbatch: [] each. In training, `calls` becomes what `backward`
  // needs. If `by_source` is given, also adds the sums and counts of each source of a mix to it.
  std::vector<at::Tensor> compute(const MicrobatchState& values,
                                  const Batch& batch,
                                  const CallPoint& point,
                                  LossCalls& calls,
                                  std::vector<SourceSums>* by_source = nullptr);
  // Adds the gradients of all sums, with sum i multiplied by seeds[i], to `values`, and clears the
  // calls. `point` and `calls` are those of `compute` in training.
  // Shapes  seeds [] each, of any floating-point dtype
  void backward(MicrobatchState& values,
                const CallPoint& point,
                LossCalls& calls,
                const std::vector<at::Tensor>& seeds);

 private:
  struct Entry;
  bool sees_parts(const Entry& entry, const std::vector<FieldInfo>& schema) const;
  // Returns `divided` if the loss sees whole sequences of which the batch is a part.
  const DividedSequences* seen_whole(const Entry& entry,
                                     const Batch& batch,
                                     const DividedSequences* divided) const;
  bool sees_units(const Entry& entry, const TensorGroup& tensor) const;
  // Returns the region of a loss that sees parts of divided values; null if it sees whole ones.
  TensorRegionPtr new_region(const Entry& entry, TensorGroup* tensor) const;
  SeenWhole seen_whole(const Entry& entry, const MicrobatchState& values, const Batch& batch) const;
  std::string why_not_by_source(size_t i, bool is_packed) const;
  at::Tensor count_one(Entry& entry, const BoundInputs& inputs, const CallPoint& point);
  void add_by_source(size_t i,
                     const BoundInputs& inputs,
                     const Batch& batch,
                     std::vector<SourceSums>& to);

  at::ScalarType compute_dtype_;
  std::vector<Entry> entries_;
};

}  // namespace tenon
