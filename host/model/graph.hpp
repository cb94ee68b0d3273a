// SPDX-License-Identifier: Apache-2.0
//
// Plain structs for a model as its plugin describes it, or for all models of a run
// (joined_graph.hpp): values, parameters, buffers and blocks, validated; and the parametrizations
// that a recipe adds. Nothing is allocated here.
// Invariants: blocks are in topological order; exactly one block makes each value of
// TENON_SOURCE_BLOCK; indices are valid; the blocks of a unit follow each other.
#pragma once

#include "host/tensor/batch.hpp"
#include "host/tensor/tensor_piece.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class ModelProxy;
class ParametrizationProxy;

inline constexpr uint32_t kNoIndex = UINT32_MAX;

// Lookup of a value that consists of table rows.
struct ModelLookup {
  std::string table;
  std::string column;       // batch column of ids; empty if `ids` is set
  uint32_t ids = kNoIndex;  // value with the ids; kNoIndex: see `column`
  uint32_t pooling = 0;     // TENON_POOL_*
  int64_t length = 0;       // rows per sample, for TENON_POOL_FIRST_N
  int64_t dim = 0;
  uint32_t init = 0;  // TENON_INIT_*, except TENON_INIT_MODULE
  double init_a = 0;
  double init_b = 0;
};

// How tensor ranks may divide a parameter or a value; see tenon_split.
struct ModelSplit {
  uint32_t axis = 0;
  std::vector<int64_t> parts;
  std::vector<int64_t> units;

  bool operator==(const ModelSplit&) const = default;
};

struct ModelValue {
  std::string name;
  std::optional<std::vector<Axis>> axes;  // absent: any shape
  uint32_t dtype = 0;                     // a dtype or a class of ports.h
  uint32_t source_kind = 0;               // TENON_SOURCE_*
  std::string source;                     // batch field, for TENON_SOURCE_BATCH
  uint32_t maker = kNoIndex;              // the block that outputs it
  std::vector<uint32_t> users;            // blocks that read it, ascending
  bool is_optional = false;               // a batch field that batches may lack
  std::optional<ModelLookup> lookup;      // for TENON_SOURCE_TABLE
  bool is_read = true;     // a loss, a metric or a hook may read it after the forward
  bool is_unused = false;  // all blocks that would read it are skipped
  std::optional<ModelSplit> split = {};
  bool is_divided = false;  // a block makes this rank's part of the split (divided_graph.hpp)
};

struct ModelParameter {
  std::string name;
  std::vector<int64_t> shape;  // of the whole
  uint32_t dtype = 0;
  uint32_t flags = 0;  // TENON_PARAM_*
  uint32_t init = 0;   // TENON_INIT_*
  double init_a = 0;
  double init_b = 0;
  uint32_t same_as = kNoIndex;  // if tied: the original parameter
  // Index in `parametrizations` if one computes this parameter; kNoIndex: it is as stored.
  uint32_t parametrization = kNoIndex;
  std::vector<uint32_t> blocks;  // users, ascending; if tied, users of this name
  uint32_t model = 0;            // index of its model; 0: the trained model
  std::optional<ModelSplit> split = {};
  // ---- set by divide_graph (divided_graph.hpp) ----
  std::optional<Box> part = {};  // what blocks of this rank get; absent: all
  // Tensor ranks that have the same elements, with adjacent numbers. All of them if each rank
  // stores the whole, also where blocks get a part.
  uint32_t num_copies = 1;
  bool is_stored_whole = true;  // false: this rank stores `part` alone
  // ---- set by cut_stages (stages.hpp) ----
  // The pipeline ranks whose blocks use it, ascending: several if it is tied across stages. Each
  // stores it and updates it alike; the first counts and saves it.
  std::vector<uint32_t> holders = {0};
  bool is_elsewhere = false;  // this rank is no holder: it has no element of it

  // The shape that blocks see.
  const std::vector<int64_t>& shape_in_block() const { return part ? part->size : shape; }
  // The box that this rank stores; absent: all.
  std::optional<Box> stored_part() const { return is_stored_whole ? std::nullopt : part; }
  const std::vector<int64_t>& shape_stored() const {
    return is_stored_whole ? shape : shape_in_block();
  }
  // The box of what this rank stores that blocks get; absent: all.
  std::optional<Box> seen_part() const { return is_stored_whole ? part : std::nullopt; }
};

