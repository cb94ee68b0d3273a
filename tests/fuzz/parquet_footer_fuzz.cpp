// SPDX-License-Identifier: Apache-2.0
//
// Footers of Parquet files that are nearly right are counted in bounded time. A case is a footer,
// and the file that ends in it.
#include "host/embedding/parquet_footer.hpp"

#include <cstring>

#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/memory_file.hpp"

namespace tenon {
namespace {

// Structs in Thrift's compact protocol, byte by byte: fields of all types, short and long lists, a
// map, a nested struct.
std::vector<std::string> corpus_footers() {
  using namespace std::string_literals;
  return {"\x15\x04\x19\x2c\x48\x06schema\x15\x02\x00\x15\x02\x00\x16\x06\x00"s,
          "\x11\x12\x13\x07\x14\x03\x15\x04\x16\x05\x17\x01\x02\x03\x04\x05\x06\x07\x08\x00"s,
          "\x19\xf5\x10\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x00"s,
          "\x1b\x02\x88\x01"s + "a\x01"s + "b\x01"s + "c\x01"s + "d\x00"s,
          "\x1c\x1c\x1c\x1c\x00\x00\x00\x00\x00"s,
          "\x0c\x90\x4e\x18\x03"s + "abc\x00\x00"s};
}

std::string make_footer(Mutator& mutator) {
  using namespace std::string_literals;
  static const std::vector<std::string> corpus = corpus_footers();
  static const std::vector<std::string> words = {
      "\x19\xfc\xff\xff\xff\xff\x0f"s,
      "\x1b\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xcc"s,
      "\x19\xf1\xc0\x84\x3d"s,
      "\x1c"s,
      "\x18\xff\xff\xff\xff\x0f"s,
      "\x00"s,
      std::string(70, '\x1c')};
  const std::string& seed = mutator.pick(corpus);
  return mutator.one_in(16) ? seed : mutator.mutated(seed, words, corpus);
}

std::string judge_footer(const std::string& footer) {
  static const MemoryFile file("rows.parquet");
  const auto length = static_cast<std::uint32_t>(footer.size());
  std::string text = "PAR1" + footer + std::string(4, '\0') + "PAR1";
  std::memcpy(text.data() + text.size() - 8, &length, sizeof(length));
  file.write(text);
  const std::string problem = parquet_footer_problem(file.path());
  const bool is_over = has_too_many_items(footer);
  if (problem.empty() == is_over) {
    throw FuzzFinding("the check of the file and that of its footer differ");
  }
  if (is_over) {
    check_fuzz_message("a footer", problem);
    return "too many items";
  }
  // Files whose end is not the end of a Parquet file are the reader's.
  file.write(footer);
  return parquet_footer_problem(file.path()).empty() ? kFuzzAccepted : "refused";
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "parquet_footer_fuzz", .make = tenon::make_footer, .judge = tenon::judge_footer});
}
