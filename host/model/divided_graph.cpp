// SPDX-License-Identifier: Apache-2.0
//
// Source: docs/decisions/0089-collectives-in-blocks.md.
#include "host/model/divided_graph.hpp"

#include <tenon/draft/tensor.h>

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/model/parametrized_graph.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tenon {
namespace {

bool is_even(int64_t units, int64_t ranks) {
  return units % ranks == 0 || ranks % units == 0;
}

// Returns why `ranks` cannot share the units of a split; "" if they can.
std::string indivisibility(const ModelSplit& split, uint32_t ranks) {
  for (size_t i = 0; i < split.units.size(); ++i) {
    if (!is_even(split.units[i], ranks)) {
      const std::string part = split.units.size() > 1 ? formatted("part {} has ", i) : "it has ";
      return formatted("{}{} units, and neither {} nor {} is a multiple of the other",
                       part,
                       split.units[i],
                       split.units[i],
                       ranks);
    }
  }
  return {};
}

[[noreturn]] void refuse(const std::string& name, const std::string& why, uint32_t ranks) {
  throw Error("model.indivisible",
              formatted("/parallel/tensor {} cannot divide {}: {}; choose another degree, or set "
                        "/parallel/undeclared to \"whole\" to run such blocks whole on each rank",
                        ranks,
                        name,
                        why));
}

// Returns why several ranks of a block would compute the same terms of a sum over ranks; "" if no
// two ranks do.
std::string sameness(const ModelGraph& graph, const ModelBlock& block, uint32_t ranks) {
  int64_t most = 0;
  const auto count = [&most](const std::optional<ModelSplit>& split) {
    if (split.has_value()) {
      most = std::max(most, *std::ranges::max_element(split->units));
    }
  };
  for (const uint32_t p : block.parameters) {
    count(graph.parameters[p].split);
  }
  for (const uint32_t v : block.inputs) {
    count(graph.values[v].split);
  }
  const bool has_sum = std::ranges::any_of(
      block.outputs, [&graph](uint32_t v) { return !graph.values[v].split.has_value(); });
  return has_sum && most > 0 && most < ranks
             ? formatted(
                   "what it divides has at most {} units, so that ranks would compute the "
                   "same",
                   most)
             : "";
}

// Returns how many adjacent ranks have the same elements of a part of `units` units.
uint32_t copies_of(int64_t units, uint32_t ranks) {
  return units < ranks ? ranks / static_cast<uint32_t>(units) : 1;
}

uint32_t root_of(const ModelGraph& graph, uint32_t p) {
  const uint32_t same_as = graph.parameters[p].same_as;
  return same_as == kNoIndex ? p : same_as;
}

void check_inside(const ModelGraph& graph) {
  for (const ModelBlock& block : graph.blocks) {
    for (const uint32_t p : block.declared_parameters()) {
      const ModelParameter& parameter = graph.parameters[p];
      if ((parameter.flags & TENON_PARAM_INSIDE) == 0) {
        continue;
      }
      const char* const why = parameter.split.has_value() ? "has a split"
                              : !block.has(TENON_BLOCK_DIVISIBLE)
                                  ? "the block does not set TENON_BLOCK_DIVISIBLE"
                                  : nullptr;
      if (why != nullptr) {
        throw Error("model.bad_graph",
                    formatted("parameter '{}' of block '{}' is used inside of a divided region "
                              "(TENON_PARAM_INSIDE), and {}",
                              parameter.name,
                              block.name,
                              why));
      }
    }
  }
}

class GraphDivider {
 public:
  GraphDivider(ModelGraph& graph, RankIndex tensor) : graph_(graph), tensor_(tensor) {
    for (const ModelBlock& block : graph.blocks) {
      is_divided_.push_back(block.has(TENON_BLOCK_DIVISIBLE) && has_split(block));
    }
  }

  void divide(IndivisibleBlocks indivisible) {
    spread();
    // A block that runs whole for another reason is not refused.
    for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
      check_block(b, indivisible);
    }
    spread();
    for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
      graph_.blocks[b].is_divided = is_divided_[b];
    }
    for (ModelValue& value : graph_.values) {
      value.is_divided = value.split.has_value() && is_made_divided(value);
    }
    for (uint32_t p = 0; p < graph_.parameters.size(); ++p) {
      if (graph_.parameters[p].same_as == kNoIndex) {
        divide_parameter(p);
      }
    }
    for (ModelParametrization& made : graph_.parametrizations) {
      divide_effective(made);
    }
  }

 private:
  bool has_split(const ModelBlock& block) const {
    const auto is_split = [](const auto& all) {
      return [&all](uint32_t i) { return all[i].split.has_value(); };
    };
    return std::ranges::any_of(block.parameters, is_split(graph_.parameters)) ||
           std::ranges::any_of(block.inputs, is_split(graph_.values)) ||
           std::ranges::any_of(block.outputs, is_split(graph_.values));
  }

  bool is_made_divided(const ModelValue& value) const {
    return value.maker != kNoIndex && is_divided_[value.maker];
  }

  // Lets blocks run whole whose split parameters or inputs are whole, until no more do.
  void spread() {
    for (bool changed = true; changed;) {
      is_whole_.assign(graph_.parameters.size(), false);
      for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
        for (const uint32_t p : graph_.blocks[b].parameters) {
          is_whole_[root_of(graph_, p)] = is_whole_[root_of(graph_, p)] || !is_divided_[b];
        }
      }
      changed = false;
      for (uint32_t b = 0; b < graph_.blocks.size(); ++b) {
        if (is_divided_[b] && uses_whole(graph_.blocks[b])) {
          is_divided_[b] = false;
          changed = true;
        }
      }
    }
  }

  bool uses_whole(const ModelBlock& block) const {
    return std::ranges::any_of(block.parameters,
                               [&](uint32_t p) {
                                 return graph_.parameters[p].split.has_value() &&
                                        is_whole_[root_of(graph_, p)];
                               }) ||
           std::ranges::any_of(block.inputs, [&](uint32_t v) {
             return graph_.values[v].split.has_value() && !is_made_divided(graph_.values[v]);
           });
  }

  void check_block(uint32_t b, IndivisibleBlocks indivisible) {
    const ModelBlock& block = graph_.blocks[b];
    const auto answer = [&](const std::string& name, const std::string& why) {
      if (!is_divided_[b] || why.empty()) {
        return;
      }
      if (indivisible == IndivisibleBlocks::kRefuse) {
        refuse(name, why, tensor_.count);
      }
      is_divided_[b] = false;
    };
    const auto check = [&](const char* what, const auto& one) {
      answer(formatted("{} '{}' of block '{}'", what, one.name, block.name),
             one.split ? indivisibility(*one.split, tensor_.count) : "");
    };
    for (const uint32_t p : block.parameters) {
      check("parameter", graph_.parameters[p]);
    }
    for (const uint32_t p : block.declared_parameters()) {
      answer(formatted("parameter '{}' of block '{}'", graph_.parameters[p].name, block.name),
             undividable(graph_, p));
    }
    for (const uint32_t v : block.outputs) {
      check("value", graph_.values[v]);
    }
    answer(formatted("block '{}'", block.name), sameness(graph_, block, tensor_.count));
  }

  // Sets the part of an effective parameter that blocks compute from parts of the real ones.
  void divide_effective(ModelParametrization& made) {
    const ModelParameter& parameter = graph_.parameters[made.parameter];
    if (parameter.split.has_value() && !is_whole_[made.parameter] && has_parts(*parameter.split)) {
      made.part =
          divided_part(*parameter.split, made.shape, tensor_, "parameter '" + parameter.name + "'");
    }
  }

  // False if each part is one unit, which all ranks have.
  bool has_parts(const ModelSplit& split) const {
    return std::ranges::any_of(split.units, [](int64_t units) { return units > 1; });
  }

  void divide_parameter(uint32_t p) {
    ModelParameter& parameter = graph_.parameters[p];
    parameter.num_copies = tensor_.count;
    const bool is_stored = parameter.parametrization == kNoIndex ||
                           graph_.parametrizations[parameter.parametrization].has_base;
    if (!parameter.split.has_value() || is_whole_[p] || !is_stored) {
      return;
    }
    uint32_t fewest = tensor_.count;
    uint32_t most = 1;
    for (const int64_t units : parameter.split->units) {
      fewest = std::min(fewest, copies_of(units, tensor_.count));
      most = std::max(most, copies_of(units, tensor_.count));
    }
    if (fewest == tensor_.count) {
      return;  // each part is one unit, which all ranks have
    }
    parameter.part = divided_part(
        *parameter.split, parameter.shape, tensor_, "parameter '" + parameter.name + "'");
    parameter.is_stored_whole = fewest != most;
    parameter.num_copies = fewest == most ? most : tensor_.count;
  }

  ModelGraph& graph_;
  RankIndex tensor_;
  std::vector<bool> is_divided_;  // by block
  std::vector<bool> is_whole_;    // by parameter, of first names: a user runs whole
};

