// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/divided_mistake.hpp"

#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace tenon {
namespace {

using Kind = ResultKey::Kind;

// The mistake shows on pieces of T alone.
constexpr const char* kFixOfPieces =
    " if each rank has all positions: pass all that enters the region through tenon::tensor_in, "
    "also positions, segments, and gradients in a backward by hand";

const ModelBlock& block_of(const DividedComparison& comparison) {
  return comparison.graph().blocks[comparison.block()];
}

bool is_inside(const ModelParameter& parameter) {
  return parameter.split.has_value() || (parameter.flags & TENON_PARAM_INSIDE) != 0;
}

// "axis 0: 8, 4, 4 in 4, 2, 2 units"
std::string split_text(const ModelSplit& split) {
  std::vector<std::string> parts;
  std::vector<std::string> units;
  for (std::size_t i = 0; i < split.parts.size(); ++i) {
    parts.push_back(formatted("{}", split.parts[i]));
    units.push_back(formatted("{}", split.units[i]));
  }
  return formatted("axis {}: {} in {} units", split.axis, joined(parts), joined(units));
}

// `"qkv" [8, 8] of [16, 8] (axis 0: 8, 4, 4 in 4, 2, 2 units)`, of all that have a split.
std::string sizes_on(const DividedComparison& comparison, uint32_t rank) {
  const ModelGraph& graph = comparison.graph();
  std::vector<std::string> sizes;
  const auto add = [&](const std::string& what, const ModelSplit& split) {
    sizes.push_back(what + " (" + split_text(split) + ")");
  };
  for (const uint32_t p : block_of(comparison).parameters) {
    const ModelParameter& parameter = graph.parameters[p];
    if (parameter.split) {
      const std::optional<Box>& part = comparison.ranks().part(rank, p);
      add("\"" + parameter.name + "\" " + shape_text(part ? part->size : parameter.shape) + " of " +
              shape_text(parameter.shape),
          *parameter.split);
    }
  }
  for (const auto& values : {block_of(comparison).inputs, block_of(comparison).outputs}) {
    for (const uint32_t v : values) {
      if (graph.values[v].split) {
        add("value \"" + graph.values[v].name + "\"", *graph.values[v].split);
      }
    }
  }
  return joined(sizes);
}

// `"up.bias" [12]`, of all parameters that each rank has whole.
std::string whole_sizes(const DividedComparison& comparison) {
  std::vector<std::string> sizes;
  for (const uint32_t p : block_of(comparison).parameters) {
    const ModelParameter& parameter = comparison.graph().parameters[p];
    if (!parameter.split) {
      sizes.push_back("\"" + parameter.name + "\" " + shape_text(parameter.shape));
    }
  }
  return sizes.empty() ? "" : "; without a split are " + joined(sizes);
}

// `"a", "b"`
std::string names_of(const DividedComparison& comparison, const std::vector<uint32_t>& parameters) {
  std::vector<std::string> names;
  for (const uint32_t p : parameters) {
    names.push_back("\"" + comparison.graph().parameters[p].name + "\"");
  }
  return joined(names);
}

// Returns the parameters without which a result is equal, in the order of the block.
std::vector<uint32_t> causes_of(DividedComparison& comparison, const ResultKey& key) {
  std::vector<uint32_t> causes;
  for (const uint32_t p : block_of(comparison).parameters) {
    if (comparison.is_equal_without(key, p)) {
      causes.push_back(p);
    }
  }
  return causes;
}

// Returns the parameter whose product is nearest to the mistake: the last one that ranks divide.
const ModelParameter& nearest(const DividedComparison& comparison,
                              const std::vector<uint32_t>& causes) {
  const std::vector<ModelParameter>& parameters = comparison.graph().parameters;
  const auto split = std::find_if(causes.rbegin(), causes.rend(), [&parameters](uint32_t p) {
    return parameters[p].split.has_value();
  });
  return parameters[split == causes.rend() ? causes.back() : *split];
}

std::string output_mistake(DividedComparison& comparison, const ResultKey& key) {
  const std::vector<uint32_t> causes = causes_of(comparison, key);
  if (causes.empty()) {
    return "no parameter causes it alone: let values without a parameter, such as a residual, "
           "enter by tenon::tensor_in, and leave by tenon::tensor_out once or not at all";
  }
  const ModelParameter& last = nearest(comparison, causes);
  const std::string name = "\"" + last.name + "\"";
  const std::string equal = "they are equal if " + name + " is zero: ";
  if (comparison.is_different_on_ranks(key)) {
    return equal + "pass the product of " + name + " through tenon::tensor_out";
  }
  if (last.shape.size() == 1 && !is_inside(last)) {
    return equal + "add " + name + " after tenon::tensor_out, or declare its split";
  }
  const bool shares =
      last.split && *std::ranges::min_element(last.split->units) < comparison.ranks().num_ranks();
  return equal +
         (shares ? "ranks that share its units add the same terms; let another block use it"
                 : "correct its product or what that reads: units, a sum without tenon::sum_over, "
                   "or a second tenon::tensor_out") +
         "; split are " + sizes_on(comparison, 0);
}

std::string input_mistake(DividedComparison& comparison, const ResultKey& key) {
  if (block_of(comparison).has(TENON_BLOCK_HAND_WRITTEN)) {
    return "in backward, pass the gradient of what entered the region through tenon::tensor_out";
  }
  std::vector<uint32_t> causes = causes_of(comparison, key);
  std::erase_if(causes, [&](uint32_t p) { return !is_inside(comparison.graph().parameters[p]); });
  return std::string("something enters the region without tenon::tensor_in") +
         (causes.empty()
              ? ""
              : "; they are equal if one of these is zero: " + names_of(comparison, causes));
}

std::string parameter_mistake(const DividedComparison& comparison, const ResultKey& key) {
  const ModelParameter& parameter =
      comparison.graph().parameters[block_of(comparison).parameters[key.index]];
  if (parameter.split) {
    return "correct the units of its split, or what its product reads; split are " +
           sizes_on(comparison, 0);
  }
  if (is_inside(parameter)) {
    return comparison.has_whole_gradients(key.index)
               ? "each rank has the whole gradient: remove TENON_PARAM_INSIDE, since the block "
                 "uses "
                 "it outside of the region"
               : "neither the ranks nor their sum have the gradient: declare two parameters if the "
                 "block uses it inside and outside of the region";
  }
  return comparison.has_sum_of_gradients(key.index)
             ? "the ranks add up to the whole gradient: flag it TENON_PARAM_INSIDE, or pass what "
               "it "
               "makes through tenon::tensor_in if the block uses it outside of the region"
             : "neither the ranks nor their sum have the gradient: declare two parameters if the "
               "block uses it inside and outside of the region";
}

std::string fix_of(DividedComparison& comparison, const ResultKey& key) {
  const bool is_gradient = key.kind == Kind::kInput || key.kind == Kind::kParameter;
  if (is_gradient && comparison.is_equal_without_aux(key)) {
    return "they are equal without auxiliary losses: compute those outside of the region, from "
           "values that have not entered";
  }
  if (comparison.has_pieces()) {
    return std::string("they are equal") + kFixOfPieces;
  }
  switch (key.kind) {
    case Kind::kOutput:
      return output_mistake(comparison, key);
    case Kind::kInput:
      return input_mistake(comparison, key);
    case Kind::kParameter:
      return parameter_mistake(comparison, key);
    case Kind::kAux:
    case Kind::kBuffer:
      return "compute it outside of the region, from values that have not entered";
  }
  return "";
}

}  // namespace

std::string mistake_of(DividedComparison& comparison) {
  const std::optional<ResultKey> key = comparison.first_difference();
  return key ? comparison.name_of(*key) + " differs if " + comparison.division() + " (" +
                   comparison.numbers_of(*key) + "); " + fix_of(comparison, *key)
             : "";
}

std::string failure_of(const DividedComparison& comparison) {
  const DividedOutcome& outcome = comparison.outcome();
  if (!outcome.failed_rank) {
    return "ranks make different calls if " + comparison.division() + ": " + outcome.failure;
  }
  const uint32_t rank = *outcome.failed_rank;
  return "fails if " + comparison.division() + ": " + outcome.failure +
         (comparison.has_pieces() ? formatted("; rank {} fails, and runs", rank) + kFixOfPieces
                                  : formatted("; rank {} has ", rank) + sizes_on(comparison, rank) +
                                        whole_sizes(comparison));
}

}  // namespace tenon
