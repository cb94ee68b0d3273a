// SPDX-License-Identifier: Apache-2.0
//
// An independent check of compiled programs: writes down when each thing begins and ends to exist,
// and looks up each use in these lists. It derives gradients by following paths in the graph, and
// does not use GraphFacts or find_problem.
#pragma once

#include "host/model/compile_program.hpp"
#include "host/model/program_text.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/model/program_case.hpp"

namespace tenon {

// Blocks with a trainable parameter or table rows, and all that read their outputs.
inline std::set<uint32_t> blocks_with_gradient(const ModelGraph& graph) {
  std::set<uint32_t> found;
  std::vector<uint32_t> open;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const ModelBlock& block = graph.blocks[b];
    const bool trains =
        std::ranges::any_of(block.parameters, [&](uint32_t p) { return is_trainable(graph, p); });
    const bool has_rows = std::ranges::any_of(
        block.inputs, [&](uint32_t v) { return graph.values[v].lookup.has_value(); });
    if (trains || has_rows) {
      open.push_back(b);
    }
  }
  while (!open.empty()) {
    const uint32_t b = open.back();
    open.pop_back();
    if (found.insert(b).second) {
      for (const uint32_t v : graph.blocks[b].outputs) {
        open.insert(open.end(), graph.values[v].users.begin(), graph.values[v].users.end());
      }
    }
  }
  return found;
}

// When something exists: changes by time.
class Lifeline {
 public:
  void begin(size_t time) { changes_[time] = true; }
  void end(size_t time) { changes_[time] = false; }
  // Just before `time`.
  bool exists_at(size_t time) const {
    const auto next = changes_.lower_bound(time);
    return next != changes_.begin() && std::prev(next)->second;
  }
  bool exists_in_the_end() const { return !changes_.empty() && changes_.rbegin()->second; }

 private:
  std::map<size_t, bool> changes_;
};

