// SPDX-License-Identifier: Apache-2.0
#include "host/trust/elf/elf_notes.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

bool has_manifest(const ElfNotes& elf) {
  return std::ranges::any_of(elf.notes, [](const ElfNote& note) { return note.owner == "tenon"; });
}

template <class T>
T read_at(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void write_at(std::string& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

}  // namespace

TEST_CASE("the notes of a library are read", "[plugin]") {
  ZooFolder zoo;
  const ElfNotes elf = read_elf_notes(zoo.add("good_c"));
  REQUIRE(elf.reading == ElfReading::kOk);
  CHECK(elf.problem.empty());
  CHECK(std::ranges::count(elf.notes, "tenon", &ElfNote::owner) == 1);
  CHECK_FALSE(has_manifest(read_elf_notes(zoo.add("no_manifest"))));
}

TEST_CASE("a note is found by its section where there is no segment for it", "[plugin]") {
  ZooFolder zoo;
  std::string bytes = read_text(zoo.add("good_c"));
  const auto header = read_at<Elf64_Ehdr>(bytes, 0);
  int num_changed = 0;
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    auto segment = read_at<Elf64_Phdr>(bytes, at);
    if (segment.p_type == PT_NOTE) {
      segment.p_type = PT_NULL;
      write_at(bytes, at, segment);
      ++num_changed;
    }
  }
  REQUIRE(num_changed > 0);
  CHECK(has_manifest(read_elf_notes(zoo.write("sections.so", bytes))));
}

TEST_CASE("a note is found by its segment where sections were stripped away", "[plugin]") {
  ZooFolder zoo;
  std::string bytes = read_text(zoo.add("good_c"));
  auto header = read_at<Elf64_Ehdr>(bytes, 0);
  header.e_shoff = 0;
  header.e_shnum = 0;
  write_at(bytes, 0, header);
  const ElfNotes elf = read_elf_notes(zoo.write("segments.so", bytes));
  CHECK(elf.reading == ElfReading::kOk);
  CHECK(has_manifest(elf));
}

TEST_CASE("notes of two alignments in one segment are read", "[plugin]") {
  ZooFolder zoo;
  std::string bytes = read_text(zoo.add("good_c"));
  auto header = read_at<Elf64_Ehdr>(bytes, 0);
  header.e_shoff = 0;
  header.e_shnum = 0;
  write_at(bytes, 0, header);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const std::size_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    auto segment = read_at<Elf64_Phdr>(bytes, at);
    if (segment.p_type == PT_NOTE) {
      segment.p_align = 8;  // the notes in it stay where they are, 4 apart
      write_at(bytes, at, segment);
    }
  }
  const ElfNotes elf = read_elf_notes(zoo.write("merged.so", bytes));
  INFO(elf.problem);
  CHECK(elf.reading == ElfReading::kOk);
  CHECK(has_manifest(elf));
}

TEST_CASE("files that are no libraries are told from broken ones", "[plugin]") {
  ZooFolder zoo;
  const std::string good = read_text(zoo.add("good_c"));
  CHECK(read_elf_notes(zoo.write("a.so", "")).reading == ElfReading::kNotElf);
  CHECK(read_elf_notes(zoo.write("b.so", "\x7f")).reading == ElfReading::kNotElf);
  CHECK(read_elf_notes(zoo.write("c.so", "INPUT(-lother)\n")).reading == ElfReading::kNotElf);
  CHECK(read_elf_notes(zoo.write("d.so", good.substr(0, 20))).reading == ElfReading::kBroken);

  const ElfNotes cut = read_elf_notes(zoo.write("e.so", good.substr(0, good.size() / 2)));
  CHECK(cut.reading == ElfReading::kBroken);
  CHECK_THAT(cut.problem, contains_text("the file is truncated"));

  CHECK(read_elf_notes(zoo.path_of("missing")).reading == ElfReading::kUnreadable);
  CHECK(read_elf_notes(zoo.path()).problem == "it is not a regular file");
}

TEST_CASE("a named pipe among the plugins does not hang the host", "[plugin]") {
  ZooFolder zoo;
  zoo.write("x.txt", "");
  const std::string fifo = zoo.path_of("pipe");
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(read_elf_notes(fifo).problem == "it is not a regular file");
}

TEST_CASE("a library for another machine is foreign, and says for which", "[plugin]") {
  ZooFolder zoo;
  const std::string good = read_text(zoo.add("good_c"));
  auto header = read_at<Elf64_Ehdr>(good, 0);

  std::string bytes = good;
  header.e_machine = EM_S390;
  write_at(bytes, 0, header);
  const ElfNotes processor = read_elf_notes(zoo.write("a.so", bytes));
  CHECK(processor.reading == ElfReading::kForeign);
  CHECK_THAT(processor.problem, contains_text("e_machine 22"));
  CHECK(has_manifest(processor));

  bytes = good;
  bytes[EI_CLASS] = ELFCLASS32;
  CHECK(read_elf_notes(zoo.write("b.so", bytes)).reading == ElfReading::kForeign);

  bytes = good;
  header = read_at<Elf64_Ehdr>(good, 0);
  header.e_type = ET_EXEC;
  write_at(bytes, 0, header);
  CHECK_THAT(read_elf_notes(zoo.write("c.so", bytes)).problem,
             contains_text("not a shared library"));
}

TEST_CASE("reading notes ends well whatever the file holds", "[plugin]") {
  ZooFolder zoo;
  const std::string good = read_text(zoo.add("good_c"));
  const auto header = read_at<Elf64_Ehdr>(good, 0);
  const std::size_t note = good.find(std::string("tenon\0\0\0", 8)) - 12;
  std::mt19937_64 random(20240501);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  // Where a change matters: headers, the two tables, the note.
  const std::size_t offsets[] = {
      0, header.e_phoff, header.e_shoff, note, header.e_shoff + header.e_shnum * 32};
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = good;
    for (std::size_t change = 0; change <= below(4); ++change) {
      const std::size_t offset = offsets[below(std::size(offsets))];
      const std::size_t at = std::min(offset + below(256), bytes.size() - 8);
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          write_at<uint32_t>(bytes, at, 0xffffffffu);
          break;
        case 2:
          write_at<uint64_t>(bytes, at, ~uint64_t{0} - below(64));
          break;
        default:
          write_at<uint64_t>(bytes, at, below(2 * bytes.size()));
      }
    }
    if (below(4) == 0) {
      bytes.resize(below(bytes.size()));
    }
    const ElfNotes elf = read_elf_notes(zoo.write("mutant.so", bytes));
    // What is not in order says why.
    CHECK((elf.reading == ElfReading::kOk || elf.reading == ElfReading::kNotElf) ==
          elf.problem.empty());
    CHECK(elf.notes.size() <= 1000);
  }
}
