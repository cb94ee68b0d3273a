// SPDX-License-Identifier: Apache-2.0
//
// Compares blocks flagged TENON_BLOCK_CONTEXT on whole sequences with the same blocks on two ranks
// that divide the positions, as in a run with `parallel.context`.
// Letters in comments: T positions.
#include <tenon/draft/context.h>
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/kernels/sequence_parts.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/positions_axis.hpp"
#include "host/model/sequence_group.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tensor/batch.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/block_gradients.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/default_dtype.hpp"
#include "host/tools/check/each_model.hpp"
#include "host/tools/check/rank_result.hpp"
#include "host/tools/check/ranks_in_turn.hpp"
#include "host/tools/check/tensor_views.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr uint32_t kRanks = 2;

// How ranks divide the positions.
struct Division {
  ContextBy by = ContextBy::kHeads;
  std::vector<int64_t> lengths;  // by rank

  std::string text() const {
    return formatted("two ranks have {} and {} positions, with \"context_by\": \"{}\"",
                     lengths[0],
                     lengths[1],
                     by == ContextBy::kHeads ? "ulysses" : "gather");
  }
};

// Parts of unequal length; the last ones are empty.
std::vector<Division> divisions_of(int64_t length) {
  const int64_t rest = std::max<int64_t>(1, length / 3);
  return {{ContextBy::kHeads, {length - rest, rest}},
          {ContextBy::kKeys, {length - rest, rest}},
          {ContextBy::kHeads, {length, 0}},
          {ContextBy::kKeys, {length, 0}}};
}

// Joins parts along an axis. Returns nothing if their other sizes differ.
std::optional<at::Tensor> joined_parts(const at::Tensor& first,
                                       const at::Tensor& second,
                                       int64_t axis) {
  const auto others = [axis](const at::Tensor& part) {
    std::vector<int64_t> sizes = part.sizes().vec();
    sizes.erase(sizes.begin() + axis);
    return sizes;
  };
  return others(first) == others(second) ? std::optional(at::cat({first, second}, axis))
                                         : std::nullopt;
}

// One block, and its results for whole sequences. Both trials are of the same model, with the same
// parameters; the second is the second rank.
class DividedBlock {
 public:
  DividedBlock(Subject& subject, ModelTrial& trial, ModelTrial& second, uint32_t b)
      : trials_{&trial, &second},
        b_(b),
        graph_(trial.graph()),
        block_(graph_.blocks[b]),
        inputs_(trial.inputs_of(b)),
        is_train_(!depends_on_step(trial, b)) {
    if (has_gradients()) {
      weights_ = random_weights(subject, trial, b, trial.forward(b, inputs_, call(nullptr)));
    }
    whole_ = result_of(trial, inputs_, weights_, nullptr);
  }

  // False for a block that draws random numbers: it runs as in an evaluation, without gradients.
  bool is_train() const { return is_train_; }

  // Positions of all ranks; nothing if the inputs do not agree on them.
  std::optional<int64_t> length() const;
  // Returns what differs if ranks divide the positions, or "".
  // Errors  those of the block
  std::string difference(const Division& division) const;

 private:
  int64_t axis_of(uint32_t v) const { return *axis_of_positions(graph_.values[v]); }
  bool has_gradients() const { return is_train_ && trials_[0]->has_gradients(b_); }
  BlockCall call(const DividedSequences* divided) const {
    return {.samples = trials_[0]->num_samples(), .is_train = is_train_, .divided = divided};
  }
  RankResult result_of(ModelTrial& trial,
                       const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& weights,
                       const DividedSequences* divided) const;
  RankResult result_of_part(ModelTrial& trial, const DividedSequences& divided) const;

  bool is_equal(const at::Tensor& found, const at::Tensor& expected) const {
    return is_close(found, expected, result_tolerance(found.scalar_type()));
  }
  bool is_joined(const at::Tensor& first,
                 const at::Tensor& second,
                 const at::Tensor& whole,
                 uint32_t v) const;
  std::string output_difference(const RankResult& first, const RankResult& second) const;
  std::string aux_difference(const RankResult& first, const RankResult& second) const;
  std::string input_difference(const RankResult& first, const RankResult& second) const;
  std::string parameter_difference(const RankResult& first, const RankResult& second) const;
  std::string buffer_difference(const RankResult& first, const RankResult& second) const;

