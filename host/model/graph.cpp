// SPDX-License-Identifier: Apache-2.0
#include "host/model/graph.hpp"

#include <tenon/draft/context.h>
#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/error/status.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/initializer.hpp"
#include "host/tensor/sized_struct.hpp"
#include "host/text/formatted.hpp"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <unordered_map>

namespace tenon {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw Error("model.bad_graph", message);
}

std::vector<Axis> read_axes(const tenon_axis* axes, size_t num_axes) {
  std::vector<Axis> result;
  for (size_t i = 0; i < num_axes; ++i) {
    result.push_back({axes[i].name != nullptr ? axes[i].name : "", axes[i].size});
  }
  return result;
}

// More axes than any tensor has; a larger number indicates uninitialized memory.
constexpr size_t kMaxAxes = 64;

void check_dtype(uint32_t dtype, const std::string& of) {
  const bool is_class = dtype >= TENON_CLASS_FIRST && dtype <= TENON_CLASS_ANY;
  if (!is_dtype(dtype) && !is_class) {
    refuse(of + " has " + dtype_name(dtype) + ", which is neither a dtype nor a class of them");
  }
}

// Refuses flags that this host does not know: the plugin relies on a meaning that they do not have.
void check_flags(uint32_t flags, uint32_t known, const std::string& of) {
  if (const std::string problem = flags_problem(flags, known); !problem.empty()) {
    refuse(of + " " + problem);
  }
}

// All bits up to the last flag. The last flag of a block is reserved: the one after NO_RECOMPUTE.
constexpr uint32_t kValueFlags = TENON_VALUE_OPTIONAL;
constexpr uint32_t kParameterFlags = (uint32_t{TENON_PARAM_INSIDE} << 1) - 1;
constexpr uint32_t kBlockFlags = (uint32_t{TENON_BLOCK_DIVISIBLE} << 1) - 1;

void check_array(const void* array, size_t count, const std::string& of) {
  if (array == nullptr && count > 0) {
    refuse(formatted("{} is null, and {} long", of, count));
  }
}

// `dtype` must have been checked.
std::vector<int64_t> read_shape(const int64_t* shape,
                                size_t ndim,
                                uint32_t dtype,
                                const std::string& of) {
  if (ndim > kMaxAxes) {
    refuse(formatted("{} has {} axes, more than any tensor", of, ndim));
  }
  check_array(shape, ndim, "the shape of " + of);
  std::vector<int64_t> result(shape, shape + ndim);
  // No dtype class has elements larger than f64.
  auto bytes = static_cast<int64_t>(is_dtype(dtype) ? dtype_size(dtype) : sizeof(double));
  for (const int64_t size : result) {
    if (size < 0) {
      refuse(of + " has a negative size");
    }
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) {
      refuse(of + " is larger than any memory");
    }
  }
  return result;
}

// Adds the elements of a shape to the sum over the model. Plans add and multiply such sums, and one
// that wraps would look small.
void add_elements(const std::vector<int64_t>& shape, int64_t& sum) {
  constexpr int64_t kMost = int64_t{1} << 56;
  sum += c10::multiply_integers(shape);
  if (sum > kMost) {
    refuse("the parameters and buffers together are larger than any memory");
  }
}

// Reads how ranks may divide something of this shape.
ModelSplit read_split(const tenon_split& given,
                      const std::vector<int64_t>& shape,
                      const std::string& of) {
  const tenon_split split = read_sized(given);
  if (split.axis >= shape.size()) {
    refuse(formatted("{} is divided along axis {} of {}", of, split.axis, shape.size()));
  }
  if (split.num_parts == 0 || split.parts == nullptr || split.units == nullptr) {
    refuse(of + " is divided into no parts");
  }
  const int64_t size = shape[split.axis];
  int64_t rest = size;
  for (size_t i = 0; i < split.num_parts && rest >= 0; ++i) {
    const int64_t part = split.parts[i];
    if (part < 1 || split.units[i] < 1 || part % split.units[i] != 0) {
      refuse(formatted("part {} of {} has the size {} and {} units, which do not divide it evenly",
                       i,
                       of,
                       part,
                       split.units[i]));
    }
    rest = part > rest ? -1 : rest - part;
  }
  if (rest != 0) {
    refuse(formatted(
        "the parts of {} do not add up to {}, the size of axis {}", of, size, split.axis));
  }
  return {.axis = split.axis,
          .parts = {split.parts, split.parts + split.num_parts},
          .units = {split.units, split.units + split.num_parts}};
}

