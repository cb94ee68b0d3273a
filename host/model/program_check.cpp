// SPDX-License-Identifier: Apache-2.0
//
// The part of program.hpp that checks a program: runs it on sets of what exists.
#include <tenon/model.h>

#include "host/model/program.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

class ProgramCheck {
 public:
  ProgramCheck(const Program& program, const GraphFacts& facts, std::span<const GroupFacts> groups)
      : program_(program),
        facts_(facts),
        graph_(facts.graph()),
        groups_(groups),
        is_set_(graph_.values.size(), false),
        tapes_(graph_.blocks.size()),
        states_(groups.size()),
        has_arrived_(graph_.values.size(), false) {
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      is_set_[v] = graph_.values[v].source_kind == TENON_SOURCE_BATCH || is_inherited(v);
    }
  }

  std::string run() {
    run(Section::kForward, true, true);
    if (program_.has_chunks()) {
      run(Section::kLosses, true, false);
      run(Section::kLosses, false, true);
    } else {
      run(Section::kLosses, true, true);
    }
    run(Section::kBackward, true, true);
    run(Section::kEnd, true, true);
    at_ = "the end of the pass";
    for (size_t g = 0; g < groups_.size(); ++g) {
      require(!states_[g].is_gathered, formatted("group {} was not freed", g));
    }
    require(offloaded_.empty(), "values that were moved away did not come back");
    return problem_;
  }

 private:
  struct Tape {
    bool exists = false;
    bool has_graph = false;
    std::vector<bool> has_input;
  };
  struct GroupState {
    bool is_gathered = false;
    bool is_pending = false;  // gathered, not awaited
    bool is_settled = false;  // no earlier reduction reads the memory of its gradients
    bool is_reduced = false;
    std::vector<uint32_t> backwards;  // blocks whose gradients were added
  };

  void run(Section section, bool is_first_chunk, bool is_last_chunk) {
    for (const Instruction& instruction : program_.section(section)) {
      const bool runs = (instruction.when != When::kInFirstChunk || is_first_chunk) &&
                        (instruction.when != When::kInLastChunk || is_last_chunk);
      if (!runs || !problem_.empty()) {
        continue;
      }
      at_ = std::string("'") + name_of(instruction.op) + "'";
      at_ += instruction.block != kNoIndex
                 ? " of block '" + graph_.blocks[instruction.block].name + "'"
                 : "";
      if (instruction.group != kNoIndex) {
        step_of_group(instruction);
      } else {
        step(instruction);
      }
    }
  }

  void require(bool holds, const std::string& what) {
    if (!holds && problem_.empty()) {
      problem_ = at_ + ": " + what;
    }
  }

  void require_set(uint32_t v) {
    require(is_set_[v], "value '" + graph_.values[v].name + "' does not exist");
  }

  void require_parameters(uint32_t b) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (std::ranges::binary_search(groups_[g].users, b)) {
        const GroupState& state = states_[g];
        require(groups_[g].keeps_parameters || (state.is_gathered && !state.is_pending),
                formatted("the parameters of group {} are not whole", g));
      }
    }
  }

  void step_of_group(const Instruction& instruction) {
    const GroupFacts& group = groups_[instruction.group];
    GroupState& state = states_[instruction.group];
    switch (instruction.op) {
      case Op::kGather:
        require(!state.is_gathered && !group.keeps_parameters, "the group is whole already");
        state.is_gathered = state.is_pending = true;
        break;
      case Op::kAwait:
        state.is_pending = false;
        state.is_settled = state.is_settled || instruction.has(kSettlesGradients);
        break;
      case Op::kFree:
        require(state.is_gathered, "the group is not whole");
        require(!state.is_pending, "the gather of the group was not awaited");
        state.is_gathered = false;
        break;
      case Op::kReduce:
      case Op::kUpdate:
        require(!state.is_reduced, "the gradients are reduced twice");
        for (const uint32_t b : group.users) {
          require(!facts_.has_backward(b) ||
                      std::ranges::find(state.backwards, b) != state.backwards.end(),
                  "the gradients of block '" + graph_.blocks[b].name + "' are missing");
        }
        state.is_reduced = true;
        break;
      default:
        require(false, "the instruction has no group");
    }
  }

  void step(const Instruction& instruction) {
    const uint32_t b = instruction.block;
    const std::span<const uint32_t> values = program_.values(instruction);
    switch (instruction.op) {
      case Op::kRows:
        set_rows(values);
        break;
      case Op::kRowGradients:
        drop(values, false);
        break;
      case Op::kForward:
        forward(instruction, false);
        break;
      case Op::kKeep:
        require(tapes_[b].exists, "the block has no tape");
        tapes_[b].has_graph = tapes_[b].has_graph && !instruction.has(kInputsOnly);
        break;
      case Op::kRecompute:
        recompute(instruction);
        break;
      case Op::kBackward:
        backward(instruction);
        break;
      case Op::kAddGradients:
        require(instruction.when == When::kInLastChunk || std::exchange(returned_, kNoIndex) == b,
                "the backward of the block has returned no gradients");
        require_sums_of_later_stages(values);
        break;
      case Op::kDrop:
        drop(values, instruction.has(kFromTapes));
        if (instruction.has(kTape)) {
          require(tapes_[b].exists, "the block has no tape");
          tapes_[b] = {};
        }
        break;
      case Op::kMoveAway:
        drop(values, true);
        offloaded_.push_back({b, {values.begin(), values.end()}});
        break;
      case Op::kBringBack:
        bring_back(b, values);
        break;
      case Op::kReceive:
        receive(values);
        break;
      case Op::kSend:
      case Op::kReceiveGradients:
        exchange(instruction.op, values);
        break;
      default:  // nothing that a check can see
        break;
    }
  }

  void set_rows(std::span<const uint32_t> values) {
    for (const uint32_t v : values) {
      require(!is_set_[v], "the rows of '" + graph_.values[v].name + "' exist already");
      if (const uint32_t ids = graph_.values[v].lookup->ids; ids != kNoIndex) {
        require_set(ids);
      }
      is_set_[v] = true;
    }
  }

  void forward(const Instruction& instruction, bool is_recompute) {
    const uint32_t b = instruction.block;
    const ModelBlock& block = graph_.blocks[b];
    Tape& tape = tapes_[b];
    require_parameters(b);
    for (size_t i = 0; i < block.inputs.size(); ++i) {
      if (!is_recompute || !tape.exists || !tape.has_input[i]) {
        require_set(block.inputs[i]);
      }
    }
    if (instruction.has(kInTiles) && is_recompute) {  // reads the kept inputs, and adds none
      set(block.outputs);
      return;
    }
    require(!is_recompute || tape.exists, "the block has no tape");
    tape = {.exists = true,
            .has_graph = instruction.has(kRecords) || block.has(TENON_BLOCK_HAND_WRITTEN),
            .has_input = std::vector<bool>(block.inputs.size(), true)};
    set(block.outputs);
  }

  void set(std::span<const uint32_t> values) {
    for (const uint32_t v : values) {
      is_set_[v] = true;
    }
  }

  void recompute(const Instruction& instruction) {
    const uint32_t unit = facts_.unit_of(instruction.block).first;
    if (std::exchange(repeated_unit_, unit) == unit) {
      return;
    }
    for (const Instruction& again : program_.again(instruction)) {
      require(facts_.unit_of(again.block).first == unit && again.block <= instruction.block,
              "block '" + graph_.blocks[again.block].name + "' does not belong to the recompute");
      forward(again, true);
    }
  }

  void backward(const Instruction& instruction) {
    const uint32_t b = instruction.block;
    const Tape& tape = tapes_[b];
    require(facts_.has_backward(b), "the block has no backward");
    require_parameters(b);
    require(tape.exists, "the block has no tape");
    require_sums_of_later_stages(graph_.blocks[b].outputs);
    for (size_t i = 0; tape.exists && i < tape.has_input.size(); ++i) {
      const bool is_kept = tape.has_input[i];
      if (!is_kept && instruction.has(kInTiles)) {
        require_set(graph_.blocks[b].inputs[i]);
      }
      require(is_kept || instruction.has(kInTiles), "an input is not on the tape");
    }
    require(tape.has_graph || instruction.has(kInTiles), "the block has no autograd graph");
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (std::ranges::binary_search(groups_[g].users, b)) {
        const GroupFacts& group = groups_[g];
        const bool is_reduced_each_time =
            group.is_trainable && !group.keeps_gradients && !group.frees_gradients;
        require(!states_[g].is_reduced, "the gradients of its group are already reduced");
        require(!is_reduced_each_time || states_[g].is_settled,
                formatted("an earlier reduction may read the gradients of group {}", g));
        states_[g].backwards.push_back(b);
      }
    }
    returned_ = instruction.has(kInChunk) ? kNoIndex : b;
  }

  // ---- stages of a pipeline ----

  bool is_own(uint32_t stage) const {
    return graph_.stage_owners[stage] == graph_.stage_owners[program_.stage()];
  }

  // True if an earlier stage of the rank makes the value, or has received it.
  bool is_inherited(uint32_t v) const {
    const ModelValue& value = graph_.values[v];
    const auto is_earlier = [this](uint32_t b) {
      return graph_.blocks[b].stage < program_.stage() && is_own(graph_.blocks[b].stage);
    };
    return value.maker != kNoIndex &&
           (is_earlier(value.maker) || std::ranges::any_of(value.users, is_earlier));
  }

  void receive(std::span<const uint32_t> values) {
    for (const uint32_t v : values) {
      const ModelValue& value = graph_.values[v];
      require(!is_set_[v], "value '" + value.name + "' exists already");
      require(value.maker != kNoIndex && !is_own(graph_.blocks[value.maker].stage),
              "no stage of another rank makes value '" + value.name + "'");
      is_set_[v] = true;
    }
  }

  void exchange(Op op, std::span<const uint32_t> values) {
    for (const uint32_t v : values) {
      if (op == Op::kSend) {
        require_set(v);
      } else {
        has_arrived_[v] = true;
      }
    }
  }

  // The sum of the gradients of later readers comes before those of this stage.
  void require_sums_of_later_stages(std::span<const uint32_t> values) {
    for (const uint32_t v : values) {
      require_sum_of_later_stages(v);
    }
  }
  void require_sum_of_later_stages(uint32_t v) {
    uint32_t next = kNoIndex;
    for (const uint32_t user : graph_.values[v].users) {
      if (const uint32_t stage = graph_.blocks[user].stage; stage > program_.stage()) {
        next = std::min(next, stage);
      }
    }
    const bool is_expected = next < graph_.stage_owners.size() && !is_own(next);
    require(!is_expected || !facts_.has_gradient(v) || has_arrived_[v],
            formatted("the gradient of value '{}' from stage {} has not arrived",
                      graph_.values[v].name,
                      next));
  }

  void drop(std::span<const uint32_t> values, bool from_tapes) {
    for (const uint32_t v : values) {
      const bool was_on_tape = from_tapes && take_from_tapes(v);
      require(is_set_[v] || was_on_tape, "value '" + graph_.values[v].name + "' does not exist");
      is_set_[v] = false;
    }
  }

  // Returns whether a tape had the value.
  bool take_from_tapes(uint32_t v) {
    bool had = false;
    for (const uint32_t user : graph_.values[v].users) {
      for (size_t i = 0; i < tapes_[user].has_input.size(); ++i) {
        if (graph_.blocks[user].inputs[i] == v) {
          had = had || tapes_[user].has_input[i];
          tapes_[user].has_input[i] = false;
        }
      }
    }
    return had;
  }

  void bring_back(uint32_t b, std::span<const uint32_t> values) {
    const bool is_last = !offloaded_.empty() && offloaded_.back().first == b &&
                         std::ranges::equal(offloaded_.back().second, values);
    require(is_last, "it is not what was moved away last");
    if (is_last) {
      offloaded_.pop_back();
    }
    set(values);
  }

  const Program& program_;
  const GraphFacts& facts_;
  const ModelGraph& graph_;
  const std::span<const GroupFacts> groups_;
  std::vector<bool> is_set_;        // by value
  std::vector<Tape> tapes_;         // by block
  std::vector<GroupState> states_;  // by group
  std::vector<bool> has_arrived_;   // by value: its gradient from a later stage
  std::vector<std::pair<uint32_t, std::vector<uint32_t>>> offloaded_;
  uint32_t repeated_unit_ = kNoIndex;
  uint32_t returned_ = kNoIndex;  // block whose backward has returned gradients
  std::string at_;
  std::string problem_;
};

}  // namespace

std::string find_problem(const Program& program,
                         const GraphFacts& graph,
                         std::span<const GroupFacts> groups) {
  return ProgramCheck(program, graph, groups).run();
}

}  // namespace tenon
