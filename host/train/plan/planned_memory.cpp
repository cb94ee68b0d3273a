// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/planned_memory.hpp"

#include "host/model/program_visitor.hpp"
#include "host/train/plan/planned_activations.hpp"
#include "host/train/plan/planned_tensors.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Kind = PlannedTensors::Kind;

class PlannedMemory final : public ProgramVisitor {
 public:
  PlannedMemory(const PlannedPass& pass, const MemoryObserver& observer)
      : pass_(pass),
        graph_(pass.subject.graph),
        observer_(observer),
        sizes_(pass.subject, pass.choice, pass.facts, pass.has_chunks()),
        memory_(pass.subject.block_bytes),
        groups_(pass.groups.size()),
        groups_of_(graph_.blocks.size()) {
    for (uint32_t g = 0; g < groups_.size(); ++g) {
      for (const uint32_t b : pass.groups[g].facts.users) {
        groups_of_[b].push_back(g);
      }
    }
  }

  // In the second microbatch of a step, reductions of the first one are pending.
  PlannedPeak peak() {
    const StepSchedule schedule = pass_.schedule();
    const uint32_t num_microbatches = pass_.num_microbatches(2);
    std::vector<std::unique_ptr<Microbatch>> states(num_microbatches);
    std::vector<std::unique_ptr<Microbatch>> unused;
    for (const StageAction& action : schedule.actions(num_microbatches)) {
      std::unique_ptr<Microbatch>& state = states[action.microbatch];
      if (state == nullptr) {
        if (unused.empty()) {
          unused.push_back(std::make_unique<Microbatch>(graph_));
        }
        state = std::move(unused.back());
        unused.pop_back();
      }
      now_ = state.get();
      run(action, action.microbatch + 1 == num_microbatches);
      if (action.kind != StageActionKind::kForward && action.stage == schedule.first_stage()) {
        clear();
        unused.push_back(std::move(state));
      }
    }
    PlannedPeak peak = most_;
    peak.moment = moment();
    return peak;
  }

  void visit(const Instruction& instruction) override {
    listed_ = instruction.has(kIsAgain) ? listed_ : &instruction;
    act(instruction);
    note(instruction);
    if (observer_ != nullptr) {
      observer_(*listed_, memory_.sum());
    }
  }