// Collects the declarations of `describe`. A guard around each add_ method turns exceptions into
// statuses.
class GraphBuilder {
 public:
  uint32_t add_value(const tenon_value_spec& spec) {
    ModelValue value;
    value.name = take_name(spec.name, "value", value_names_, graph_.values.size());
    const std::string called = "value '" + value.name + "'";
    check_dtype(spec.dtype, called);
    if (spec.axes != nullptr) {
      if (spec.num_axes > kMaxAxes) {
        refuse(formatted("{} has {} axes, more than any tensor", called, spec.num_axes));
      }
      value.axes = read_axes(spec.axes, spec.num_axes);
    }
    if (spec.split != nullptr) {
      std::vector<int64_t> sizes;
      for (const Axis& axis : value.axes.value_or(std::vector<Axis>{})) {
        sizes.push_back(axis.size);
      }
      value.split = read_split(*spec.split, sizes, called);
    }
    value.dtype = spec.dtype;
    value.source_kind = spec.source_kind;
    check_flags(spec.flags, kValueFlags, called);
    value.is_optional = (spec.flags & TENON_VALUE_OPTIONAL) != 0;
    if (value.is_optional && spec.source_kind != TENON_SOURCE_BATCH) {
      refuse(called + " is optional (TENON_VALUE_OPTIONAL), but is not a batch field");
    }
    if (spec.source_kind == TENON_SOURCE_BATCH) {
      value.source = spec.source != nullptr ? spec.source : spec.name;
    } else if (spec.source_kind == TENON_SOURCE_TABLE) {
      value.lookup = read_lookup(spec, value, called);
    } else if (spec.source_kind == TENON_SOURCE_CARRY) {
      throw Error("model.not_available",
                  called +
                      " is carried over from the previous microbatch, which this release does not "
                      "support; take it from a batch field or a block");
    } else if (spec.source_kind != TENON_SOURCE_BLOCK) {
      refuse(formatted("{} has the unknown source {}", called, spec.source_kind));
    }
    graph_.values.push_back(std::move(value));
    return static_cast<uint32_t>(graph_.values.size() - 1);
  }

  uint32_t add_parameter(const tenon_parameter_spec& spec) {
    ModelParameter parameter;
    parameter.name = take_name(spec.name, "parameter", parameter_names_, graph_.parameters.size());
    if (spec.tied_to != nullptr) {
      const auto found = parameter_names_.find(spec.tied_to);
      if (found == parameter_names_.end() || found->second == graph_.parameters.size()) {
        refuse("parameter '" + parameter.name + "' is tied to '" + spec.tied_to +
               "', which no earlier parameter is called");
      }
      uint32_t target = found->second;
      if (graph_.parameters[target].same_as != kNoIndex) {
        target = graph_.parameters[target].same_as;
      }
      const ModelParameter& other = graph_.parameters[target];
      parameter.shape = other.shape;
      parameter.dtype = other.dtype;
      parameter.flags = other.flags;
      parameter.split = other.split;
      parameter.same_as = target;
    } else {
      const std::string called = "parameter '" + parameter.name + "'";
      check_dtype(spec.dtype, called);
      parameter.shape = read_shape(spec.shape, spec.ndim, spec.dtype, called);
      add_elements(parameter.shape, num_elements_);
      if (spec.split != nullptr) {
        parameter.split = read_split(*spec.split, parameter.shape, called);
      }
      parameter.dtype = spec.dtype;
      parameter.flags = spec.flags;
      check_flags(spec.flags, kParameterFlags, called);
      if ((spec.flags & TENON_PARAM_EXPERT) != 0) {
        throw Error("model.not_available",
                    called +
                        " belongs to one expert rank (TENON_PARAM_EXPERT), which this release does "
                        "not support; declare it without the flag, so that all ranks have it");
      }
      parameter.init = spec.init;
      parameter.init_a = spec.init_a;
      parameter.init_b = spec.init_b;
      if (spec.init > TENON_INIT_MODULE) {
        refuse(
            formatted("parameter '{}' has the unknown initialiser {}", parameter.name, spec.init));
      }
    }
    graph_.parameters.push_back(std::move(parameter));
    return static_cast<uint32_t>(graph_.parameters.size() - 1);
  }

