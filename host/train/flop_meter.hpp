// SPDX-License-Identifier: Apache-2.0
//
// Counts the floating-point operations of training steps by several formulas, and relates them to
// the peak of the device. "Model" operations are those of one forward and backward of each token;
// "hardware" operations also have the forwards that recompute repeats. Padding, optimizers and
// evaluations do not count. Knows no model: sizes follow from the model's graph and its `infer`.
// Threads: the train thread; report() is a collective call.
#pragma once

#include "host/distributed/collectives/group.hpp"
#include "host/model/declared_flops.hpp"
#include "host/model/graph_facts.hpp"
#include "host/tensor/batch.hpp"
#include "host/train/flop_formulas.hpp"
#include "host/train/run_state/flop_report.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Operations of a batch, by block.
struct BlockFlops {
  std::vector<double> forward;
  std::vector<double> backward;  // 0 where no gradient flows
  double trained_forward = 0;    // of all blocks of the trained model
};

// Operations of models, as `infer` declares them: per token, and per pair of a query and a key.
class ModelFlops {
 public:
  struct Parts {
    ModelList models;
    const ModelGraph& graph;  // borrowed
    ExecBase exec;
    std::set<std::string> fields;  // of batches
    std::function<bool(uint32_t parameter)> is_trainable;
  };
  explicit ModelFlops(Parts parts);

  size_t num_models() const { return sizes_.size(); }
  // The size of model `m`; nothing if a formula cannot be computed, for the reason why_no_size().
  const std::optional<ModelSize>& size(size_t m) const { return sizes_[m]; }
  const std::string& why_no_size() const { return why_no_size_; }

  // The operations of a batch. Nothing if they are unknown, for the reason why_not_exact(). Asks
  // the model only if the batch has other sizes than the one before.
  const std::optional<BlockFlops>& of(const Batch& batch);
  const std::string& why_not_exact() const { return why_not_exact_; }

 private:
  // What the operations of a batch depend on.
  struct BatchSizes {
    std::map<std::string, int64_t> axes;
    std::vector<int64_t> lengths;  // of its sequences
    bool is_packed = false;

    bool operator==(const BatchSizes&) const = default;
  };
  std::optional<BlockFlops> count(const BatchSizes& batch);
  bool has_sequences() const;
  void probe();
  void measure_sizes(const DeclaredFlops::Answer& pair);
  ModelSize size_of(uint32_t model, const DeclaredFlops::Answer& pair) const;
  bool is_looked_up(uint32_t parameter) const;
  double matrix_elements(const ModelBlock& block, bool trainable_only) const;
  double backward(uint32_t b, double forward, double tokens) const;

  Parts parts_;
  DeclaredFlops declared_;
  std::vector<std::optional<ModelSize>> sizes_;  // by model
  std::string why_no_size_;
  std::string why_not_exact_;
  bool is_packing_known_ = false;  // `infer` obeys the lengths of sequences
  std::vector<double> of_token_;   // by block: operations per token, except attention
  std::vector<double> of_pair_;    // by block: operations per pair of a query and a key
  GraphFacts facts_;
  std::optional<BatchSizes> last_;
  std::optional<BlockFlops> of_last_;
};

class FlopMeter {
 public:
  struct Peak {
    double flops = 0;  // per second, of this rank
    bool is_measured = false;
  };
  // `num_forwards` is by block: the calls of its forward in a training pass (count_forwards).
  FlopMeter(ModelFlops model, std::vector<uint32_t> num_forwards, const Peak& peak);

  // Adds a batch of training.
  void add(const Batch& batch);
  // Forgets the batches since the last report.
  void drop_recent();

  // Adds `seconds` of training to the totals. Returns the operations since the last call, over all
  // ranks, with those seconds.
  FlopReport report(Group& ranks, double seconds);
  // Returns the operations of all reports so far.
  const FlopReport& total() const { return total_; }

 private:
  static constexpr size_t kNumFormulas = 4;
  void fail(size_t formula, const std::string& why);
  double add_exact(const Batch& batch);
  void add_formulas(const Batch& batch, double recomputed);

  ModelFlops model_;
  const std::vector<uint32_t> num_forwards_;  // by block
  Peak peak_;
  std::array<FormulaFlops, kNumFormulas> recent_;  // of this rank
  FlopReport total_;
};

}  // namespace tenon
