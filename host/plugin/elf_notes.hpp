// SPDX-License-Identifier: Apache-2.0
//
// The notes of an ELF file, read without mapping or running it. It is not a linker: of the file it
// looks at the headers and the notes, and trusts none of them.
// Invariant: whatever the file holds, reading it ends, in bounded memory, with notes or a reason.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct ElfNote {
  std::string owner;  // "tenon", "GNU"
  uint32_t type = 0;
  std::string content;  // the descriptor's bytes
};

enum class ElfReading {
  kOk,
  kNotElf,      // something else: a text, an archive, an empty file
  kForeign,     // an ELF file that this machine cannot load; `problem` says why
  kBroken,      // cut or corrupted; `problem` says where
  kUnreadable,  // the operating system refuses; `problem` has its reason
};

struct ElfNotes {
  ElfReading reading = ElfReading::kNotElf;
  std::string problem;
  std::vector<ElfNote> notes;  // those found, in a foreign or broken file too
};

// The notes in the segments and sections of `file`, each once.
//
// Threads  [any]
ElfNotes read_elf_notes(const std::string& file);

}  // namespace tenon
