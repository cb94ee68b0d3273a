// SPDX-License-Identifier: Apache-2.0
//
// Compares blocks flagged TENON_BLOCK_DIVISIBLE on one rank with the same blocks on ranks that
// divide their parameters, as in a run with `parallel.tensor`, with and without pieces of T.
// Letters in comments: t ranks, T positions.
// Source: docs/decisions/0089-collectives-in-blocks.md
#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include "host/model/position_levels.hpp"
#include "host/model/positions_axis.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/block_gradients.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/divided_mistake.hpp"
#include "host/tools/check/each_model.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tenon {
namespace {

constexpr int64_t kMostRanks = 8;

// Returns the units of all splits that a block declares.
std::vector<int64_t> units_of(const ModelGraph& graph, const ModelBlock& block) {
  std::vector<int64_t> units;
  const auto add = [&units](const std::optional<ModelSplit>& split) {
    if (split) {
      units.insert(units.end(), split->units.begin(), split->units.end());
    }
  };
  for (const uint32_t p : block.parameters) {
    add(graph.parameters[p].split);
  }
  for (const auto& values : {block.inputs, block.outputs}) {
    for (const uint32_t v : values) {
      add(graph.values[v].split);
    }
  }
  return units;
}

// Returns the fewest ranks that share all units evenly, the fewest of which some share a unit, and
// the most. With more ranks than units of each part, ranks would compute the same.
std::vector<uint32_t> numbers_of_ranks(const std::vector<int64_t>& units) {
  std::vector<uint32_t> numbers;
  if (units.empty()) {
    return numbers;
  }
  for (int64_t t = 2; t <= std::min(kMostRanks, std::ranges::max(units)); ++t) {
    if (std::ranges::all_of(units, [t](int64_t u) { return u % t == 0 || t % u == 0; })) {
      numbers.push_back(static_cast<uint32_t>(t));
    }
  }
  const auto shared =
      std::ranges::find_if(numbers, [&units](uint32_t t) { return t > std::ranges::min(units); });
  if (numbers.size() > 1) {
    const uint32_t last = numbers.back();
    const uint32_t middle = shared == numbers.end() ? last : *shared;
    numbers = {numbers.front(), middle, last};
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  }
  return numbers;
}

// Positions of each rank. Ranks hold different numbers of positions, or the last one none.
std::vector<std::vector<int64_t>> pieces_of(int64_t length, uint32_t num_ranks) {
  std::vector<std::vector<int64_t>> all;
  for (const int64_t with_some : {int64_t{num_ranks}, int64_t{num_ranks} - 1}) {
    std::vector<int64_t> pieces(num_ranks, 0);
    int64_t rest = length;
    for (int64_t r = 0; r < with_some; ++r) {
      const int64_t left = with_some - r;
      const int64_t more = left > 1 && rest >= 2 * left ? 1 : 0;  // than an even share
      const int64_t size = (rest + left - 1) / left + more;
      pieces[static_cast<std::size_t>(r)] = size;
      rest -= size;
    }
    all.push_back(std::move(pieces));
  }
  return all;
}

// A flagged block of a model, and the call of it that is compared.
class FlaggedBlock {
 public:
  FlaggedBlock(Subject& subject, ModelTrial& trial, uint32_t b, Findings& findings)
      : trial_(trial), b_(b), name_(of_block(trial, b)), findings_(findings) {
    call_ = {.block = b,
             .inputs = trial.inputs_of(b),
             .weights = {},
             .backward = BlockBackward::kNone,
             .is_train = !depends_on_step(trial, b)};
    if (!call_.is_train) {
      findings.add_remark(name_ +
                          " gives other results in the next step, so only evaluations of it were "
                          "compared on ranks that divide it");
    } else if (trial.has_gradients(b)) {
      call_.weights = random_weights(
          subject, trial, b, trial.forward(b, call_.inputs, {.samples = trial.num_samples()}));
      call_.backward = BlockBackward::kAll;
    }
  }