class ProgramLives {
 public:
  ProgramLives(const Program& program, const ProgramCase& of)
      : program_(program), graph_(of.graph), of_(of), with_gradient_(blocks_with_gradient(graph_)) {
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].source_kind == TENON_SOURCE_BATCH) {
        values_[v].begin(0);
      }
    }
    add(Section::kForward, true, true);
    if (program.has_chunks()) {
      for (const int chunk : {0, 1, 2}) {
        add(Section::kLosses, chunk == 0, chunk == 2);
      }
    } else {
      add(Section::kLosses, true, true);
    }
    add(Section::kBackward, true, true);
    add(Section::kEnd, true, true);
  }

  // Returns what is wrong, or "".
  std::string problem() {
    check_uses();
    check_groups();
    if (program_.kind() == PassKind::kTrain) {
      check_gradients();
      check_end();
    }
    check_away();
    return problem_;
  }

 private:
  struct Step {
    size_t time;
    Instruction instruction;
    std::vector<uint32_t> values;
    bool is_recompute = false;  // a forward that kRecompute runs
  };

  void add(Section section, bool is_first, bool is_last) {
    for (const Instruction& instruction : program_.section(section)) {
      if ((instruction.when == When::kInFirstChunk && !is_first) ||
          (instruction.when == When::kInLastChunk && !is_last)) {
        continue;
      }
      const auto values = program_.values(instruction);
      live(steps_.emplace_back(Step{++time_, instruction, {values.begin(), values.end()}, false}));
      if (instruction.op == Op::kRecompute &&
          repeated_.insert(graph_.unit_of(instruction.block).first).second) {
        for (const Instruction& again : program_.again(instruction)) {
          live(steps_.emplace_back(Step{++time_, again, {}, true}));
        }
      }
    }
  }

  void live(const Step& step) {
    const Instruction& at = step.instruction;
    switch (at.op) {
      case Op::kForward:
        for (const uint32_t v : graph_.blocks[at.block].outputs) {
          values_[v].begin(step.time);
        }
        if (step.is_recompute && at.has(kInTiles)) {
          break;
        }
        for (const uint32_t v : graph_.blocks[at.block].inputs) {
          on_tapes_[{at.block, v}].begin(step.time);
        }
        tapes_[at.block].begin(step.time);
        break;
      case Op::kRows:
      case Op::kBringBack:
        for (const uint32_t v : step.values) {
          values_[v].begin(step.time);
        }
        break;
      case Op::kDrop:
      case Op::kMoveAway:
      case Op::kRowGradients:
        for (const uint32_t v : step.values) {
          values_[v].end(step.time);
          for (const uint32_t user : graph_.values[v].users) {
            if (at.op == Op::kMoveAway || at.has(kFromTapes)) {
              on_tapes_[{user, v}].end(step.time);
            }
          }
        }
        if (at.has(kTape)) {
          tapes_[at.block].end(step.time);
          for (const uint32_t v : graph_.blocks[at.block].inputs) {
            on_tapes_[{at.block, v}].end(step.time);
          }
        }
        break;
      case Op::kGather:
      case Op::kAwait:
        groups_[at.group].begin(step.time);
        break;
      case Op::kFree:
        groups_[at.group].end(step.time);
        break;
      default:
        break;
    }
  }

  void fail(const Step& step, const std::string& what) {
    if (problem_.empty()) {
      problem_ = std::string(name_of(step.instruction.op)) + " at " + std::to_string(step.time) +
                 ": " + what;
    }
  }

  // What forwards, backwards and losses read exists.
  void check_uses() {
    for (const Step& step : steps_) {
      const Instruction& at = step.instruction;
      if (at.op == Op::kForward || at.op == Op::kBackward) {
        for (const uint32_t v : graph_.blocks[at.block].inputs) {
          const bool is_value = values_[v].exists_at(step.time);
          const bool is_on_tape = on_tapes_[{at.block, v}].exists_at(step.time);
          const bool is_first = at.op == Op::kForward && !step.is_recompute;
          const bool from_tape = at.op == Op::kBackward && !at.has(kInTiles);
          const bool exists = is_first ? is_value : is_on_tape || (is_value && !from_tape);
          if (!exists) {
            fail(step, "input " + graph_.values[v].name + " is missing");
          }
        }
      }
      if (at.op == Op::kLoss && of_.options.kept.has_value()) {
        for (const uint32_t v : *of_.options.kept) {
          if (!values_[v].exists_at(step.time)) {
            fail(step, "kept value " + graph_.values[v].name + " is missing");
          }
        }
      }
      if (at.op == Op::kRows) {
        for (const uint32_t v : step.values) {
          const uint32_t ids = graph_.values[v].lookup->ids;
          if (ids != kNoIndex && !values_[ids].exists_at(step.time)) {
            fail(step, "ids of " + graph_.values[v].name + " are missing");
          }
        }
      }
    }
  }

  // Gathers and frees alternate; parameters are whole in the calls of blocks that read them.
  void check_groups() {
    std::vector<int> depth(of_.groups.size(), 0);
    for (const Step& step : steps_) {
      const Instruction& at = step.instruction;
      if (at.op == Op::kGather && ++depth[at.group] != 1) {
        fail(step, "gathered twice");
      }
      if (at.op == Op::kFree && --depth[at.group] != 0) {
        fail(step, "freed twice");
      }
      if (at.op != Op::kForward && at.op != Op::kBackward) {
        continue;
      }
      for (size_t g = 0; g < of_.groups.size(); ++g) {
        const bool reads =
            std::ranges::find(of_.groups[g].users, at.block) != of_.groups[g].users.end();
        if (reads && !of_.groups[g].keeps_parameters && !is_awaited(g, step.time)) {
          fail(step, "group " + std::to_string(g) + " is not whole");
        }
      }
    }
    if (std::ranges::any_of(depth, [](int d) { return d != 0; })) {
      problem_ = "a group is whole in the end";
    }
  }

  bool is_awaited(size_t g, size_t time) const {
    bool is_awaited = false;
    for (const Step& step : steps_) {
      if (step.time < time && step.instruction.group == g) {
        is_awaited =
            step.instruction.op == Op::kAwait ||
            (is_awaited && step.instruction.op != Op::kFree && step.instruction.op != Op::kGather);
      }
    }
    return is_awaited && groups_.at(static_cast<uint32_t>(g)).exists_at(time);
  }

  // Each block with a gradient runs backward once, from the last. A gradient is complete before the
  // backward of the block that made its value, and before its group is reduced.
  void check_gradients() {
    std::map<uint32_t, size_t> backwards;                // by block
    std::map<uint32_t, std::vector<uint32_t>> added_by;  // by value: blocks
    for (const Step& step : steps_) {
      const Instruction& at = step.instruction;
      if (at.op == Op::kBackward) {
        if (!backwards.empty() && at.block > backwards.begin()->first) {
          fail(step, "a later block ran backward before");
        }
        backwards.try_emplace(at.block, step.time);
        for (const uint32_t v : graph_.blocks[at.block].outputs) {
          std::set<uint32_t> wanted;
          std::ranges::copy_if(graph_.values[v].users,
                               std::inserter(wanted, wanted.end()),
                               [&](uint32_t b) { return with_gradient_.contains(b); });
          if (wanted != std::set<uint32_t>(added_by[v].begin(), added_by[v].end())) {
            fail(step, "the gradient of " + graph_.values[v].name + " is not complete");
          }
        }
      }
      if (at.op == Op::kAddGradients) {
        for (const uint32_t v : step.values) {
          added_by[v].push_back(at.block);
        }
      }
      if (at.op == Op::kReduce || at.op == Op::kUpdate) {
        ++num_reductions_[at.group];
        for (const uint32_t b : of_.groups[at.group].users) {
          if (with_gradient_.contains(b) && !backwards.contains(b)) {
            fail(step, "block " + graph_.blocks[b].name + " has not run backward");
          }
        }
      }
    }
    for (const uint32_t b : with_gradient_) {
      if (!backwards.contains(b)) {
        problem_ = "block " + graph_.blocks[b].name + " has no backward";
      }
    }
    for (const auto& [v, blocks] : added_by) {
      if (!std::ranges::is_sorted(blocks, std::greater())) {
        problem_ = "gradients of " + graph_.values[v].name + " are added in another order";
      }
    }
    check_reductions();
  }

  void check_reductions() {
    const bool moves =
        of_.options.has_many_ranks || std::ranges::any_of(of_.groups, [](const GroupFacts& group) {
          return !group.keeps_parameters || (!group.keeps_gradients && !group.frees_gradients);
        });
    for (uint32_t g = 0; g < of_.groups.size(); ++g) {
      const GroupFacts& group = of_.groups[g];
      const bool trains = group.is_trainable && (moves || group.frees_gradients);
      if (trains && num_reductions_[g] != 1) {
        problem_ = "group " + std::to_string(g) + " is reduced " +
                   std::to_string(num_reductions_[g]) + " times";
      }
    }
  }

  // All that blocks made is dropped.
  void check_end() {
    for (const auto& [v, line] : values_) {
      if (graph_.values[v].source_kind != TENON_SOURCE_BATCH && line.exists_in_the_end()) {
        problem_ = "value " + graph_.values[v].name + " is never dropped";
      }
    }
    for (const auto& [b, line] : tapes_) {
      if (line.exists_in_the_end()) {
        problem_ = "the tape of " + graph_.blocks[b].name + " is never dropped";
      }
    }
  }

  // What was moved away last comes back first.
  void check_away() {
    std::vector<const Step*> away;
    for (const Step& step : steps_) {
      if (step.instruction.op == Op::kMoveAway) {
        away.push_back(&step);
        for (const uint32_t v : step.values) {
          if (!values_[v].exists_at(step.time)) {
            fail(step, graph_.values[v].name + " does not exist");
          }
        }
      }
      if (step.instruction.op == Op::kBringBack) {
        if (away.empty() || away.back()->instruction.block != step.instruction.block ||
            away.back()->values != step.values) {
          fail(step, "it is not what was moved away last");
          return;
        }
        away.pop_back();
      }
    }
    if (!away.empty()) {
      problem_ = "something never comes back";
    }
  }

  const Program& program_;
  const ModelGraph& graph_;
  const ProgramCase& of_;
  const std::set<uint32_t> with_gradient_;
  size_t time_ = 0;
  std::deque<Step> steps_;
  std::set<uint32_t> repeated_;  // units, by their first block
  std::map<uint32_t, Lifeline> values_;
  std::map<uint32_t, Lifeline> tapes_;                          // by block
  std::map<std::pair<uint32_t, uint32_t>, Lifeline> on_tapes_;  // by block and input
  std::map<uint32_t, Lifeline> groups_;
  std::map<uint32_t, int> num_reductions_;
  std::string problem_;
};

}  // namespace tenon