  const std::array<ModelTrial*, kRanks> trials_;
  const uint32_t b_;
  const ModelGraph& graph_;
  const ModelBlock& block_;
  const std::vector<at::Tensor> inputs_;
  const bool is_train_;
  std::vector<at::Tensor> weights_;  // gradients of the outputs
  RankResult whole_;
};

std::optional<int64_t> DividedBlock::length() const {
  std::optional<int64_t> length;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].defined()) {
      const int64_t size = inputs_[i].size(axis_of(block_.inputs[i]));
      if (length.value_or(size) != size) {
        return std::nullopt;
      }
      length = size;
    }
  }
  return length;
}

RankResult DividedBlock::result_of(ModelTrial& trial,
                                   const std::vector<at::Tensor>& inputs,
                                   const std::vector<at::Tensor>& weights,
                                   const DividedSequences* divided) const {
  return run_block(trial,
                   b_,
                   inputs,
                   weights,
                   call(divided),
                   has_gradients() ? BlockBackward::kAll : BlockBackward::kNone);
}

RankResult DividedBlock::result_of_part(ModelTrial& trial, const DividedSequences& divided) const {
  const SequenceParts& parts = divided.parts;
  const auto part_of = [&](const at::Tensor& whole, uint32_t v) {
    return whole.defined() ? divided.group->part(whole, axis_of(v), parts).contiguous() : whole;
  };
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const ModelValue& value = graph_.values[block_.inputs[i]];
    at::Tensor part = part_of(inputs_[i], block_.inputs[i]);
    if (!part.defined() && value.source_kind == TENON_SOURCE_BATCH &&
        value.source == kPositionsField) {
      // A part has the field even if the data do not.
      part = at::arange(parts.begin(), parts.begin() + parts.length(), at::kLong)
                 .expand({trial.num_samples(), parts.length()})
                 .contiguous();
    }
    inputs.push_back(std::move(part));
  }
  std::vector<at::Tensor> weights;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    weights.push_back(part_of(weights_[i], block_.outputs[i]));
  }
  return result_of(trial, inputs, weights, &divided);
}

std::string DividedBlock::difference(const Division& division) const {
  std::array<RankResult, kRanks> parts;
  const std::string disagreement = run_ranks_in_turn(kRanks, [&](Group& ranks) {
    SequenceGroup group(ranks, division.by);
    const DividedSequences divided{
        .group = &group,
        .parts = {.ranks = &group, .by = division.by, .lengths = division.lengths}};
    parts[ranks.rank()] = result_of_part(*trials_[ranks.rank()], divided);
  });
  if (!disagreement.empty()) {
    return "what the ranks exchange (" + disagreement + ")";
  }
  for (const auto compare : {&DividedBlock::output_difference,
                             &DividedBlock::aux_difference,
                             &DividedBlock::input_difference,
                             &DividedBlock::parameter_difference,
                             &DividedBlock::buffer_difference}) {
    if (std::string what = (this->*compare)(parts[0], parts[1]); !what.empty()) {
      return what;
    }
  }
  return "";
}

bool DividedBlock::is_joined(const at::Tensor& first,
                             const at::Tensor& second,
                             const at::Tensor& whole,
                             uint32_t v) const {
  if (!whole.defined()) {
    return true;  // an absent input
  }
  const std::optional<at::Tensor> found = joined_parts(first, second, axis_of(v));
  return found.has_value() && is_equal(*found, whole);
}

std::string DividedBlock::output_difference(const RankResult& first,
                                            const RankResult& second) const {
  for (std::size_t i = 0; i < whole_.outputs.size(); ++i) {
    const uint32_t v = block_.outputs[i];
    if (!is_joined(first.outputs[i], second.outputs[i], whole_.outputs[i], v)) {
      return "output \"" + graph_.values[v].name + "\"";
    }
  }
  return "";
}

std::string DividedBlock::aux_difference(const RankResult& first, const RankResult& second) const {
  const std::size_t count = whole_.aux.size();
  if (first.aux.size() != count || second.aux.size() != count) {
    return "the number of auxiliary losses";
  }
  for (std::size_t i = 0; i < count; ++i) {
    const AuxLoss& whole = whole_.aux[i];
    const AuxLoss& a = first.aux[i];
    const AuxLoss& b = second.aux[i];
    if (!is_equal(a.sum + b.sum, whole.sum) || !is_equal(a.count + b.count, whole.count)) {
      return "the auxiliary loss \"" + whole.name + "\", which is no sum over tokens,";
    }
  }
  return "";
}