struct ModelBuffer {
  std::string name;
  std::vector<int64_t> shape;
  uint32_t dtype = 0;
  uint32_t kind = 0;     // TENON_BUFFER_*
  bool is_real = false;  // of a parametrization: no block writes it
  uint32_t model = 0;    // index of its model
  uint32_t number = 0;   // in its model, as the plugin knows it
  uint32_t owner = 0;    // the pipeline rank whose blocks use it (stages.hpp)
};

struct ModelBlock {
  std::string name;
  std::string unit = {};  // of neighboring blocks; "": the block is a unit of its own
  uint32_t flags = 0;     // TENON_BLOCK_*
  std::vector<uint32_t> inputs;
  std::vector<uint32_t> outputs;
  std::vector<uint32_t> parameters;  // those of the plugin, then the reals of parametrizations
  std::vector<uint32_t> buffers;     // in the same order
  size_t num_reals = 0;              // at the end of `parameters`
  size_t num_real_buffers = 0;       // at the end of `buffers`
  uint32_t model = 0;                // index of its model
  uint32_t number = 0;               // in its model, as the plugin knows it
  uint32_t num_siblings = 0;         // blocks that its model declares, itself included
  bool is_divided = false;           // gets parts of its split parameters (divided_graph.hpp)
  uint32_t stage = 0;                // of the pipeline (stages.hpp)
  bool is_elsewhere = false;         // another pipeline rank runs it

  // What the plugin declared, and sees.
  std::span<const uint32_t> declared_parameters() const {
    return std::span(parameters).first(parameters.size() - num_reals);
  }
  std::span<const uint32_t> declared_buffers() const {
    return std::span(buffers).first(buffers.size() - num_real_buffers);
  }
  bool has(uint32_t flag) const { return (flags & flag) != 0; }
  const std::string& unit_name() const { return unit.empty() ? name : unit; }
};

// Consecutive blocks that are gathered, recomputed and offloaded together. Both ends are included.
struct ModelUnit {
  uint32_t first = 0;
  uint32_t last = 0;

  bool operator==(const ModelUnit&) const = default;
};

// A parameter that a parametrization computes from real ones (parametrized_graph.hpp).
struct ModelParametrization {
  uint32_t parameter = kNoIndex;  // the effective one
  std::vector<int64_t> shape;     // of the effective one
  uint32_t dtype = 0;             // of the effective one, as the model declared it
  bool has_base = false;          // a real has the name of the effective parameter
  std::optional<Box> part = {};   // of the effective one, as in ModelParameter
  std::vector<uint32_t> reals;    // parameters, in the order of the plugin
  std::vector<uint32_t> buffers;  // in the order of the plugin
  // Shared by the copies of a graph.
  std::shared_ptr<const ParametrizationProxy> proxy;

  const std::vector<int64_t>& shape_in_block() const { return part ? part->size : shape; }
};

struct ModelGraph {
  std::vector<ModelValue> values;
  std::vector<ModelParameter> parameters;
  std::vector<ModelBuffer> buffers;
  std::vector<ModelBlock> blocks;
  std::vector<ModelParametrization> parametrizations;
  std::vector<uint32_t> stage_owners = {0};  // by stage: the pipeline rank that has it (stages.hpp)

  // Returns the value named `name` that a block makes, or nothing.
  std::optional<uint32_t> find_output(std::string_view name) const;
  // Returns the unit of block `b`.
  ModelUnit unit_of(uint32_t b) const;
  // Returns the names of all values that blocks make, in declaration order.
  std::vector<std::string> output_names() const;
  // Returns the number of parameters of the trained model, which come first.
  size_t num_trained_parameters() const;
  // Returns the number of elements of all parameters of the trained model; counts tied parameters
  // once.
  int64_t num_elements() const;
  // Returns the number of elements of its frozen parameters.
  int64_t num_frozen_elements() const;
};

// Builds the graph that the model's `describe` declares.
// Errors  model.bad_graph for a contradictory description; model.not_available for carries, expert
//         parameters and collective blocks; plugin.failed for errors that the plugin reports
// Threads [main]
ModelGraph describe_model(ModelProxy& model);

}  // namespace tenon
