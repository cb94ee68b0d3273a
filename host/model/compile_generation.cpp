// SPDX-License-Identifier: Apache-2.0
#include "host/model/compile_generation.hpp"

#include <tenon/model.h>

#include "host/model/positions_axis.hpp"
#include "host/model/program_builder.hpp"

#include <algorithm>
#include <ranges>
#include <set>

namespace tenon {
std::vector<bool> needed_for(const ModelGraph& graph, uint32_t value) {
  std::vector<bool> needed(graph.blocks.size(), false);
  std::vector<uint32_t> open = {graph.values[value].maker};
  while (!open.empty()) {
    const uint32_t b = open.back();
    open.pop_back();
    if (b == kNoIndex || needed[b]) {
      continue;
    }
    needed[b] = true;
    for (const uint32_t v : graph.blocks[b].inputs) {
      const ModelValue& input = graph.values[v];
      open.push_back(input.maker);
      if (input.lookup.has_value() && input.lookup->ids != kNoIndex) {
        open.push_back(graph.values[input.lookup->ids].maker);
      }
    }
  }
  return needed;
}

namespace {

class GenerationCompiler {
 public:
  GenerationCompiler(const GraphFacts& graph,
                     std::span<const GroupFacts> groups,
                     const GenerationOptions& options)
      : facts_(graph),
        graph_(graph.graph()),
        groups_(groups),
        options_(options),
        needed_(needed_for(graph_, options.logits)),
        last_reader_(graph_.values.size(), kNoIndex),
        readers_(graph_.values.size()),
        builder_(graph, groups) {
    for (uint32_t b = 0; b < facts_.num_blocks(); ++b) {
      rank_ = graph_.blocks[b].is_elsewhere ? rank_ : owner_of(b);
      for (size_t i = 0; needed_[b] && i < graph_.blocks[b].inputs.size(); ++i) {
        const uint32_t v = graph_.blocks[b].inputs[i];
        readers_[v].insert(owner_of(b));
        last_reader_[v] = runs(b) ? b : last_reader_[v];
        if (const auto& lookup = graph_.values[v].lookup; lookup && lookup->ids != kNoIndex) {
          last_reader_[lookup->ids] = b;
        }
      }
    }
    readers_[options.logits].insert(graph_.stage_owners.begin(), graph_.stage_owners.end());
  }

  Program compile() {
    builder_.begin(Section::kForward);
    if (needs_rows()) {
      builder_.add({.op = Op::kLookup});
    }
    const bool moves = moves_groups(groups_, options_.has_many_ranks);
    const uint32_t tail = first_of_tail();
    for (uint32_t b = 0; b < facts_.num_blocks(); ++b) {
      if (!runs(b)) {
        receive_outputs(b);
        continue;
      }
      for (uint32_t g = 0; moves && g < groups_.size(); ++g) {
        if (needed_user(groups_[g].users) == b) {
          builder_.gather(g, b);
          builder_.add({.op = Op::kAwait, .block = b, .group = g});
        }
      }
      read_rows(b);
      builder_.forward(b, b >= tail ? kLastPosition : 0);
      send_outputs(b);
      drop_inputs(b);
      for (uint32_t g = 0; moves && g < groups_.size(); ++g) {
        if (needed_user(groups_[g].users | std::views::reverse) == b) {
          builder_.free(g, b);
        }
      }
    }
    return builder_.finish(PassKind::kGenerate, first_stage_of(rank_), false);
  }

 private:
  // Whether the block runs on this rank.
  bool runs(uint32_t b) const { return needed_[b] && !graph_.blocks[b].is_elsewhere; }
  uint32_t owner_of(uint32_t b) const { return graph_.stage_owners[graph_.blocks[b].stage]; }
  uint32_t first_stage_of(uint32_t rank) const {
    const auto first = std::ranges::find(graph_.stage_owners, rank);
    return static_cast<uint32_t>(first - graph_.stage_owners.begin());
  }

  void send_outputs(uint32_t b) {
    for (const uint32_t v : graph_.blocks[b].outputs) {
      for (const uint32_t reader : readers_[v]) {
        if (reader != rank_) {
          builder_.add({.op = Op::kSend, .block = b, .stage = first_stage_of(reader)}, {v});
        }
      }
      if (last_reader_[v] == kNoIndex && v != options_.logits) {
        builder_.drop(b, {&v, 1});
      }
    }
  }

  // Receives what this rank reads of a block that another rank runs.
  void receive_outputs(uint32_t b) {
    for (const uint32_t v : graph_.blocks[b].outputs) {
      if (needed_[b] && readers_[v].contains(rank_)) {
        builder_.add({.op = Op::kReceive, .block = b, .stage = first_stage_of(owner_of(b))}, {v});
        builder_.set({&v, 1});
      }
    }
  }

  bool needs_rows() const {
    for (uint32_t v = 0; v < graph_.values.size(); ++v) {
      if (graph_.values[v].lookup.has_value() && last_reader_[v] != kNoIndex) {
        return true;
      }
    }
    return false;
  }

  // Returns the first of `users` that runs; kNoIndex if none does.
  uint32_t needed_user(const auto& users) const {
    const auto found = std::ranges::find_if(users, [this](uint32_t b) { return runs(b); });
    return found != users.end() ? *found : kNoIndex;
  }

  // Returns the first of the blocks behind the last one that looks at other positions.
  uint32_t first_of_tail() const {
    const auto has_positions = [this](uint32_t v) {
      return graph_.values[v].is_optional || axis_of_positions(graph_.values[v]).has_value();
    };
    uint32_t tail = facts_.num_blocks();
    while (!options_.has_caches.empty() && tail > 0) {
      const ModelBlock& block = graph_.blocks[tail - 1];
      const bool can = block.has(TENON_BLOCK_TOKENWISE) && !options_.has_caches[tail - 1] &&
                       std::ranges::all_of(block.inputs, has_positions);
      if (needed_[tail - 1] && !can) {
        break;
      }
      --tail;
    }
    return tail;
  }

  // Sets the rows that no needed block has read.
  void read_rows(uint32_t b) {
    std::vector<uint32_t> rows;
    for (const uint32_t v : graph_.blocks[b].inputs) {
      if (graph_.values[v].lookup.has_value() && !builder_.is_set(v)) {
        rows.push_back(v);
        builder_.set({&v, 1});
      }
    }
    if (!rows.empty()) {
      builder_.add({.op = Op::kRows, .block = b}, rows);
    }
  }

  void drop_inputs(uint32_t b) {
    std::vector<uint32_t> read;
    for (const uint32_t v : graph_.blocks[b].inputs) {
      if (last_reader_[v] == b && v != options_.logits) {
        read.push_back(v);
      }
    }
    builder_.drop(b, read, kTape);
  }

  const GraphFacts& facts_;
  const ModelGraph& graph_;
  const std::span<const GroupFacts> groups_;
  const GenerationOptions& options_;
  const std::vector<bool> needed_;           // by block
  std::vector<uint32_t> last_reader_;        // by value: the last block that reads it here
  std::vector<std::set<uint32_t>> readers_;  // by value: pipeline ranks with blocks that read it
  uint32_t rank_ = 0;                        // along the pipeline
  ProgramBuilder builder_;
};

}  // namespace

Program compile_generation(const GraphFacts& graph,
                           std::span<const GroupFacts> groups,
                           const GenerationOptions& options) {
  return GenerationCompiler(graph, groups, options).compile();
}

}  // namespace tenon
