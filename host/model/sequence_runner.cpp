// SPDX-License-Identifier: Apache-2.0
#include "host/model/sequence_runner.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/block_runner.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace tenon {
namespace {

constexpr CallPlace kPlace{.step = 0, .microbatch = 0, .is_train = false};

[[noreturn]] void refuse(const ModelProxy& model, const std::string& why) {
  throw Error("generate.not_possible",
              model.instance().identity().describe() + " cannot continue a text: " + why);
}

uint32_t value_named(const ModelProxy& model, const ModelGraph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.values, name, &ModelValue::name);
  if (found == graph.values.end()) {
    refuse(model, "it has no value '" + name + "'");
  }
  return static_cast<uint32_t>(found - graph.values.begin());
}

// The values of a model through which text goes, and the blocks between them.
struct TextValues {
  uint32_t ids = kNoIndex;
  uint32_t logits = kNoIndex;
  std::vector<bool> needed;  // by block: the logits depend on it
};

// Errors  generate.not_possible
TextValues text_values(const ModelProxy& model,
                       const ModelGraph& graph,
                       const std::string& ids,
                       const std::string& logits) {
  TextValues found{.ids = value_named(model, graph, ids),
                   .logits = value_named(model, graph, logits),
                   .needed = std::vector<bool>(graph.blocks.size(), false)};
  if (graph.values[found.ids].source_kind != TENON_SOURCE_BATCH) {
    refuse(model, "its token ids '" + ids + "' are not a field of a batch");
  }
  if (graph.values[found.logits].maker == kNoIndex) {
    refuse(model, "no block makes its logits '" + logits + "'");
  }
  std::vector<uint32_t> open = {graph.values[found.logits].maker};
  while (!open.empty()) {
    const uint32_t b = open.back();
    open.pop_back();
    if (found.needed[b]) {
      continue;
    }
    found.needed[b] = true;
    for (const uint32_t v : graph.blocks[b].inputs) {
      const ModelValue& value = graph.values[v];
      if (value.maker != kNoIndex) {
        open.push_back(value.maker);
      } else if (value.lookup.has_value()) {
        refuse(model, "its block '" + graph.blocks[b].name + "' looks up rows of a table");
      } else if (v != found.ids && !value.is_optional) {
        refuse(model,
               "its block '" + graph.blocks[b].name + "' reads '" + value.source +
                   "', and a text has only token ids");
      }
    }
  }
  return found;
}

