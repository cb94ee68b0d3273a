// SPDX-License-Identifier: Apache-2.0
//
// Programs as text for people: one instruction a line.
// Threads: any.
#pragma once

#include "host/model/program.hpp"

#include <functional>
#include <string>
#include <vector>

namespace tenon {

// Names that a program does not have.
struct ProgramNames {
  const ModelGraph& graph;
  std::vector<std::string> groups;  // by flat group
};

// An instruction in words. A cell without content is empty.
struct ProgramRow {
  std::string op;
  std::string block;
  std::string held = {};  // what the caller says of memory after the instruction
  std::string group;
  std::string sent = {};  // what the caller says of bytes sent
  std::string details;    // flags, condition and values
};

ProgramRow row_of(const Program& program,
                  const Instruction& instruction,
                  const ProgramNames& names);

// Returns the name of a section for people: "backward".
const char* name_of(Section section);

// Returns the program with one instruction a line, in aligned columns. A line "-- SECTION" precedes
// the instructions of a section; sections without instructions, and columns without content, are
// omitted. `complete` may fill the cells of a row that a program does not know.
using CompleteRow = std::function<void(const Instruction& instruction, ProgramRow& row)>;
std::string text_of(const Program& program,
                    const ProgramNames& names,
                    const CompleteRow& complete = {});

}  // namespace tenon
