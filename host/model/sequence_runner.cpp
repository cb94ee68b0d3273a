// SPDX-License-Identifier: Apache-2.0
#include "host/model/sequence_runner.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/block_runner.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/row_source.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/model/text_fields.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

bool has_field(const SequenceInputs& inputs, const std::string& name) {
  return inputs.fields != nullptr && find_field(inputs.fields->fields(), name).has_value();
}

// Errors  generate.not_possible
void check_lookup(const ModelProxy& model,
                  const ModelValue& value,
                  const std::string& block,
                  const SequenceInputs& inputs) {
  if (inputs.rows == nullptr) {
    refuse(model, "its block '" + block + "' looks up rows of a table");
  }
  const std::string& column = value.lookup->column;
  if (!column.empty() && !has_field(inputs, column)) {
    refuse(model,
           "its block '" + block + "' looks up rows by the column '" + column +
               "', which no feature of the recipe computes from token ids");
  }
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
                       const std::string& logits,
                       const SequenceInputs& inputs) {
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
        check_lookup(model, value, graph.blocks[b].name, inputs);
        if (value.lookup->ids != kNoIndex && graph.values[value.lookup->ids].maker != kNoIndex) {
          open.push_back(graph.values[value.lookup->ids].maker);
        }
      } else if (v != found.ids && !value.is_optional && !has_field(inputs, value.source)) {
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

// The batch of one text: its token ids in the field `ids`, and the fields that follow from them.
class TextBatch {
 public:
  TextBatch(std::string ids, const SequenceInputs& inputs) : fields_(inputs.fields) {
    auto schema = std::make_shared<std::vector<FieldInfo>>(1);
    schema->front().name = std::move(ids);
    schema->front().dtype = TENON_I64;
    if (fields_ != nullptr) {
      schema->insert(schema->end(), fields_->fields().begin(), fields_->fields().end());
    }
    batch_.schema = std::move(schema);
    batch_.samples = 1;
  }

  enum class Positions { kAll, kNew };
  // Appends tokens, and returns the fields of all positions or of the new ones, on a device. A
  // field without an entry per token is returned whole.
  const Batch& append(const std::vector<int64_t>& more, Positions positions, at::Device device) {
    const auto first = static_cast<int64_t>(ids_.size());
    ids_.insert(ids_.end(), more.begin(), more.end());
    const bool is_new = positions == Positions::kNew;
    batch_.fields = {ids_tensor(is_new ? more : ids_, device)};
    if (fields_ == nullptr) {
      return batch_;
    }
    const auto end = static_cast<int64_t>(ids_.size());
    for (const at::Tensor& field : fields_->values(ids_)) {
      const bool has_tokens = field.dim() >= 2 && field.size(0) == 1 && field.size(1) == end;
      batch_.fields.push_back(
          (is_new && has_tokens ? field.narrow(1, first, end - first) : field).to(device));
    }
    return batch_;
  }

 private:
  TextFields* fields_;
  Batch batch_;
  std::vector<int64_t> ids_;
};

// What both ways of running share: the blocks that the logits depend on run one after the other,
// each with its parameters gathered.
class BlockSequence : public SequenceRunner {
 public:
  BlockSequence(ModelProxy& model,
                ParameterStore& store,
                const ExecBase& base,
                const SequenceInputs& inputs,
                const SequenceBlocks& blocks,
                const std::string& ids,
                const std::string& logits)
      : model_(model),
        graph_(blocks.graph != nullptr ? *blocks.graph : store.graph()),
        inputs_(inputs),
        values_(text_values(model, graph_, ids, logits, inputs)),
        text_(graph_.values[values_.ids].source, inputs),
        device_(store.device()),
        compute_dtype_(base.compute_dtype),
        sharded_(blocks.sharded),
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
        if (const auto& lookup = graph_.values[v].lookup; lookup && lookup->ids != kNoIndex) {
          last_reader_[lookup->ids] = b;
        }
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

  // Appends tokens, runs all blocks on all positions or on the new ones, and returns the logits of
  // the last position.
  at::Tensor run_blocks(const std::vector<int64_t>& more, TextBatch::Positions positions) {
    std::vector<at::Tensor> values(graph_.values.size());
    begin(text_.append(more, positions, device_), values);
    const EndOfPass end(sharded_);
    for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
      if (!values_.needed[b]) {
        continue;
      }
      gather(enter_[b]);
      read_rows(b, values);
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
    explicit EndOfPass(ShardedParameters* sharded) : sharded_(sharded) {}
    EndOfPass(const EndOfPass&) = delete;
    EndOfPass& operator=(const EndOfPass&) = delete;
    ~EndOfPass() {
      if (sharded_ != nullptr) {
        sharded_->end_pass();
      }
    }

   private:
    ShardedParameters* sharded_;
  };

  // Reads the fields, and starts the lookups of their columns.
  void begin(const Batch& batch, std::vector<at::Tensor>& values) {
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      const ModelValue& value = graph_.values[v];
      const at::Tensor* const field =
          value.source_kind == TENON_SOURCE_BATCH ? batch.find(value.source) : nullptr;
      if (field != nullptr) {
        values[v] = value.dtype == TENON_CLASS_COMPUTE && field->is_floating_point()
                        ? field->to(compute_dtype_)
                        : *field;
      }
    }
    if (inputs_.rows != nullptr) {
      inputs_.rows->begin(&batch, kPlace, RowSource::Lookup::kEvaluate);
    }
  }

  // Reads the rows that block `b` is the first to use.
  void read_rows(uint32_t b, std::vector<at::Tensor>& values) {
    for (const uint32_t v : graph_.blocks[b].inputs) {
      const ModelValue& value = graph_.values[v];
      if (!value.lookup.has_value() || values[v].defined()) {
        continue;
      }
      const uint32_t ids = value.lookup->ids;
      values[v] = inputs_.rows->rows(v, ids != kNoIndex ? values[ids] : at::Tensor())
                      .to(device_, blocks_.border_dtype(v).value_or(compute_dtype_));
    }
  }

  void gather(const std::vector<size_t>& groups) {
    for (size_t i = 0; sharded_ != nullptr && i < groups.size(); ++i) {
      sharded_->gather(groups[i]);
    }
  }

  void release(const std::vector<size_t>& groups) {
    for (size_t i = 0; sharded_ != nullptr && i < groups.size(); ++i) {
      sharded_->release(groups[i]);
    }
  }

  const ModelProxy& model_;
  const ModelGraph& graph_;
  const SequenceInputs inputs_;
  const TextValues values_;
  TextBatch text_;
  const at::Device device_;
  const at::ScalarType compute_dtype_;
  ShardedParameters* const sharded_;
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
                 const SequenceInputs& inputs,
                 const SequenceBlocks& blocks)
      : BlockSequence(model, store, base, inputs, blocks, info.ids, info.logits),
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
    at::Tensor logits = run_blocks(ids, TextBatch::Positions::kNew);
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
                const SequenceInputs& inputs,
                const SequenceBlocks& blocks)
      : BlockSequence(model, store, base, inputs, blocks, "input_ids", "logits") {}

  std::optional<int64_t> max_positions() const override { return std::nullopt; }

  at::Tensor append(const std::vector<int64_t>& ids) override {
    return run_blocks(ids, TextBatch::Positions::kAll);
  }

 private:
  void run(uint32_t b, const std::vector<at::Tensor>& values, BlockTape& tape) override {
    tape.inputs.clear();
    for (const uint32_t v : graph().blocks[b].inputs) {
      tape.inputs.push_back(values[v]);
    }
    blocks().forward(b, {.records = false, .is_recompute = false, .salt = b}, tape);
  }
};

}  // namespace

std::unique_ptr<SequenceRunner> cached_sequence(ModelProxy& model,
                                                ParameterStore& store,
                                                const ExecBase& base,
                                                const GenerationProxy& generation,
                                                int64_t capacity,
                                                const SequenceInputs& inputs,
                                                const SequenceBlocks& blocks) {
  return std::make_unique<CachedSequence>(
      model, store, base, generation, generation.describe(), capacity, inputs, blocks);
}

std::unique_ptr<SequenceRunner> whole_sequence(ModelProxy& model,
                                               ParameterStore& store,
                                               const ExecBase& base,
                                               const SequenceInputs& inputs,
                                               const SequenceBlocks& blocks) {
  return std::make_unique<WholeSequence>(model, store, base, inputs, blocks);
}

}  // namespace tenon