// Returns the last row of logits [1, T, V] as [V] on the CPU.
at::Tensor last_row(const ModelProxy& model, const at::Tensor& logits) {
  if (!logits.defined() || logits.dim() != 3 || logits.size(0) != 1 || logits.size(1) < 1) {
    refuse(model, "its logits are not [B, T, V]");
  }
  const at::Tensor row = logits.select(0, 0).select(0, logits.size(1) - 1).detach();
  return row.to(at::kCPU, row.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

at::Tensor ids_tensor(const std::vector<int64_t>& ids, at::Device device) {
  at::Tensor tensor = at::empty({1, static_cast<int64_t>(ids.size())}, at::kLong);
  std::ranges::copy(ids, tensor.mutable_data_ptr<int64_t>());
  return tensor.to(device);
}

// What both ways of running share: the blocks that the logits depend on run one after the other,
// each with its parameters gathered.
class BlockSequence : public SequenceRunner {
 public:
  BlockSequence(ModelProxy& model,
                ParameterStore& store,
                const ExecBase& base,
                const SequenceBlocks& blocks,
                const std::string& ids,
                const std::string& logits)
      : model_(model),
        graph_(blocks.graph != nullptr ? *blocks.graph : store.graph()),
        values_(text_values(model, graph_, ids, logits)),
        device_(store.device()),
        flow_(blocks.flow),
        needs_grad_(graph_.values.size(), false),
        blocks_(model, store, graph_, base, needs_grad_),
        last_reader_(graph_.values.size(), kNoIndex),
        enter_(graph_.blocks.size()),
        leave_(graph_.blocks.size()) {
    std::map<size_t, uint32_t> last_user;  // by group
    for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
      tapes_.push_back(blocks_.make_tape(b));
      if (!values_.needed[b]) {
        continue;
      }
      for (const uint32_t v : graph_.blocks[b].inputs) {
        last_reader_[v] = b;
      }
      for (const uint32_t p : graph_.blocks[b].parameters) {
        const size_t group = store.place(p).group;
        if (last_user.insert_or_assign(group, b).second) {
          enter_[b].push_back(group);
        }
      }
    }
    for (const auto& [group, b] : last_user) {
      leave_[b].push_back(group);
    }
    blocks_.begin(kPlace, 1);
  }

 protected:
  // Fills the tape's inputs from `values`, and runs the block.
  virtual void run(uint32_t b, const std::vector<at::Tensor>& values, BlockTape& tape) = 0;

  // Runs all blocks on the ids, and returns the logits of the last position.
  at::Tensor run_blocks(const std::vector<int64_t>& ids) {
    std::vector<at::Tensor> values(graph_.values.size());
    values[values_.ids] = ids_tensor(ids, device_);
    const EndOfPass end(flow_);
    for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
      if (!values_.needed[b]) {
        continue;
      }
      gather(enter_[b]);
      run(b, values, tapes_[b]);
      const ModelBlock& block = graph_.blocks[b];
      for (size_t i = 0; i < block.outputs.size(); ++i) {
        values[block.outputs[i]] = blocks_.at_border(block.outputs[i], tapes_[b].outputs[i]);
      }
      tapes_[b].clear();
      for (const uint32_t v : block.inputs) {
        if (last_reader_[v] == b && v != values_.logits) {
          values[v].reset();
        }
      }
      release(leave_[b]);
    }
    return last_row(model_, values[values_.logits]);
  }

  const ModelGraph& graph() const { return graph_; }
  const TextValues& values() const { return values_; }
  BlockRunner& blocks() { return blocks_; }

 private:
  // Frees what is gathered, also after an error.
  class EndOfPass {
   public:
    explicit EndOfPass(ShardedParameters* flow) : flow_(flow) {}
    EndOfPass(const EndOfPass&) = delete;
    EndOfPass& operator=(const EndOfPass&) = delete;
    ~EndOfPass() {
      if (flow_ != nullptr) {
        flow_->end_pass();
      }
    }

   private:
    ShardedParameters* flow_;
  };

  void gather(const std::vector<size_t>& groups) {
    for (size_t i = 0; flow_ != nullptr && i < groups.size(); ++i) {
      flow_->gather(groups[i]);
    }
  }

  void release(const std::vector<size_t>& groups) {
    for (size_t i = 0; flow_ != nullptr && i < groups.size(); ++i) {
      flow_->release(groups[i]);
    }
  }

  const ModelProxy& model_;
  const ModelGraph& graph_;
  const TextValues values_;
  const at::Device device_;
  ShardedParameters* const flow_;
  const std::vector<bool> needs_grad_;
  BlockRunner blocks_;
  std::vector<BlockTape> tapes_;            // by block
  std::vector<uint32_t> last_reader_;       // by value: the last needed block that reads it
  std::vector<std::vector<size_t>> enter_;  // by block: groups that it is the first to use
  std::vector<std::vector<size_t>> leave_;  // by block: groups that it is the last to use
};

class CachedSequence final : public BlockSequence {
 public:
  CachedSequence(ModelProxy& model,
                 ParameterStore& store,
                 const ExecBase& base,
                 const GenerationProxy& generation,
                 const GenerationInfo& info,
                 int64_t capacity,
                 const SequenceBlocks& blocks)
      : BlockSequence(model, store, base, blocks, info.ids, info.logits),
        generation_(generation),
        max_positions_(info.max_positions),
        capacity_(std::min(capacity, info.max_positions)) {
    steps_.resize(graph().blocks.size());
    for (const uint32_t b : info.cache_blocks) {
      if (b >= graph().blocks.size()) {
        model.instance().identity().fail_result(
            formatted("describe of the generation names block {} of {}", b, graph().blocks.size()));
      }
      steps_[b].caches.emplace_back();
    }
    find_tail();
  }