  uint32_t add_buffer(const tenon_buffer_spec& spec) {
    ModelBuffer buffer;
    buffer.name = take_name(spec.name, "buffer", buffer_names_, graph_.buffers.size());
    const std::string called = "buffer '" + buffer.name + "'";
    check_dtype(spec.dtype, called);
    buffer.shape = read_shape(spec.shape, spec.ndim, spec.dtype, called);
    add_elements(buffer.shape, num_elements_);
    buffer.dtype = spec.dtype;
    buffer.kind = spec.kind;
    buffer.number = static_cast<uint32_t>(graph_.buffers.size());
    if (spec.kind != TENON_BUFFER_CONSTANT && spec.kind != TENON_BUFFER_STATE) {
      refuse(formatted("{} has the unknown kind {}", called, spec.kind));
    }
    graph_.buffers.push_back(std::move(buffer));
    return static_cast<uint32_t>(graph_.buffers.size() - 1);
  }

  uint32_t add_block(const tenon_block_spec& spec) {
    const auto index = static_cast<uint32_t>(graph_.blocks.size());
    ModelBlock block;
    block.name = take_name(spec.name, "block", block_names_, index);
    block.flags = spec.flags;
    block.number = index;
    check_flags(spec.flags, kBlockFlags, "block '" + block.name + "'");
    join_unit(spec.unit, block);
    if (block.has(TENON_BLOCK_COLLECTIVE)) {
      throw Error(
          "model.not_available",
          "block '" + block.name +
              "' communicates with other ranks (TENON_BLOCK_COLLECTIVE), which this release "
              "does not support; let the block compute on its own rank only");
    }
    block.inputs =
        read_indices(spec.inputs, spec.num_inputs, graph_.values.size(), block.name, "input");
    block.outputs =
        read_indices(spec.outputs, spec.num_outputs, graph_.values.size(), block.name, "output");
    block.parameters = read_indices(
        spec.parameters, spec.num_parameters, graph_.parameters.size(), block.name, "parameter");
    block.buffers =
        read_indices(spec.buffers, spec.num_buffers, graph_.buffers.size(), block.name, "buffer");
    for (const uint32_t v : block.inputs) {
      ModelValue& value = graph_.values[v];
      const uint32_t made =
          value.lookup.has_value() && value.lookup->ids != kNoIndex ? value.lookup->ids : v;
      const ModelValue& needed = graph_.values[made];
      if (needed.source_kind == TENON_SOURCE_BLOCK && needed.maker == kNoIndex) {
        refuse("block '" + block.name + "' reads '" + needed.name +
               "', which no earlier block makes; add blocks in the order they run");
      }
      if (value.users.empty() || value.users.back() != index) {
        value.users.push_back(index);
      }
    }
    for (const uint32_t v : block.outputs) {
      ModelValue& value = graph_.values[v];
      if (value.source_kind != TENON_SOURCE_BLOCK) {
        refuse("block '" + block.name + "' makes '" + value.name + "', which comes from " +
               (value.lookup.has_value() ? "a table" : "the batch"));
      }
      if (value.maker != kNoIndex) {
        refuse("value '" + value.name + "' is made by two blocks, '" +
               graph_.blocks[value.maker].name + "' and '" + block.name + "'");
      }
      value.maker = index;
    }
    for (const uint32_t p : block.parameters) {
      auto& blocks = graph_.parameters[p].blocks;
      if (std::find(blocks.begin(), blocks.end(), index) != blocks.end()) {
        refuse("block '" + block.name + "' lists parameter '" + graph_.parameters[p].name +
               "' twice");
      }
      blocks.push_back(index);
    }
    graph_.blocks.push_back(std::move(block));
    return index;
  }

