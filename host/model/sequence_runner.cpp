// SPDX-License-Identifier: Apache-2.0
#include "host/model/sequence_runner.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/block_runner.hpp"
#include "host/model/compile_generation.hpp"
#include "host/model/group_facts.hpp"
#include "host/model/microbatch_state.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/program_pass.hpp"
#include "host/model/row_source.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/model/stage_exchange.hpp"
#include "host/model/text_fields.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr CallPoint kPoint{.step = 0, .microbatch = 0, .is_train = false};

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

// Names of the values of a model through which text goes.
struct TextNames {
  std::string ids;
  std::string logits;
};

// The same by number.
struct TextValues {
  uint32_t ids = kNoIndex;
  uint32_t logits = kNoIndex;
};

// Checks that a text gives what a block reads.
// Errors  generate.not_possible
void check_inputs(const ModelProxy& model,
                  const ModelGraph& graph,
                  uint32_t b,
                  uint32_t ids,
                  const SequenceInputs& inputs) {
  const ModelBlock& block = graph.blocks[b];
  for (const uint32_t v : block.inputs) {
    const ModelValue& value = graph.values[v];
    if (value.lookup.has_value()) {
      check_lookup(model, value, block.name, inputs);
    } else if (value.maker == kNoIndex && v != ids && !value.is_optional &&
               !has_field(inputs, value.source)) {
      refuse(model,
             "its block '" + block.name + "' reads '" + value.source +
                 "', and a text has only token ids");
    }
  }
}

