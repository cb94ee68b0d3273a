// SPDX-License-Identifier: Apache-2.0
#include "host/trust/elf/elf_symbols.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <random>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

template <class T>
T file_part(const std::string& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void overwrite(std::string& bytes, std::size_t at, const T& value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// Where the segment of a type is in the file.
Elf64_Phdr segment_of(const std::string& bytes, uint32_t type) {
  const auto header = file_part<Elf64_Ehdr>(bytes, 0);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = file_part<Elf64_Phdr>(bytes, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type == type) {
      return segment;
    }
  }
  FAIL("the file has no segment of type " << type);
  return {};
}

}  // namespace

TEST_CASE("a unique symbol is found by either hash table", "[plugin]") {
  ZooFolder zoo;
  for (const char* const name : {"shares_a", "shares_b"}) {
    INFO(name);
    const auto symbol = find_unique_symbol(zoo.add(name));
    REQUIRE(symbol);
    CHECK_THAT(*symbol, contains_text("7Counter"));
  }
}

TEST_CASE("a unique symbol is found where sections were stripped away", "[plugin]") {
  ZooFolder zoo;
  std::string bytes = read_text(zoo.add("shares_a"));
  auto header = file_part<Elf64_Ehdr>(bytes, 0);
  header.e_shoff = 0;
  header.e_shnum = 0;
  overwrite(bytes, 0, header);
  CHECK(find_unique_symbol(zoo.write("segments.so", bytes)));
}

TEST_CASE("a library with other symbols, or another file, has no unique symbol", "[plugin]") {
  ZooFolder zoo;
  CHECK_FALSE(find_unique_symbol(zoo.add("good_c")));
  CHECK_FALSE(find_unique_symbol(zoo.add("no_manifest")));
  CHECK_FALSE(find_unique_symbol(zoo.add("throws_in_static")));  // C++ with the version script
  CHECK_FALSE(find_unique_symbol(zoo.write("a.so", "")));
  CHECK_FALSE(find_unique_symbol(zoo.write("b.so", "INPUT(-lother)\n")));
  CHECK_FALSE(find_unique_symbol(zoo.path_of("missing")));
  CHECK_FALSE(find_unique_symbol(zoo.path()));
  const std::string whole = read_text(zoo.add("shares_a"));
  CHECK_FALSE(find_unique_symbol(zoo.write("c.so", whole.substr(0, 700))));
}

TEST_CASE("a library for another machine has no symbols that this one can read", "[plugin]") {
  ZooFolder zoo;
  std::string bytes = read_text(zoo.add("shares_a"));
  bytes[EI_CLASS] = ELFCLASS32;
  CHECK_FALSE(find_unique_symbol(zoo.write("a.so", bytes)));
  bytes[EI_CLASS] = ELFCLASS64;
  bytes[EI_DATA] = ELFDATA2MSB;
  CHECK_FALSE(find_unique_symbol(zoo.write("b.so", bytes)));
}

TEST_CASE("reading symbols ends well whatever the file holds", "[plugin]") {
  ZooFolder zoo;
  for (const char* const name : {"shares_a", "shares_b"}) {
    const std::string good = read_text(zoo.add(name));
    const auto header = file_part<Elf64_Ehdr>(good, 0);
    const Elf64_Phdr dynamic = segment_of(good, PT_DYNAMIC);
    std::mt19937_64 random(20261124);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    // Where a change matters: the program headers, the dynamic segment, and the tables before code.
    const struct {
      std::size_t at;
      std::size_t size;
    } kParts[] = {{header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr)},
                  {dynamic.p_offset, dynamic.p_filesz},
                  {header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr), 2048}};
    int num_found = 0;
    for (int i = 0; i < 1000; ++i) {
      std::string bytes = good;
      for (std::size_t change = 0; change <= below(3); ++change) {
        const auto& part = kParts[below(std::size(kParts))];
        const std::size_t at = std::min(part.at + below(part.size), bytes.size() - 8);
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
      if (below(8) == 0) {
        bytes.resize(below(bytes.size()));
      }
      const auto symbol = find_unique_symbol(zoo.write("mutant.so", bytes));
      if (symbol) {
        ++num_found;
        CHECK(symbol->size() <= 203);
        CHECK(std::ranges::all_of(*symbol, [](char c) { return c > ' ' && c <= '~'; }));
      }
    }
    // The changes neither miss the tables nor destroy each file.
    CHECK(num_found > 100);
    CHECK(num_found < 1000);
  }
}