  ModelGraph finish() {
    if (graph_.blocks.empty()) {
      refuse("the model has no blocks");
    }
    for (ModelBlock& block : graph_.blocks) {
      block.num_siblings = static_cast<uint32_t>(graph_.blocks.size());
    }
    for (const auto& value : graph_.values) {
      if (value.source_kind == TENON_SOURCE_BLOCK && value.maker == kNoIndex) {
        refuse("value '" + value.name + "' is made by no block");
      }
    }
    for (const auto& block : graph_.blocks) {
      const auto same = block_names_.find(block.unit);
      if (same != block_names_.end() && graph_.blocks[same->second].unit != block.unit) {
        refuse("unit '" + block.unit + "' of block '" + block.name +
               "' has the name of another block; choose another name for one of them");
      }
    }
    for (const auto& parameter : graph_.parameters) {
      if (parameter.blocks.empty()) {
        refuse("parameter '" + parameter.name + "' is used by no block");
      }
      if (parameter.init == TENON_INIT_MODULE && parameter.same_as == kNoIndex &&
          std::none_of(parameter.blocks.begin(), parameter.blocks.end(), [&](uint32_t b) {
            return graph_.blocks[b].has(TENON_BLOCK_MATERIALIZED);
          })) {
        refuse("parameter '" + parameter.name +
               "' is to be initialised by its module, but no block that uses it is materialized");
      }
    }
    return std::move(graph_);
  }

 private:
  using Names = std::unordered_map<std::string, uint32_t>;

  // Sets the unit of the next block. Each block of a unit follows another block of the unit.
  void join_unit(const char* name, ModelBlock& block) {
    if (name == nullptr) {
      return;
    }
    if (const std::string problem = name_problem(name); *name == '\0' || !problem.empty()) {
      refuse("the name of the unit of block '" + block.name + "' " +
             (problem.empty() ? "is empty" : problem));
    }
    if (std::strchr(name, '/') != nullptr) {
      refuse("the name of unit '" + std::string(name) +
             "' has a '/', which separates a model's name from the names in it; use dots");
    }
    block.unit = name;
    const auto index = static_cast<uint32_t>(graph_.blocks.size());
    const auto [last, is_first] = last_of_unit_.try_emplace(block.unit, index);
    if (!is_first && last->second + 1 != index) {
      refuse("unit '" + block.unit + "' is interrupted: block '" +
             graph_.blocks[last->second + 1].name + "' is between its blocks '" +
             graph_.blocks[last->second].name + "' and '" + block.name +
             "'; add the blocks of a unit one after the other");
    }
    last->second = index;
  }

  ModelLookup read_lookup(const tenon_value_spec& spec,
                          const ModelValue& value,
                          const std::string& called) const {
    ModelLookup lookup;
    read_ids(spec, called, lookup);
    read_pooling(spec, called, lookup);
    read_row(spec, value, called, lookup);
    return lookup;
  }

