// SPDX-License-Identifier: Apache-2.0
#include "host/model/program_text.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon {
namespace {

constexpr size_t kMostNames = 5;  // of values in one row

std::string names_of(std::span<const uint32_t> values, const ModelGraph& graph) {
  if (values.size() > kMostNames) {
    return formatted("{} ... {} ({} values)",
                     graph.values[values.front()].name,
                     graph.values[values.back()].name,
                     values.size());
  }
  std::string names;
  for (const uint32_t v : values) {
    names += (names.empty() ? "" : " ") + graph.values[v].name;
  }
  return names;
}

std::vector<std::string> flags_of(const Instruction& instruction) {
  constexpr std::array<std::pair<InstructionFlag, const char*>, 8> kWords = {{
      {kRecords, "records"},
      {kIsAgain, "again"},
      {kInTiles, "tiles"},
      {kKeepsAttention, "attention"},
      {kInChunk, "chunk"},
      {kLastPosition, "last position"},
      {kTape, "tape"},
      {kFromTapes, "also in tapes"},
  }};
  std::vector<std::string> words;
  if (instruction.op == Op::kKeep) {
    words.emplace_back(instruction.has(kInputsOnly) ? "inputs" : "graph");
  }
  for (const auto& [flag, word] : kWords) {
    if (instruction.has(flag)) {
      words.emplace_back(word);
    }
  }
  return words;
}

const char* words_of(When when) {
  constexpr std::array<const char*, 5> kWords = {
      "", "if asked", "in the last microbatch", "in the first chunk", "in the last chunk"};
  return kWords[static_cast<size_t>(when)];
}

std::string padded(std::string cell, size_t width) {
  cell.resize(std::max(cell.size(), width), ' ');
  return cell;
}

}  // namespace

ProgramRow row_of(const Program& program,
                  const Instruction& instruction,
                  const ProgramNames& names) {
  std::vector<std::string> details = flags_of(instruction);
  if (instruction.op == Op::kRecompute) {
    std::string blocks;
    for (const Instruction& again : program.again(instruction)) {
      blocks +=
          " " + names.graph.blocks[again.block].name + (again.has(kInTiles) ? " (tiles)" : "");
    }
    details.push_back("forward of" + (blocks.empty() ? " no block" : blocks));
  }
  if (instruction.stage != kNoIndex) {
    const bool receives = instruction.op == Op::kReceive || instruction.op == Op::kReceiveGradients;
    details.push_back(formatted("{} stage {}", receives ? "from" : "to", instruction.stage));
  }
  if (instruction.when != When::kAlways) {
    details.emplace_back(words_of(instruction.when));
  }
  if (const auto values = program.values(instruction); !values.empty()) {
    details.push_back(names_of(values, names.graph));
  }
  ProgramRow row{.op = name_of(instruction.op), .block = {}, .group = {}, .details = {}};
  row.block = instruction.block != kNoIndex ? names.graph.blocks[instruction.block].name : "";
  row.group = instruction.group != kNoIndex ? names.groups[instruction.group] : "";
  for (const std::string& detail : details) {
    row.details += (row.details.empty() ? "" : "; ") + detail;
  }
  return row;
}

const char* name_of(Section section) {
  constexpr std::array<const char*, kNumSections> kNames = {"forward", "losses", "backward", "end"};
  return kNames[static_cast<size_t>(section)];
}

std::string text_of(const Program& program,
                    const ProgramNames& names,
                    const CompleteRow& complete) {
  constexpr std::array kColumns = {&ProgramRow::op,
                                   &ProgramRow::block,
                                   &ProgramRow::held,
                                   &ProgramRow::group,
                                   &ProgramRow::sent,
                                   &ProgramRow::details};
  std::array<size_t, kColumns.size()> widths{};
  std::array<std::vector<ProgramRow>, kNumSections> sections;
  for (size_t s = 0; s < kNumSections; ++s) {
    for (const Instruction& instruction : program.section(static_cast<Section>(s))) {
      ProgramRow& row = sections[s].emplace_back(row_of(program, instruction, names));
      if (complete != nullptr) {
        complete(instruction, row);
      }
      for (size_t c = 0; c < kColumns.size(); ++c) {
        widths[c] = std::max(widths[c], (row.*kColumns[c]).size());
      }
    }
  }
  std::string text;
  for (size_t s = 0; s < kNumSections; ++s) {
    if (!sections[s].empty()) {
      text += std::string("-- ") + name_of(static_cast<Section>(s)) + "\n";
    }
    for (const ProgramRow& row : sections[s]) {
      std::string line;
      for (size_t c = 0; c < kColumns.size(); ++c) {
        line += widths[c] > 0 ? padded(row.*kColumns[c], widths[c]) + "  " : "";
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace tenon