  // Compares the block on these ranks, until something differs. Returns false then.
  bool compare(DividedTrial& ranks) {
    if (!ranks.divides(b_)) {
      findings_.add_remark(
          formatted("{} has splits, but runs whole on {} ranks: another block "
                    "that runs whole uses the same parameter, or makes its input",
                    name_,
                    ranks.num_ranks()));
      return true;
    }
    if (!compare(ranks, {})) {
      return false;
    }
    const std::optional<int64_t> length = positions(ranks.graph());
    return !length ||
           std::ranges::all_of(pieces_of(*length, ranks.num_ranks()),
                               [&](const auto& pieces) { return compare(ranks, pieces); });
  }

 private:
  bool compare(DividedTrial& ranks, const std::vector<int64_t>& pieces) {
    DividedComparison comparison(trial_, ranks, call_, pieces);
    const bool failed = !comparison.outcome().failure.empty();
    if (failed && !pieces.empty() && pieces.back() == 0 && comparison.outcome().is_refused) {
      findings_.add_remark(name_ +
                           " refuses a part without positions: " + comparison.outcome().failure);
      return true;
    }
    const std::string problem = failed ? failure_of(comparison) : mistake_of(comparison);
    const std::string text = name_ + " is flagged TENON_BLOCK_DIVISIBLE, but " + problem;
    if (problem.empty()) {
      return true;
    }
    findings_.add_problem(text);
    return false;
  }

  // Returns T, if runs with sequence parallelism run the block on pieces of it.
  std::optional<int64_t> positions(const ModelGraph& divided) const {
    const std::vector<Extent> extents =
        block_extents(divided, {.has_parts = false, .has_pieces = true}, [this](uint32_t buffer) {
          return trial_.is_summed(buffer);
        });
    if (extents[b_] != Extent::kPiece) {
      return std::nullopt;
    }
    std::optional<int64_t> length;
    for (const auto& values : {divided.blocks[b_].inputs, divided.blocks[b_].outputs}) {
      for (const uint32_t v : values) {
        if (const at::Tensor& value = trial_.value(v); value.defined()) {
          length = value.size(*axis_of_positions(divided.values[v]));
        }
      }
    }
    return length;
  }

  ModelTrial& trial_;
  const uint32_t b_;
  const std::string name_;
  Findings& findings_;
  WholeCall call_;
};

}  // namespace

CheckResult check_model_tensor(Subject& subject) {
  return for_each_model(subject, Precision::kBest, [&](ModelTrial& trial, Findings& findings) {
    const ModelGraph& graph = trial.graph();
    std::map<uint32_t, std::vector<uint32_t>> blocks;  // by number of ranks
    bool has_any = false;
    for (const uint32_t b : trial.some_blocks()) {
      const ModelBlock& block = graph.blocks[b];
      const std::vector<int64_t> units = units_of(graph, block);
      if (!block.has(TENON_BLOCK_DIVISIBLE)) {
        continue;
      }
      has_any = true;
      const std::vector<uint32_t> numbers = numbers_of_ranks(units);
      if (numbers.empty()) {
        findings.add_remark(
            of_block(trial, b) +
            (units.empty() ? " is flagged TENON_BLOCK_DIVISIBLE, but declares no split"
                           : formatted(" was not divided: no number of ranks up to {} shares all "
                                       "its units evenly",
                                       kMostRanks)));
      }
      for (const uint32_t number : numbers) {
        blocks[number].push_back(b);
      }
    }
    if (!has_any) {
      findings.add_remark(trial.name() + " has no block that is flagged TENON_BLOCK_DIVISIBLE");
    }
    std::map<uint32_t, FlaggedBlock> flagged;
    std::vector<uint32_t> wrong;
    for (const auto& [num_ranks, of_number] : blocks) {
      DividedTrial ranks(subject, trial, num_ranks);
      for (const uint32_t b : of_number) {
        FlaggedBlock& block = flagged.try_emplace(b, subject, trial, b, findings).first->second;
        if (std::ranges::find(wrong, b) == wrong.end() && !block.compare(ranks)) {
          wrong.push_back(b);
        }
      }
    }
  });
}

}  // namespace tenon
