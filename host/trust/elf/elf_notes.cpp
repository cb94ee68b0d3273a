// SPDX-License-Identifier: Apache-2.0
//
// Source: System V Application Binary Interface (gABI 4.1), chapters 4 and 5; ELF-64 Object File
// Format, Version 1.5.

#include "host/trust/elf/elf_notes.hpp"

#include "host/text/formatted.hpp"
#include "host/trust/elf/elf_file.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <optional>
#include <utility>

namespace tenon {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#else
#error "say which e_machine this is"
#endif

// More than any linker writes, and small enough to read at every start.
constexpr uint64_t kMaxNoteBytes = 1 << 20;
constexpr std::size_t kMaxNotes = 1000;

std::string hex(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do {
    text.insert(text.begin(), kDigits[value & 15]);
  } while ((value >>= 4) != 0);
  return "0x" + text;
}

// Returns why this machine cannot load a file with this header, or "".
std::string foreignness(const Elf64_Ehdr& header) {
  if (!has_native_structs(header)) {
    return "it is not for 64-bit little-endian machines";
  }
  if (header.e_machine != kMachine) {
    return formatted(
        "it is for another processor (e_machine {}, this one is {})", header.e_machine, kMachine);
  }
  if (header.e_type != ET_DYN) {
    return formatted("it is not a shared library (e_type {})", header.e_type);
  }
  return {};
}

// Splits a note segment or section. Returns the error, or "".
std::string split_notes(const std::string& bytes, uint64_t alignment, std::vector<ElfNote>& notes) {
  const uint64_t align = alignment == 8 ? 8 : 4;
  const auto up = [&](uint64_t n) { return (n + align - 1) / align * align; };
  uint64_t at = 0;
  while (bytes.size() - at >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, bytes.data() + at, sizeof(header));
    // Sums of 32-bit sizes cannot overflow 64 bits.
    const uint64_t name_at = at + sizeof(header);
    const uint64_t content_at = up(name_at + header.n_namesz);
    const uint64_t end = content_at + header.n_descsz;
    if (name_at + header.n_namesz > bytes.size() || end > bytes.size()) {
      return "one of its notes extends beyond the end of the file";
    }
    std::string owner = bytes.substr(name_at, header.n_namesz);
    owner.resize(std::min(owner.find('\0'), owner.size()));
    notes.push_back({std::move(owner), header.n_type, bytes.substr(content_at, header.n_descsz)});
    at = std::min<uint64_t>(up(end), bytes.size());
  }
  return {};
}

class Reader {
 public:
  explicit Reader(const ElfFile& file) : file_(file) {}

  ElfNotes run() {
    const std::optional<std::string> magic = file_.read(0, SELFMAG);
    if (!magic || std::memcmp(magic->data(), ELFMAG, SELFMAG) != 0) {
      return {};
    }
    const auto header = file_.read_struct<Elf64_Ehdr>(0);
    if (!header) {
      return {ElfReading::kBroken, "it ends within its header", {}};
    }
    if (has_native_structs(*header)) {
      read_segments(*header);
      read_sections(*header);
    }
    if (std::string why = foreignness(*header); !why.empty()) {
      return {ElfReading::kForeign, std::move(why), std::move(notes_)};
    }
    const ElfReading reading = problem_.empty() ? ElfReading::kOk : ElfReading::kBroken;
    return {reading, std::move(problem_), std::move(notes_)};
  }

 private:
  // Keeps only the first problem: later problems mostly follow from it.
  void complain(std::string problem) {
    if (problem_.empty()) {
      problem_ = std::move(problem);
    }
  }

  void read_segments(const Elf64_Ehdr& header) {
    if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr)) {
      complain("its program headers are missing");
      return;
    }
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      const auto segment = file_.read_element<Elf64_Phdr>(header.e_phoff, i);
      if (!segment) {
        complain("it ends within its program headers");
        return;
      }
      if (segment->p_type == PT_LOAD && !file_.holds(segment->p_offset, segment->p_filesz)) {
        complain(
            formatted("it has {} bytes, and its segment {} is at {} with {}; the file is truncated",
                      file_.size(),
                      i,
                      hex(segment->p_offset),
                      segment->p_filesz));
      }
      if (segment->p_type == PT_NOTE) {
        read_notes(segment->p_offset, segment->p_filesz, segment->p_align);
      }
    }
  }

  // Sections are optional, because strip may remove their headers. They are needed for files whose
  // linker created no note segment.
  void read_sections(const Elf64_Ehdr& header) {
    if (header.e_shoff == 0 || header.e_shnum == 0 || header.e_shentsize != sizeof(Elf64_Shdr)) {
      return;
    }
    for (uint64_t i = 0; i < header.e_shnum; ++i) {
      const auto section = file_.read_element<Elf64_Shdr>(header.e_shoff, i);
      if (!section) {
        complain("it ends within its section headers; the file is truncated");
        return;
      }
      if (section->sh_type == SHT_NOTE) {
        read_notes(section->sh_offset, section->sh_size, section->sh_addralign);
      }
    }
  }

  void read_notes(uint64_t offset, uint64_t size, uint64_t alignment) {
    if (size == 0 || size > kMaxNoteBytes - num_bytes_) {
      if (size != 0) {
        complain(formatted("its notes claim to be larger than {} bytes", kMaxNoteBytes));
      }
      return;
    }
    const std::optional<std::string> bytes = file_.read(offset, size);
    if (!bytes) {
      complain("its notes lie beyond its end; the file is truncated");
      return;
    }
    num_bytes_ += size;
    std::vector<ElfNote> found;
    std::string why = split_notes(*bytes, alignment, found);
    if (alignment == 8) {
      // Some linkers place notes of alignment 4 after a note of alignment 8 in the same segment. An
      // alignment of 8 then misreads them, so both alignments are tried, and one must succeed.
      std::vector<ElfNote> close;
      if (split_notes(*bytes, 4, close).empty()) {
        why.clear();
      }
      found.insert(found.end(), close.begin(), close.end());
    }
    if (!why.empty()) {
      complain(std::move(why));
    }
    // A segment and its sections contain the same notes.
    for (ElfNote& note : found) {
      const bool is_known = std::ranges::any_of(notes_, [&](const ElfNote& other) {
        return other.type == note.type && other.owner == note.owner &&
               other.content == note.content;
      });
      if (!is_known && notes_.size() < kMaxNotes) {
        notes_.push_back(std::move(note));
      }
    }
  }

  const ElfFile& file_;
  std::string problem_;
  std::vector<ElfNote> notes_;
  uint64_t num_bytes_ = 0;
};

}  // namespace

ElfNotes read_elf_notes(const std::string& file) {
  const ElfFile opened(file);
  if (!opened.problem().empty()) {
    return {ElfReading::kUnreadable, opened.problem(), {}};
  }
  return Reader(opened).run();
}

}  // namespace tenon
