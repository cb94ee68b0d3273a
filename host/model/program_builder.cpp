// SPDX-License-Identifier: Apache-2.0
#include "host/model/program_builder.hpp"

#include <tenon/model.h>

#include <algorithm>
#include <utility>

namespace tenon {

ProgramBuilder::ProgramBuilder(const GraphFacts& graph, std::span<const GroupFacts> groups)
    : facts_(graph),
      groups_(groups),
      is_set_(graph.graph().values.size(), false),
      has_tape_(graph.num_blocks(), false),
      is_whole_(groups.size(), false) {
  const std::vector<ModelValue>& values = graph.graph().values;
  for (size_t v = 0; v < values.size(); ++v) {
    is_set_[v] = values[v].source_kind == TENON_SOURCE_BATCH && !values[v].users.empty();
  }
}

void ProgramBuilder::add(Instruction instruction, std::vector<uint32_t> values) {
  if (instruction.when == When::kAlways) {
    instruction.when = when_;
  }
  sections_[section_].push_back({instruction, std::move(values)});
}

void ProgramBuilder::gather(uint32_t g, uint32_t b) {
  if (!groups_[g].keeps_parameters && !is_whole_[g]) {
    is_whole_[g] = true;
    add({.op = Op::kGather, .block = b, .group = g});
  }
}

void ProgramBuilder::free(uint32_t g, uint32_t b) {
  if (is_whole_[g]) {
    is_whole_[g] = false;
    add({.op = Op::kFree, .block = b, .group = g});
  }
}

void ProgramBuilder::forward(uint32_t b, uint16_t flags) {
  add({.op = Op::kForward, .flags = flags, .block = b});
  has_tape_[b] = true;
  set(facts_.graph().blocks[b].outputs);
}

void ProgramBuilder::drop(uint32_t b, std::span<const uint32_t> values, uint16_t flags) {
  std::vector<uint32_t> existing;
  for (const uint32_t v : values) {
    const bool is_on_tape =
        (flags & kFromTapes) != 0 &&
        std::ranges::any_of(facts_.graph().values[v].users,
                            [this](uint32_t user) { return bool{has_tape_[user]}; });
    if (is_set_[v] || is_on_tape) {
      existing.push_back(v);
      is_set_[v] = false;
    }
  }
  const bool has_tape = (flags & kTape) != 0 && has_tape_[b];
  if (has_tape) {
    has_tape_[b] = false;
  } else {
    flags &= static_cast<uint16_t>(~kTape);
  }
  if (has_tape || !existing.empty()) {
    add({.op = Op::kDrop, .flags = flags, .block = b}, std::move(existing));
  }
}

void ProgramBuilder::set(std::span<const uint32_t> values) {
  for (const uint32_t v : values) {
    is_set_[v] = true;
  }
}

void ProgramBuilder::forget(std::span<const uint32_t> values) {
  for (const uint32_t v : values) {
    is_set_[v] = false;
  }
}

uint32_t ProgramBuilder::add_again(const Instruction& forward) {
  again_.push_back(forward);
  return static_cast<uint32_t>(again_.size());
}

Program ProgramBuilder::finish(PassKind kind, uint32_t stage, bool has_chunks) {
  return Program(kind, stage, has_chunks, sections_, std::move(again_));
}

bool has_rows(const GraphFacts& graph) {
  return std::ranges::any_of(graph.graph().values, [](const ModelValue& value) {
    return value.lookup.has_value() && !value.users.empty();
  });
}

}  // namespace tenon