  // Reads the source of the ids, and the table that has their rows.
  void read_ids(const tenon_value_spec& spec,
                const std::string& called,
                ModelLookup& lookup) const {
    lookup.ids = spec.ids;
    if (spec.ids != TENON_NO_INDEX) {
      if (spec.ids >= graph_.values.size()) {
        refuse(formatted("{} looks up the ids in value number {}, which is not declared before it",
                         called,
                         spec.ids));
      }
    } else if (spec.source == nullptr || *spec.source == '\0') {
      refuse(called + " is looked up in a table, but names no column of ids");
    } else {
      lookup.column = spec.source;
    }
    if (spec.table != nullptr) {
      lookup.table = spec.table;
    } else if (!lookup.column.empty()) {
      lookup.table = lookup.column;
    }
    if (lookup.table.empty()) {
      refuse(called + " names no table");
    }
  }

  static void read_pooling(const tenon_value_spec& spec,
                           const std::string& called,
                           ModelLookup& lookup) {
    if (spec.pooling > TENON_POOL_FIRST_N) {
      refuse(formatted("{} has the unknown pooling {}", called, spec.pooling));
    }
    lookup.pooling = spec.pooling;
    lookup.length = spec.length;
    if (spec.pooling == TENON_POOL_FIRST_N && spec.length == 0) {
      refuse(called + " takes the first 0 rows of each sample; give it a length");
    }
    const bool is_weighted =
        spec.pooling == TENON_POOL_WEIGHTED_SUM || spec.pooling == TENON_POOL_WEIGHTED_MEAN;
    if (is_weighted && lookup.column.empty()) {
      refuse(called +
             " has a weighted pooling, and ids that are no column, so that there are no "
             "weights");
    }
  }

  // Reads the size and initial values of a row; checks the value's dtype and axes.
  static void read_row(const tenon_value_spec& spec,
                       const ModelValue& value,
                       const std::string& called,
                       ModelLookup& lookup) {
    constexpr int64_t kMaxDim = 65536;
    if (!value.axes.has_value() || value.axes->empty() || value.axes->back().size < 1 ||
        value.axes->back().size > kMaxDim) {
      refuse(
          formatted("{} is made of rows of a table: its last axis must be the size of a row, from "
                    "1 to {}",
                    called,
                    kMaxDim));
    }
    lookup.dim = value.axes->back().size;
    const size_t num_axes = value.axes->size();
    const bool fits = spec.pooling == TENON_POOL_FIRST_N ? num_axes == 3
                      : spec.pooling == TENON_POOL_NONE  ? num_axes == 2 || num_axes == 3
                                                         : num_axes == 2;
    if (!fits) {
      refuse(
          formatted("{} has {} axes, which its pooling does not give: sums, means and maxima are "
                    "[B, dim], the first n are [B, n, dim], and without a pooling it is either",
                    called,
                    num_axes));
    }
    const bool is_whole = spec.dtype < TENON_CLASS_FIRST
                              ? !c10::isFloatingType(static_cast<c10::ScalarType>(spec.dtype))
                              : spec.dtype == TENON_CLASS_INTEGER;
    if (is_whole) {
      refuse(called + " is made of rows of a table, which are floating point");
    }
    if (!is_legal_init(spec.init, spec.init_a, spec.init_b)) {
      refuse(called + " has no legal initialiser for new rows");
    }
    lookup.init = spec.init;
    lookup.init_a = spec.init_a;
    lookup.init_b = spec.init_b;
  }

  static std::string take_name(const char* name, const char* what, Names& names, size_t index) {
    if (name == nullptr || *name == '\0') {
      refuse(std::string("a ") + what + " has no name");
    }
    if (const std::string problem = name_problem(name); !problem.empty()) {
      refuse(formatted("the name of {} {} {}", what, index, problem));
    }
    if (std::strchr(name, '/') != nullptr) {
      refuse(std::string("the name of ") + what + " '" + name +
             "' has a '/', which separates a model's name from the names in it; use dots");
    }
    if (!names.emplace(name, static_cast<uint32_t>(index)).second) {
      refuse(std::string("two ") + what + "s are called '" + name + "'");
    }
    return name;
  }

