// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/parquet_module.hpp"

#include <tenon/tensor.h>

#include "host/error/error.hpp"

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string failure(const std::filesystem::path& file) {
  try {
    load_parquet_module(file);
  } catch (const Error& error) {
    CHECK(error.id() == "table.parquet_unavailable");
    return error.message();
  }
  return "no error";
}

template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

}  // namespace

TEST_CASE("the module of the build is found and loaded", "[embedding]") {
  CHECK(parquet_module_file().filename() == "tenon_parquet.so");
  CHECK(&load_parquet_module() == &load_parquet_module());
}

TEST_CASE("a module that is missing, or is none, is an error that says what to do", "[embedding]") {
  const ScratchFolder folder;
  CHECK_THAT(failure(folder.path() / "none.so"),
             contains_text("does not exist") && contains_text("build the target"));
  CHECK_THAT(failure(folder.write("tenon_parquet.so", "no library")),
             contains_text("cannot be loaded") && contains_text("./dev deps"));
  CHECK_THAT(failure("/proc/self/exe"), contains_text("cannot be loaded"));
}

TEST_CASE("numbers and lists of all types come back in their groups", "[embedding]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "a.parquet").string();
  const std::vector<ParquetColumn> columns = {
      {"a", TENON_I32, 0}, {"b", TENON_I64, 2}, {"c", TENON_F32, 3}, {"d", TENON_F64, 1}};
  const std::vector<std::string> first = {bytes_of<int32_t>({1, -2}),
                                          bytes_of<int64_t>({1, 2, 3, int64_t{1} << 62}),
                                          bytes_of<float>({0, 1, 2, 3, 4, 5}),
                                          bytes_of<double>({0.1, 1e300})};
  const std::vector<std::string> second = {bytes_of<int32_t>({7}),
                                           bytes_of<int64_t>({8, 9}),
                                           bytes_of<float>({-1, -2, -3}),
                                           bytes_of<double>({0})};
  const ParquetModule& module = load_parquet_module();
  const auto writer = module.create(file, columns);
  writer->add_group(2, first);
  writer->add_group(1, second);
  writer->finish();
  const auto reader = module.open(file);
  REQUIRE(reader->columns().size() == columns.size());
  REQUIRE(reader->num_groups() == 2);
  CHECK(reader->rows_of(0) == 2);
  CHECK(reader->rows_of(1) == 1);
  for (size_t c = 0; c < columns.size(); ++c) {
    CAPTURE(c);
    CHECK(reader->columns()[c].name == columns[c].name);
    CHECK(reader->columns()[c].dtype == columns[c].dtype);
    CHECK(reader->columns()[c].width == columns[c].width);
    CHECK(reader->numbers(1, c) == second[c]);
    CHECK(reader->numbers(0, c) == first[c]);
  }
}

TEST_CASE("long lists are written in pieces that begin with a row", "[embedding]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "a.parquet").string();
  constexpr size_t kWidth = 30'001;  // two rows a piece, and a half would fit
  constexpr size_t kRows = 5;
  std::vector<float> numbers(kWidth * kRows);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<float>(i);
  }
  const ParquetModule& module = load_parquet_module();
  const auto writer = module.create(file, {{"v", TENON_F32, kWidth}});
  writer->add_group(kRows, {bytes_of(numbers)});
  writer->finish();
  const auto reader = module.open(file);
  REQUIRE(reader->columns().size() == 1);
  CHECK(reader->columns()[0].width == kWidth);
  CHECK(reader->numbers(0, 0) == bytes_of(numbers));
}

}  // namespace tenon