// Gives tied names what their first name has.
void set_tied(ModelGraph& graph) {
  for (ModelParameter& parameter : graph.parameters) {
    if (parameter.same_as != kNoIndex) {
      const ModelParameter& first = graph.parameters[parameter.same_as];
      parameter.part = first.part;
      parameter.num_copies = first.num_copies;
      parameter.is_stored_whole = first.is_stored_whole;
    }
  }
}

}  // namespace

Box divided_part(const ModelSplit& split,
                 const std::vector<int64_t>& shape,
                 RankIndex tensor,
                 const std::string& name) {
  if (const std::string why = indivisibility(split, tensor.count); !why.empty()) {
    refuse(name, why, tensor.count);
  }
  TENON_ASSERT(split.axis < shape.size(), "a split has an axis of the shape");
  std::vector<IndexRange> ranges;
  int64_t begin = 0;  // of the part
  for (size_t i = 0; i < split.parts.size(); ++i) {
    const int64_t unit = split.parts[i] / split.units[i];
    const int64_t units = std::max<int64_t>(split.units[i] / tensor.count, 1);
    const int64_t first = split.units[i] * tensor.index / tensor.count;
    ranges.push_back({.start = begin + first * unit, .size = units * unit});
    begin += split.parts[i];
  }
  TENON_ASSERT(begin == shape[split.axis], "the parts of a split add up to its axis");
  return box_of_ranges(shape, split.axis, std::move(ranges));
}

void divide_graph(ModelGraph& graph, RankIndex tensor, IndivisibleBlocks indivisible) {
  check_inside(graph);
  if (tensor.count == 1) {
    return;
  }
  GraphDivider(graph, tensor).divide(indivisible);
  set_tied(graph);
}

void store_whole(ModelGraph& graph, RankIndex tensor, const std::vector<bool>& needs_whole) {
  for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
    if (needs_whole[p]) {
      graph.parameters[p].is_stored_whole = true;
      graph.parameters[p].num_copies = tensor.count;
    }
  }
  set_tied(graph);
}

bool adds_gradient(
    const ModelGraph& graph, uint32_t b, uint32_t p, RankIndex tensor, bool has_pieces) {
  const ModelParameter& parameter = graph.parameters[p];
  const bool is_inside = parameter.split.has_value() || (parameter.flags & TENON_PARAM_INSIDE) != 0;
  return tensor.index == 0 || has_pieces || (graph.blocks[b].is_divided && is_inside);
}

}  // namespace tenon