  std::optional<int64_t> max_positions() const override { return max_positions_; }

  at::Tensor append(const std::vector<int64_t>& ids) override {
    length_ = static_cast<int64_t>(ids.size());
    at::Tensor logits = run_blocks(ids);
    first_ += length_;
    return logits;
  }

 private:
  // The blocks after the last one that looks at other positions run on the last position only: a
  // long prompt needs no logits of its other positions.
  void find_tail() {
    const auto has_positions = [this](uint32_t v) {
      const ModelValue& value = graph().values[v];
      return value.is_optional || axis_of_positions(value).has_value();
    };
    tail_ = static_cast<uint32_t>(graph().blocks.size());
    while (tail_ > 0) {
      const ModelBlock& block = graph().blocks[tail_ - 1];
      const bool can = block.has(TENON_BLOCK_TOKENWISE) && steps_[tail_ - 1].caches.empty() &&
                       std::ranges::all_of(block.inputs, has_positions);
      if (values().needed[tail_ - 1] && !can) {
        break;
      }
      --tail_;
    }
  }

  void run(uint32_t b, const std::vector<at::Tensor>& values, BlockTape& tape) override {
    tape.inputs.clear();
    for (const uint32_t v : graph().blocks[b].inputs) {
      at::Tensor input = values[v];
      if (b >= tail_ && input.defined() && length_ > 1) {
        const int64_t axis = *axis_of_positions(graph().values[v]);
        input = input.narrow(axis, input.size(axis) - 1, 1);
      }
      tape.inputs.push_back(std::move(input));
    }
    BlockStep& step = steps_[b];
    step.first = b >= tail_ ? first_ + length_ - 1 : first_;
    step.capacity = capacity_;
    blocks().step(b, generation_, tape, step);
  }

  const GenerationProxy& generation_;
  const int64_t max_positions_;
  const int64_t capacity_;
  uint32_t tail_ = 0;             // first block that runs on the last position only
  std::vector<BlockStep> steps_;  // by block
  int64_t first_ = 0;             // positions so far
  int64_t length_ = 0;            // new positions
};

class WholeSequence final : public BlockSequence {
 public:
  WholeSequence(ModelProxy& model,
                ParameterStore& store,
                const ExecBase& base,
                const SequenceBlocks& blocks)
      : BlockSequence(model, store, base, blocks, "input_ids", "logits") {}

  std::optional<int64_t> max_positions() const override { return std::nullopt; }

  at::Tensor append(const std::vector<int64_t>& ids) override {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    return run_blocks(ids_);
  }

 private:
  void run(uint32_t b, const std::vector<at::Tensor>& values, BlockTape& tape) override {
    tape.inputs.clear();
    for (const uint32_t v : graph().blocks[b].inputs) {
      tape.inputs.push_back(values[v]);
    }
    blocks().forward(b, {.records = false, .is_recompute = false, .salt = b}, tape);
  }

  std::vector<int64_t> ids_;
};

}  // namespace

std::unique_ptr<SequenceRunner> cached_sequence(ModelProxy& model,
                                                ParameterStore& store,
                                                const ExecBase& base,
                                                const GenerationProxy& generation,
                                                int64_t capacity,
                                                const SequenceBlocks& blocks) {
  return std::make_unique<CachedSequence>(
      model, store, base, generation, generation.describe(), capacity, blocks);
}

std::unique_ptr<SequenceRunner> whole_sequence(ModelProxy& model,
                                               ParameterStore& store,
                                               const ExecBase& base,
                                               const SequenceBlocks& blocks) {
  return std::make_unique<WholeSequence>(model, store, base, blocks);
}

}  // namespace tenon