// Errors  generate.not_possible
TextValues text_values(const ModelProxy& model,
                       const ModelGraph& graph,
                       const std::string& ids,
                       const std::string& logits,
                       const SequenceInputs& inputs) {
  const TextValues found{.ids = value_named(model, graph, ids),
                         .logits = value_named(model, graph, logits)};
  if (graph.values[found.ids].source_kind != TENON_SOURCE_BATCH) {
    refuse(model, "its token ids '" + ids + "' are not a field of a batch");
  }
  if (graph.values[found.logits].maker == kNoIndex) {
    refuse(model, "no block makes its logits '" + logits + "'");
  }
  const std::vector<bool> needed = needed_for(graph, found.logits);
  for (uint32_t b = 0; b < needed.size(); ++b) {
    if (needed[b]) {
      check_inputs(model, graph, b, found.ids, inputs);
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

// What both ways of running share: a program of the blocks that the logits depend on.
class BlockSequence : public SequenceRunner {
 public:
  BlockSequence(ModelProxy& model,
                ParameterStore& store,
                const ExecBase& base,
                const SequenceInputs& inputs,
                const SequenceBlocks& blocks,
                const TextNames& names,
                std::vector<bool> has_caches)
      : model_(model),
        facts_(blocks.graph != nullptr ? *blocks.graph : store.graph(),
               [](uint32_t) { return false; }),
        text_values_(text_values(model, graph(), names.ids, names.logits, inputs)),
        text_(graph().values[text_values_.ids].source, inputs),
        blocks_(model, store, graph(), base, facts_.values_with_gradient()),
        services_{.store = store,
                  .blocks = blocks_,
                  .groups = blocks.sharded,
                  .rows = inputs.rows,
                  .compute_dtype = base.compute_dtype,
                  .tensor = blocks.tensor,
                  .exchange = blocks.exchange},
        program_(compile_generation(
            facts_,
            group_facts(store, graph()),
            {.logits = text_values_.logits,
             .has_caches = std::move(has_caches),
             .has_many_ranks = blocks.sharded != nullptr && blocks.sharded->has_many_ranks()})),
        values_(facts_, blocks_) {
    if (blocks.tensor != nullptr) {
      blocks_.divide(*blocks.tensor);
    }
    blocks_.begin(kPoint, 1, nullptr);
  }

 protected:
  // Appends tokens, runs the program on all positions or on the new ones, and returns the logits of
  // the last position.
  at::Tensor run(const std::vector<int64_t>& more, TextBatch::Positions positions) {
    values_.clear(services_);  // an earlier call may have failed
    values_.start({.program = program_,
                   .batch = text_.append(more, positions, services_.store.device()),
                   .point = kPoint,
                   .lookup = RowSource::Lookup::kEvaluate,
                   .tensor = services_.tensor},
                  services_.compute_dtype);
    const Cleared cleared{values_, services_};
    const std::unique_ptr<ProgramPass> pass = new_pass(services_, values_);
    interpret(program_, Section::kForward, {}, *pass);
    if (services_.exchange != nullptr) {
      services_.exchange->finish();
    }
    return last_row(model_, logits());
  }

  virtual std::unique_ptr<ProgramPass> new_pass(const PassServices& services,
                                                MicrobatchState& values) {
    return std::make_unique<ProgramPass>(services, values, nullptr);
  }
  const ModelGraph& graph() const { return facts_.graph(); }

 private:
  at::Tensor logits() {
    const ModelValue& value = graph().values[text_values_.logits];
    const at::Tensor& held = values_.value(text_values_.logits);
    return services_.tensor != nullptr && value.is_divided
               ? services_.tensor->whole(held, *value.split, "logits")
               : held;
  }

  // Frees what is gathered, also after an error.
  struct Cleared {
    MicrobatchState& values;
    const PassServices& services;
    ~Cleared() { values.clear(services); }
  };

  const ModelProxy& model_;
  const GraphFacts facts_;
  const TextValues text_values_;
  TextBatch text_;
  BlockRunner blocks_;
  const PassServices services_;
  const Program program_;
  MicrobatchState values_;
};

// The caches of blocks, and where a sequence stands.
struct SequenceState {
  std::vector<BlockStep> steps;  // by block
  int64_t capacity = 0;
  int64_t first = 0;   // positions so far
  int64_t length = 0;  // new positions
};

// Calls the step of each block instead of its forward.
class CachedPass final : public ProgramPass {
 public:
  CachedPass(const PassServices& services,
             MicrobatchState& values,
             const ModelGraph& graph,
             const GenerationProxy& generation,
             SequenceState& sequence)
      : ProgramPass(services, values, nullptr),
        blocks_(services.blocks),
        graph_(graph),
        generation_(generation),
        sequence_(sequence) {}

 protected:
  void forward(const Instruction& instruction) override {
    const uint32_t b = instruction.block;
    const bool is_last_only = instruction.has(kLastPosition);
    BlockTape& of_block = tape(b);
    of_block.inputs.clear();
    for (const uint32_t v : graph_.blocks[b].inputs) {
      at::Tensor input = all_units(b, v, value(v));
      if (is_last_only && input.defined() && sequence_.length > 1) {
        const int64_t axis = *axis_of_positions(graph_.values[v]);
        input = input.narrow(axis, input.size(axis) - 1, 1);
      }
      of_block.inputs.push_back(std::move(input));
    }
    BlockStep& step = sequence_.steps[b];
    step.first = is_last_only ? sequence_.first + sequence_.length - 1 : sequence_.first;
    step.capacity = sequence_.capacity;
    blocks_.step(b, generation_, of_block, step);
    take_outputs(b);
  }

 private:
  BlockRunner& blocks_;
  const ModelGraph& graph_;
  const GenerationProxy& generation_;
  SequenceState& sequence_;
};

// Errors  plugin.bad_result for a block that the model does not have
std::vector<bool> blocks_with_caches(const ModelProxy& model,
                                     const ModelGraph& graph,
                                     const GenerationInfo& info) {
  std::vector<bool> has_caches(graph.blocks.size(), false);
  for (const uint32_t b : info.cache_blocks) {
    if (b >= has_caches.size()) {
      model.instance().identity().fail_result(
          formatted("describe of the generation names block {} of {}", b, has_caches.size()));
    }
    has_caches[b] = true;
  }
  return has_caches;
}

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
      : BlockSequence(model,
                      store,
                      base,
                      inputs,
                      blocks,
                      {info.ids, info.logits},
                      blocks_with_caches(
                          model, blocks.graph != nullptr ? *blocks.graph : store.graph(), info)),
        generation_(generation),
        max_positions_(info.max_positions) {
    sequence_.capacity = std::min(capacity, info.max_positions);
    sequence_.steps.resize(graph().blocks.size());
    for (const uint32_t b : info.cache_blocks) {
      sequence_.steps[b].caches.emplace_back();
    }
  }

  std::optional<int64_t> max_positions() const override { return max_positions_; }

  at::Tensor append(const std::vector<int64_t>& ids) override {
    sequence_.length = static_cast<int64_t>(ids.size());
    at::Tensor logits = run(ids, TextBatch::Positions::kNew);
    sequence_.first += sequence_.length;
    return logits;
  }

 private:
  std::unique_ptr<ProgramPass> new_pass(const PassServices& services,
                                        MicrobatchState& values) override {
    return std::make_unique<CachedPass>(services, values, graph(), generation_, sequence_);
  }

  const GenerationProxy& generation_;
  const int64_t max_positions_;
  SequenceState sequence_;
};

class WholeSequence final : public BlockSequence {
 public:
  WholeSequence(ModelProxy& model,
                ParameterStore& store,
                const ExecBase& base,
                const SequenceInputs& inputs,
                const SequenceBlocks& blocks)
      : BlockSequence(model, store, base, inputs, blocks, {"input_ids", "logits"}, {}) {}

  std::optional<int64_t> max_positions() const override { return std::nullopt; }

  at::Tensor append(const std::vector<int64_t>& ids) override {
    return run(ids, TextBatch::Positions::kAll);
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
