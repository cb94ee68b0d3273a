// SPDX-License-Identifier: Apache-2.0
//
// Readers of files multiply sizes with checked_product() and checked_bytes(), because a product
// that wraps passes the checks after it. Here is each raw product of such a reader, with the reason
// why it cannot wrap.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace {

// Sources that compute with sizes that a file claims.
const std::vector<std::string>& readers() {
  static const std::vector<std::string> kReaders = {"host/checkpoint/checkpoint_index.cpp",
                                                    "host/checkpoint/checkpoint_reader.cpp",
                                                    "host/checkpoint/safetensors.cpp",
                                                    "host/checkpoint/stored_tensor.cpp",
                                                    "host/checkpoint/summed_read.cpp",
                                                    "host/checkpoint/weights_folder.cpp",
                                                    "host/embedding/parquet/arrow_parquet.cpp",
                                                    "host/embedding/parquet_footer.cpp",
                                                    "host/embedding/row_file.cpp",
                                                    "host/io/regular_file.cpp",
                                                    "host/json/bounded_json.cpp",
                                                    "host/trust/elf/elf_dynamic.cpp",
                                                    "host/trust/elf/elf_file.cpp",
                                                    "host/trust/elf/elf_image.cpp",
                                                    "host/trust/elf/elf_image.hpp",
                                                    "host/trust/elf/elf_notes.cpp",
                                                    "host/trust/elf/elf_symbols.cpp"};
  return kReaders;
}

struct KnownProduct {
  std::string line;  // without indentation and comment
  std::string why;   // it cannot wrap
};

const std::vector<KnownProduct>& known_products() {
  static const std::vector<KnownProduct> kProducts = {
      {"return static_cast<uint64_t>(numel) * c10::elementSize(dtype());",
       "index_of() has checked the bytes of the whole tensor"},
      {"const size_t whole = (kLengthBytes + text.size() + kAlignment - 1) / kAlignment * "
       "kAlignment;",
       "of a text in memory"},
      {"constexpr uint64_t kLeastForTwo = 4 * kReadChunk;", "constants"},
      {"for (uint64_t i = take(); i * kReadChunk < out_.size(); i = take()) {",
       "i counts chunks of a span in memory"},
      {"const uint64_t at = i * kReadChunk;", "i counts chunks of a span in memory"},
      {"begin_ + static_cast<uint64_t>(first) * c10::elementSize(dtype()),",
       "read_safetensors_header() has checked the bytes of the whole tensor"},
      {"rows * columns_[c].numbers());", "of rows in memory, to be written"},
      {"const size_t most = std::max<size_t>(kNumbersAtOnce / width, 1) * width;",
       "at most kNumbersAtOnce or `width`"},
      {"const double number = number_at(info.dtype, bytes.data() + i * info.number_size());",
       "a number of a column in memory"},
      {"bytes.append(static_cast<const char*>(from), n * "
       "parquet_number_size(column_dtype(dtype)));",
       "of numbers in memory"},
      {"std::memcpy(&x, from + i * sizeof x, sizeof x);", "within numbers in memory"},
      {"std::memcpy(to, from, n * parquet_number_size(column_dtype(dtype)));",
       "of numbers in memory"},
      {"std::vector<float> values(ids.size() * dim);", "at most kRowsOfGroup rows of a table"},
      {"std::memcpy(&info.count, counts.data() + i * sizeof info.count, sizeof info.count);",
       "the module has checked that the column has a number for each row"},
      {"&info.last_step, steps.data() + i * sizeof info.last_step, sizeof info.last_step);",
       "the module has checked that the column has a number for each row"},
      {"table_.write({&row, 1}, values.data() + i * dim, static_cast<int64_t>(dim));",
       "of a table's rows in memory"},
      {"numbers[e].data() + i * column.numbers() * column.number_size(),",
       "the module has checked that the column has these numbers for each row"},
      {"const size_t at = (i * column.numbers() + k) * column.number_size();",
       "the module has checked that the column has these numbers for each row"},
      {"std::clamp<size_t>((size_t{256} << 20) / (8 * table.spec().dim), 1, kRowsOfGroup);",
       "dim has 32 bits"},
      {"const auto up = [&](uint64_t n) { return (n + align - 1) / align * align; };",
       "n is within the file"},
      {"return read_array<Elf64_Sym>(table, begin * sizeof(Elf64_Sym), count);",
       "at most kMaxSymbols"},
      {"const auto bytes = file_.read(extent.offset + begin, count * sizeof(T));",
       "at most kMaxSymbols"},
      {"const uint64_t buckets_at = 4 * sizeof(uint32_t) + num_filter_words * sizeof(uint64_t);",
       "num_filter_words has 32 bits"},
      {"const uint64_t chains_at = buckets_at + num_buckets * sizeof(uint32_t);",
       "num_buckets has 32 bits"},
      {"const auto chain = read_array<uint32_t>(hash, chains_at + (i - first) * sizeof(uint32_t), "
       "1);",
       "i has 32 bits"}};
  return kProducts;
}

// True for a multiplication. clang-format sets a space before the star of a product, and none
// before that of a pointer.
bool has_product(const std::string& line) {
  static const std::regex kProduct(R"([\w\)\]\}] \* [\w\(]|\*=|std::(accumulate|multiplies)\b)");
  return std::regex_search(line, kProduct);
}

// The lines of a source without indentation, comments and text in quotes.
std::vector<std::string> code_lines(const std::filesystem::path& file) {
  static const std::regex kComment(R"(\s*//.*$)");
  static const std::regex kQuoted(R"re("(\\.|[^"\\])*")re");
  std::ifstream in(file);
  REQUIRE(in.good());
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    line = std::regex_replace(std::regex_replace(line, kQuoted, "\"\""), kComment, "");
    lines.push_back(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  }
  return lines;
}

}  // namespace

TEST_CASE("products are told from pointers", "[tree]") {
  for (const char* const line : {"numel *= size;",
                                 "return a * static_cast<uint64_t>(b);",
                                 "x = (a) * (b);",
                                 "list[i] * n",
                                 "size_t{2} * n",
                                 "std::accumulate(a.begin(), a.end(), 1, f)"}) {
    INFO(line);
    CHECK(has_product(line));
  }
  for (const char* const line : {"const char* const text = f(*p);",
                                 "json* add(json value) {",
                                 "*size = 3;",
                                 "return *scalar_type(dtype);"}) {
    INFO(line);
    CHECK_FALSE(has_product(line));
  }
}

TEST_CASE("readers of files multiply sizes with a check, or say why they need none", "[tree]") {
  std::map<std::string, int> uses;
  for (const KnownProduct& product : known_products()) {
    CHECK_FALSE(product.why.empty());
    uses[product.line] = 0;
  }
  for (const std::string& reader : readers()) {
    for (const std::string& line : code_lines(tenon::source_dir() / reader)) {
      if (!has_product(line)) {
        continue;
      }
      INFO(reader << " has a product that may wrap:\n  " << line
                  << "\nuse checked_product() or checked_bytes() (host/io/checked_size.hpp), or "
                     "say in known_products() why it cannot wrap");
      CHECK(uses.count(line) == 1);
      ++uses[line];
    }
  }
  for (const auto& [line, count] : uses) {
    INFO("no reader has this line any more; remove it from known_products():\n  " << line);
    CHECK(count > 0);
  }
}