  static std::vector<uint32_t> read_indices(const uint32_t* indices,
                                            size_t count,
                                            size_t limit,
                                            const std::string& block,
                                            const char* what) {
    check_array(indices, count, std::string("the list of ") + what + "s of block '" + block + "'");
    std::vector<uint32_t> result(indices, indices + count);
    for (const uint32_t index : result) {
      if (index >= limit) {
        refuse(formatted("block '{}' has an {} number {} of {}", block, what, index, limit));
      }
    }
    return result;
  }

  ModelGraph graph_;
  int64_t num_elements_ = 0;  // of all parameters and buffers
  Names value_names_;
  Names parameter_names_;
  Names buffer_names_;
  Names block_names_;
  Names last_of_unit_;  // by name of the unit: the last block so far
};

template <class Spec, class Add>
tenon_status* add(tenon_model_builder* builder,
                  const Spec* spec,
                  uint32_t* out_index,
                  Add add_one) {
  return guard(nullptr, [&] {
    if (builder == nullptr || spec == nullptr || out_index == nullptr) {
      throw Error("model.bad_graph", "a null argument was given to the model builder");
    }
    *out_index = (static_cast<GraphBuilder*>(builder->impl)->*add_one)(read_sized(*spec));
  });
}

}  // namespace

std::optional<uint32_t> ModelGraph::find_output(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].maker != kNoIndex && values[i].name == name) {
      return static_cast<uint32_t>(i);
    }
  }
  return std::nullopt;
}

ModelUnit ModelGraph::unit_of(uint32_t b) const {
  ModelUnit unit{b, b};
  const std::string& name = blocks[b].unit;
  if (name.empty()) {
    return unit;
  }
  while (unit.first > 0 && blocks[unit.first - 1].unit == name) {
    --unit.first;
  }
  while (unit.last + 1 < blocks.size() && blocks[unit.last + 1].unit == name) {
    ++unit.last;
  }
  return unit;
}

std::vector<std::string> ModelGraph::output_names() const {
  std::vector<std::string> names;
  for (const auto& value : values) {
    if (value.maker != kNoIndex) {
      names.push_back(value.name);
    }
  }
  return names;
}

namespace {

int64_t num_elements_of(const std::vector<ModelParameter>& parameters, uint32_t flags) {
  int64_t total = 0;
  for (const auto& parameter : parameters) {
    if (parameter.same_as == kNoIndex && parameter.model == 0 &&
        (parameter.flags & flags) == flags) {
      total += c10::multiply_integers(parameter.shape);
    }
  }
  return total;
}

}  // namespace

size_t ModelGraph::num_trained_parameters() const {
  return static_cast<size_t>(std::ranges::count(parameters, 0U, &ModelParameter::model));
}

int64_t ModelGraph::num_elements() const {
  return num_elements_of(parameters, 0);
}

int64_t ModelGraph::num_frozen_elements() const {
  return num_elements_of(parameters, TENON_PARAM_FROZEN);
}

ModelGraph describe_model(ModelProxy& model) {
  GraphBuilder collected;
  tenon_model_builder builder{};
  builder.struct_size = sizeof(builder);
  builder.impl = &collected;
  builder.add_value = [](tenon_model_builder* b, const tenon_value_spec* spec, uint32_t* out) {
    return add(b, spec, out, &GraphBuilder::add_value);
  };
  builder.add_parameter =
      [](tenon_model_builder* b, const tenon_parameter_spec* spec, uint32_t* out) {
        return add(b, spec, out, &GraphBuilder::add_parameter);
      };
  builder.add_buffer = [](tenon_model_builder* b, const tenon_buffer_spec* spec, uint32_t* out) {
    return add(b, spec, out, &GraphBuilder::add_buffer);
  };
  builder.add_block = [](tenon_model_builder* b, const tenon_block_spec* spec, uint32_t* out) {
    return add(b, spec, out, &GraphBuilder::add_block);
  };
  model.describe(builder);
  return collected.finish();
}

}  // namespace tenon
