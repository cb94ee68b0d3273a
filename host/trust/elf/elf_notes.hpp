// SPDX-License-Identifier: Apache-2.0
//
// Reads the notes of an ELF file, without mapping or running the file. Reads only headers and
// notes, and trusts neither.
// Invariant: for any content, reading terminates in bounded memory, with notes or a reason.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct ElfNote {
  std::string owner;  // "tenon", "GNU"
  uint32_t type = 0;
  std::string content;  // bytes of the descriptor
};

enum class ElfReading {
  kOk,
  kNotElf,      // another file type: a text, an archive, an empty file
  kForeign,     // an ELF file that this machine cannot load; `problem` has the reason
  kBroken,      // truncated or corrupt; `problem` has the position
  kUnreadable,  // the operating system cannot read it; `problem` has the reason
};

struct ElfNotes {
  ElfReading reading = ElfReading::kNotElf;
  std::string problem;
  std::vector<ElfNote> notes;  // also those of a foreign or broken file
};

// Returns the notes in the segments and sections of `file`, without duplicates.
//
// Threads  [any]
ElfNotes read_elf_notes(const std::string& file);

}  // namespace tenon