std::string DividedBlock::input_difference(const RankResult& first,
                                           const RankResult& second) const {
  const std::vector<at::Tensor>& whole = whole_.gradients.inputs;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const uint32_t v = block_.inputs[i];
    if (!is_joined(first.gradients.inputs[i], second.gradients.inputs[i], whole[i], v)) {
      return "the gradient by \"" + graph_.values[v].name + "\"";
    }
  }
  return "";
}

std::string DividedBlock::parameter_difference(const RankResult& first,
                                               const RankResult& second) const {
  const std::vector<at::Tensor>& whole = whole_.gradients.parameters;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (!is_equal(first.gradients.parameters[i] + second.gradients.parameters[i], whole[i])) {
      return "the gradient by \"" + graph_.parameters[block_.parameters[i]].name +
             "\", added up over ranks,";
    }
  }
  return "";
}

// A state buffer has the same value on all ranks, unless the host sums it over a step.
std::string DividedBlock::buffer_difference(const RankResult& first,
                                            const RankResult& second) const {
  for (std::size_t i = 0; i < whole_.buffers.size(); ++i) {
    const at::Tensor& whole = whole_.buffers[i];
    const at::Tensor& before = trials_[0]->store().buffer(block_.buffers[i]);
    const bool is_same =
        trials_[0]->is_summed(block_.buffers[i])
            ? is_equal(first.buffers[i] + second.buffers[i] - before, whole)
            : is_equal(first.buffers[i], whole) && is_equal(second.buffers[i], whole);
    if (!is_same) {
      return "the next value of buffer \"" + graph_.buffers[block_.buffers[i]].name + "\"";
    }
  }
  return "";
}

// Returns the value of a block that has no axis T, or "".
std::string value_without_positions(const ModelGraph& graph, const ModelBlock& block) {
  for (const std::vector<uint32_t>& values : {block.inputs, block.outputs}) {
    for (const uint32_t v : values) {
      if (!axis_of_positions(graph.values[v]).has_value()) {
        return graph.values[v].name;
      }
    }
  }
  return "";
}

void compare_divisions(const DividedBlock& block, const std::string& name, Findings& findings) {
  if (!block.is_train()) {
    findings.add_remark(name +
                        " gives other results in the next step, so only evaluations of it were "
                        "compared on parts of the positions");
  }
  const std::optional<int64_t> length = block.length();
  if (!length.has_value() || *length < 2) {
    findings.add_remark(name + " got inputs that cannot be divided by positions");
    return;
  }
  for (const Division& division : divisions_of(*length)) {
    const std::string where = " if " + division.text();
    try {
      if (const std::string what = block.difference(division); !what.empty()) {
        findings.add_problem(name + " is flagged TENON_BLOCK_CONTEXT, but " + what + " differs" +
                             where);
        return;
      }
    } catch (const Error& error) {
      if (division.lengths.back() == 0 && dynamic_cast<const PluginError*>(&error) != nullptr) {
        findings.add_remark(name + " refuses a part without positions: " + error.message());
        return;
      }
      findings.add_problem(name + " is flagged TENON_BLOCK_CONTEXT, but fails" + where + ": " +
                           error.message());
      return;
    }
  }
}

}  // namespace

CheckResult check_model_context(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [&](ModelTrial& trial, Findings& findings) {
    const ModelGraph& graph = trial.graph();
    std::vector<uint32_t> flagged = trial.some_blocks();
    std::erase_if(flagged, [&](uint32_t b) { return !graph.blocks[b].has(TENON_BLOCK_CONTEXT); });
    if (flagged.empty()) {
      findings.add_remark(trial.name() + " has no block that is flagged TENON_BLOCK_CONTEXT");
      return;
    }
    // Calls of two ranks are within each other, so that each rank has an instance. The default
    // dtype, which each call sets, must not change in between.
    ModelTrial second(subject, trial.checked(), trial.dtype());
    second.take_over(trial);
    const DefaultDtype of_run(trial.dtype());
    for (const uint32_t b : flagged) {
      const std::string name = of_block(trial, b);
      if (can_run_on_part(graph, graph.blocks[b])) {
        compare_divisions(DividedBlock(subject, trial, second, b), name, findings);
        continue;
      }
      const std::string value = value_without_positions(graph, graph.blocks[b]);
      findings.add_problem(
          name + " is flagged TENON_BLOCK_CONTEXT, but " +
          (value.empty() ? "all its inputs are optional" : "\"" + value + "\" has no axis T") +
          ", so that it cannot run on a part of the positions");
    }
  });
}

}  // namespace tenon