 private:
  struct Tape {
    std::vector<PlannedTensor> inputs;
    std::vector<PlannedTensor> outputs;  // of the autograd graph
    PlannedTensor saved = 0;             // by the graph
    PlannedTensor attention = 0;         // results that a recompute takes
  };
  struct Group {
    uint32_t users = 0;  // microbatches that keep it whole
    PlannedTensor whole = 0;
    PlannedTensor sent = 0;  // copy of the slice in the dtype that blocks see
    PlannedTensor whole_grad = 0;
  };
  // What left memory after a unit.
  struct Moved {
    uint32_t last = 0;                                         // block of the unit
    std::vector<std::pair<uint32_t, int64_t>> values = {};     // with bytes
    std::vector<std::pair<uint32_t, int64_t>> attention = {};  // by block
    int64_t bytes = 0;
  };
  // What exists of a microbatch between the start of its forward and the end of its backward.
  struct Microbatch {
    explicit Microbatch(const ModelGraph& graph)
        : values(graph.values.size(), 0),
          grads(graph.values.size(), 0),
          chunked_grads(graph.values.size(), 0),
          tapes(graph.blocks.size()) {
      for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
        tapes[b].inputs.resize(graph.blocks[b].inputs.size(), 0);
        tapes[b].outputs.resize(graph.blocks[b].outputs.size(), 0);
      }
    }
    std::vector<PlannedTensor> values;
    std::vector<PlannedTensor> grads;          // by value
    std::vector<PlannedTensor> chunked_grads;  // by value: assembled from chunks
    std::vector<Tape> tapes;                   // by block
    std::vector<Moved> moved = {};
    PlannedTensor read_ahead = 0;
  };

  // ---- the pass ----

  void run(const StageAction& action, bool is_last_microbatch) {
    program_ = pass_.programs[action.stage];
    if (action.kind == StageActionKind::kForward) {
      run(Section::kForward, {.is_last_microbatch = is_last_microbatch});
      return;
    }
    // All chunks between the first and the last are as the last.
    const bool has_many = program_->has_chunks() && sizes_.chunk_share() < 1;
    run(Section::kLosses, {.is_last_microbatch = is_last_microbatch, .is_last_chunk = !has_many});
    if (has_many) {
      run(Section::kLosses, {.is_last_microbatch = is_last_microbatch, .is_first_chunk = false});
    }
    run(Section::kBackward, {.is_last_microbatch = is_last_microbatch});
    run(Section::kEnd, {.is_last_microbatch = is_last_microbatch});
  }
  void run(Section section, const PassConditions& conditions) {
    section_now_ = section;
    interpret(*program_, section, conditions, *this);
  }

  void act(const Instruction& instruction) {
    const std::span<const uint32_t> values = program_->values(instruction);
    switch (instruction.op) {
      case Op::kGather:
        return gather(instruction.group);
      case Op::kAwait:
        return memory_.release(groups_[instruction.group].sent);
      case Op::kFree:
        return free(groups_[instruction.group]);
      case Op::kReduce:
        return reduce(instruction);
      case Op::kUpdate:
        return memory_.release(groups_[instruction.group].whole_grad);
      case Op::kRows:
        for (const uint32_t v : values) {
          now_->values[v] = make(sizes_.value_bytes(v));
        }
        break;
      case Op::kRowGradients:
        for (const uint32_t v : values) {
          memory_.release(now_->values[v]);
          memory_.release(now_->grads[v]);
        }
        break;
      case Op::kForward:
        return forward(instruction);
      case Op::kKeep:
        if (instruction.has(kInputsOnly)) {
          release(now_->tapes[instruction.block].outputs);
          memory_.release(now_->tapes[instruction.block].saved);
        }
        break;
      case Op::kBackward:
        return backward(instruction);
      case Op::kAddGradients:
        return add_gradients(instruction, values);
      case Op::kPutPieces:
        return put_pieces(values);
      case Op::kDrop:
        return drop(instruction, values);
      case Op::kMoveAway:
        return move_away(instruction.block, values);
      case Op::kBringBack:
        return bring_back();
      case Op::kLoss:
        return compute_losses(instruction);
      case Op::kLossBackward:
        return loss_backward(instruction);
      default:
        return exchange(instruction, values);
    }
  }

  void exchange(const Instruction& instruction, std::span<const uint32_t> values) {
    switch (instruction.op) {
      case Op::kReceive:
        for (const uint32_t v : values) {
          replace(now_->values[v], make(sizes_.value_bytes(v)));
        }
        break;
      case Op::kReceiveGradients:
        for (const uint32_t v : values) {
          replace(now_->grads[v], make(sizes_.value_bytes(v)));
        }
        break;
      case Op::kSend:
        return send(values, now_->values, false);
      case Op::kSendGradients:
        return send(values, now_->grads, true);
      default:  // nothing that takes memory
        break;
    }
  }

  // ---- the fullest moment ----

  void note(const Instruction& instruction, int64_t more = 0) {
    const int64_t sum = memory_.sum() + more;
    if (sum <= most_.gathered + most_.activations + most_.rounding) {
      return;
    }
    most_.gathered = memory_.bytes(Kind::kGathered);
    most_.activations = memory_.bytes(Kind::kActivations) + more;
    most_.rounding = memory_.rounding();
    at_most_ = instruction;
    section_at_most_ = section_now_;
  }

  std::string moment() const {
    if (at_most_.op == Op::kLoss || at_most_.op == Op::kLossBackward) {
      return "loss";
    }
    if (at_most_.stage != kNoIndex) {
      return "exchange with another stage";
    }
    if (at_most_.block == kNoIndex) {
      return "";
    }
    return std::string(section_at_most_ == Section::kBackward || at_most_.op == Op::kBackward
                           ? "backward"
                           : "forward") +
           " of block '" + graph_.blocks[at_most_.block].name + "'";
  }

  // ---- tensors ----

  PlannedTensor make(int64_t bytes) { return memory_.make(Kind::kActivations, bytes); }
  PlannedTensor make_several(int64_t bytes) {
    return memory_.make_several(Kind::kActivations, bytes);
  }
  void replace(PlannedTensor& held, PlannedTensor tensor) {
    memory_.release(held);
    held = tensor;
  }
  void release(std::vector<PlannedTensor>& tensors) {
    for (PlannedTensor& tensor : tensors) {
      memory_.release(tensor);
    }
  }
  void clear(Tape& tape) {
    release(tape.inputs);
    release(tape.outputs);
    memory_.release(tape.saved);
    memory_.release(tape.attention);
  }
  // Removes a value from the tapes of its readers.
  void forget_on_tapes(uint32_t v) {
    for (const uint32_t user : graph_.values[v].users) {
      for (size_t i = 0; i < now_->tapes[user].inputs.size(); ++i) {
        if (graph_.blocks[user].inputs[i] == v) {
          memory_.release(now_->tapes[user].inputs[i]);
        }
      }
    }
  }
  void clear() {
    release(now_->values);
    release(now_->grads);
    for (Tape& tape : now_->tapes) {
      clear(tape);
    }
    memory_.release(now_->read_ahead);
    now_->moved.clear();
  }

  // ---- parameters ----

  void gather(uint32_t g) {
    if (groups_[g].users++ > 0) {
      return;
    }
    groups_[g].whole = memory_.make(Kind::kGathered, pass_.groups[g].whole_seen);
    groups_[g].sent = memory_.make(Kind::kGathered, pass_.groups[g].gather_copy);
  }

  void free(Group& group) {
    if (--group.users == 0) {
      memory_.release(group.whole);
    }
  }

  // A reduction holds the unsharded gradients and the slice of their sum, unless they are kept; the
  // copy in the wire dtype, if it differs; and on CPUs what other ranks send.
  void reduce(const Instruction& instruction) {
    const PlannedGroup& group = pass_.groups[instruction.group];
    if (group.is_bucketed) {
      if (group.completes.has_value()) {  // the copy is used to the end of the step
        memory_.make(Kind::kGathered, group.completes->copy);
      }
      return;
    }
    if (group.facts.keeps_gradients && group.facts.num_slices == 1) {
      return;
    }
    release(reduction_);
    reduction_.clear();
    if (!group.facts.keeps_gradients) {
      reduction_.push_back(std::exchange(groups_[instruction.group].whole_grad, 0));
      reduction_.push_back(memory_.make(Kind::kGathered, group.slice_grad()));
    }
    const bool is_narrowed = group.wire_grad != group.whole_grad;
    reduction_.push_back(memory_.make(Kind::kGathered, is_narrowed ? group.wire_grad : 0));
    const int64_t received = group.wire_grad - group.wire_grad / group.facts.num_slices;
    reduction_.push_back(memory_.make(Kind::kGathered, pass_.subject.has_host ? 0 : received));
  }

  // ---- messages ----

  // A tensor that is sent exists until it has arrived.
  void send(std::span<const uint32_t> values, std::vector<PlannedTensor>& from, bool drops) {
    release(sent_);
    sent_.clear();
    for (const uint32_t v : values) {
      sent_.push_back(drops ? std::exchange(from[v], 0) : memory_.hold(from[v]));
    }
  }

  // ---- forward ----

  void forward(const Instruction& instruction) {
    const uint32_t b = instruction.block;
    const ModelBlock& block = graph_.blocks[b];
    Tape& tape = now_->tapes[b];
    const bool is_again = instruction.has(kIsAgain);
    for (size_t i = 0; i < block.inputs.size(); ++i) {
      if (!is_again || tape.inputs[i] == 0) {
        replace(tape.inputs[i], memory_.hold(now_->values[block.inputs[i]]));
      }
    }
    const bool is_tiled = instruction.has(kInTiles);
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      PlannedTensor& value = now_->values[block.outputs[i]];
      const PlannedTensor output = make(sizes_.value_bytes(block.outputs[i]));
      if (is_tiled) {
        replace(value, output);
        continue;
      }
      replace(tape.outputs[i], output);
      if (!is_again || value == 0) {
        replace(value, memory_.hold(output));
      }
    }
    int64_t saved = sizes_.saved_bytes(instruction);
    if (instruction.has(kKeepsAttention)) {
      const int64_t attention = sizes_.attention_bytes(b);
      if (is_again) {
        saved = std::max<int64_t>(0, saved - attention);
      } else {
        replace(tape.attention, make_several(attention));
      }
    }
    if (!is_tiled) {
      replace(tape.saved, make_several(saved));
    }
  }

  void drop(const Instruction& instruction, std::span<const uint32_t> values) {
    end_backward();
    for (const uint32_t v : values) {
      memory_.release(now_->values[v]);
      if (instruction.has(kFromTapes)) {
        forget_on_tapes(v);
      }
    }
    if (instruction.has(kTape)) {
      clear(now_->tapes[instruction.block]);
    }
  }

  void move_away(uint32_t b, std::span<const uint32_t> values) {
    Moved moved{.last = b};
    for (const uint32_t v : values) {
      moved.values.emplace_back(v, sizes_.value_bytes(v));
      moved.bytes += sizes_.value_bytes(v);
      memory_.release(now_->values[v]);
      forget_on_tapes(v);
    }
    for (uint32_t of_unit = pass_.facts.unit_of(b).first; of_unit <= b; ++of_unit) {
      if (now_->tapes[of_unit].attention != 0) {
        moved.attention.emplace_back(of_unit, sizes_.attention_bytes(of_unit));
        moved.bytes += sizes_.attention_bytes(of_unit);
        memory_.release(now_->tapes[of_unit].attention);
      }
    }
    now_->moved.push_back(std::move(moved));
  }

  // The unit before is read ahead.
  void bring_back() {
    const Moved moved = std::move(now_->moved.back());
    now_->moved.pop_back();
    memory_.release(now_->read_ahead);
    for (const auto& [v, bytes] : moved.values) {
      now_->values[v] = make(bytes);
    }
    for (const auto& [b, bytes] : moved.attention) {
      now_->tapes[b].attention = make_several(bytes);
    }
    now_->read_ahead = make_several(now_->moved.empty() ? 0 : now_->moved.back().bytes);
  }

  // ---- losses ----

  // Autograd keeps roughly what a loss reads.
  void compute_losses(const Instruction& instruction) {
    for (const PlannedLoss& loss : pass_.subject.losses) {
      int64_t saved = 0;
      for (const uint32_t v : loss.values) {
        saved += loss.is_hand_written ? 0 : sizes_.value_bytes(v);
      }
      saved_by_losses_.push_back(make_several(saved));
      note(instruction, working_bytes(loss));
    }
  }

  void loss_backward(const Instruction& instruction) {
    const std::vector<PlannedLoss>& losses = pass_.subject.losses;
    for (size_t l = losses.size(); l-- > 0;) {
      std::vector<std::pair<uint32_t, PlannedTensor>> results;
      for (const uint32_t v : losses[l].values) {
        if (pass_.facts.has_gradient(v)) {
          results.emplace_back(v, make(sizes_.value_bytes(v)));
        }
      }
      note(instruction, working_bytes(losses[l]));
      for (const auto& [v, gradient] : results) {
        add_gradient(instruction, v, gradient);
      }
      memory_.release(saved_by_losses_[l]);
    }
    saved_by_losses_.clear();
  }

  int64_t working_bytes(const PlannedLoss& loss) const {
    return static_cast<int64_t>(sizes_.chunk_share() * static_cast<double>(loss.working_bytes));
  }

  // ---- backward ----

  // A sum is a new tensor, since gradients from autograd may share memory.
  void add_gradient(const Instruction& instruction, uint32_t v, PlannedTensor gradient) {
    if (now_->grads[v] == 0) {
      now_->grads[v] = gradient;
      return;
    }
    PlannedTensor sum = make(sizes_.value_bytes(v));
    note(instruction);
    memory_.release(gradient);
    replace(now_->grads[v], sum);
  }

  void backward(const Instruction& instruction) {
    const uint32_t b = instruction.block;
    const ModelBlock& block = graph_.blocks[b];
    Tape& tape = now_->tapes[b];
    for (const uint32_t v : block.outputs) {
      output_grads_.push_back(std::exchange(now_->grads[v], 0));
    }
    note(instruction, sizes_.working_bytes(instruction));
    // Saved tensors are freed meanwhile. Results are added to the gradients of parameters while
    // they exist, and the outputs exist until the call ends.
    memory_.release(tape.saved);
    memory_.release(tape.attention);
    for (const uint32_t v : block.inputs) {
      returned_.emplace_back(v, make(sizes_.input_gradient_bytes(instruction, v)));
    }
    for (const uint32_t g : groups_of_[b]) {
      if (!pass_.groups[g].facts.keeps_gradients && groups_[g].whole_grad == 0) {
        groups_[g].whole_grad = memory_.make(Kind::kGathered, pass_.groups[g].whole_grad);
      }
    }
    // Tiles add theirs one after the other, within the working bytes.
    note(instruction,
         instruction.has(kInTiles) ? 0 : sizes_.parameter_gradient_bytes(instruction.block));
    release(tape.outputs);
  }

  PlannedTensor take_returned(uint32_t v) {
    const auto found = std::ranges::find_if(
        returned_, [v](const auto& one) { return one.first == v && one.second != 0; });
    return found != returned_.end() ? std::exchange(found->second, 0) : 0;
  }

  void add_gradients(const Instruction& instruction, std::span<const uint32_t> values) {
    for (const uint32_t v : values) {
      PlannedTensor gradient = std::exchange(now_->chunked_grads[v], 0);
      gradient = gradient != 0 ? gradient : take_returned(v);
      if (gradient != 0) {
        add_gradient(instruction, v, gradient);
      }
    }
    end_backward();
  }

  void put_pieces(std::span<const uint32_t> values) {
    for (const uint32_t v : values) {
      if (now_->chunked_grads[v] == 0) {
        now_->chunked_grads[v] = make(sizes_.value_bytes(v));
      }
    }
    end_backward();
  }

  void end_backward() {
    release(output_grads_);
    output_grads_.clear();
    for (auto& [v, gradient] : returned_) {
      memory_.release(gradient);
    }
    returned_.clear();
  }

  const PlannedPass& pass_;
  const ModelGraph& graph_;
  const MemoryObserver& observer_;
  const PlannedActivations sizes_;
  PlannedTensors memory_;
  std::vector<Group> groups_;
  std::vector<std::vector<uint32_t>> groups_of_;  // by block: groups whose parameters it reads
  std::vector<PlannedTensor> reduction_;          // what the pending one holds
  std::vector<PlannedTensor> sent_;               // messages on their way
  Microbatch* now_ = nullptr;                     // the one that runs
  const Program* program_ = nullptr;              // of the stage that runs
  std::vector<PlannedTensor> saved_by_losses_;
  std::vector<PlannedTensor> output_grads_;                   // of the block whose backward runs
  std::vector<std::pair<uint32_t, PlannedTensor>> returned_;  // by its backward: values, gradients
  const Instruction* listed_ = nullptr;                       // not a forward of a recompute
  PlannedPeak most_;
  Instruction at_most_;
  Section section_now_ = Section::kForward;
  Section section_at_most_ = Section::kForward;
};

}  // namespace

PlannedPeak planned_peak(const PlannedPass& pass, const MemoryObserver& observer) {
  return PlannedMemory(pass, observer).peak();
}

}  // namespace tenon
