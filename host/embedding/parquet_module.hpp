// SPDX-License-Identifier: Apache-2.0
//
// Interface to Parquet files of numbers, implemented by a module that contains Apache Arrow. The
// host itself does not link Arrow. It loads the module when a command reads or writes rows of
// tables (row_file.hpp).
// Threads: any; one object belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

// Returns the bytes of one number of `dtype` in a column.
size_t parquet_number_size(uint32_t dtype);

// A column of required numbers, or of required lists of numbers, one per row.
struct ParquetColumn {
  std::string name;
  uint32_t dtype = 0;  // TENON_I32, TENON_I64, TENON_F32 or TENON_F64
  size_t width = 0;    // numbers in each list; 0 for a column without lists
  // TENON_I64 only: the 64 bits have no sign.
  bool is_unsigned = false;

  size_t numbers() const { return width == 0 ? 1 : width; }
  size_t number_size() const { return parquet_number_size(dtype); }
};

// Writes a file, one row group at a time.
class ParquetWriter {
 public:
  virtual ~ParquetWriter() = default;
  // Adds a row group. numbers[c] holds the numbers of column c, contiguously, for all `rows`.
  virtual void add_group(size_t rows, const std::vector<std::string>& numbers) = 0;
  // Completes the file.
  virtual void finish() = 0;
};

// Reads the columns of a file that have numbers, or lists of numbers with equal lengths. Half
// floats are read as TENON_F32, and unsigned integers of at most 32 bits as TENON_I64. Skips
// columns of other types.
class ParquetReader {
 public:
  virtual ~ParquetReader() = default;
  virtual const std::vector<ParquetColumn>& columns() const = 0;
  virtual size_t num_groups() const = 0;
  virtual size_t rows_of(size_t group) const = 0;
  // Returns the numbers of a column in one row group. `column` is an index into columns().
  virtual std::string numbers(size_t group, size_t column) = 0;
};

// The export of the module, under the name kParquetModuleSymbol. Its functions, and those of its
// objects, throw exceptions derived from std::exception.
struct ParquetModule {
  // kParquetModuleBuild of <tenon_build.hpp>. Host and module must come from the same build,
  // because the classes above are not an ABI.
  const char* build;
  std::unique_ptr<ParquetWriter> (*create)(const std::string& file,
                                           const std::vector<ParquetColumn>& columns);
  std::unique_ptr<ParquetReader> (*open)(const std::string& file);
};
inline constexpr char kParquetModuleSymbol[] = "tenon_parquet_module";

// Returns this program's module: ../lib/tenon_parquet.so in a build tree, or the installed file.
std::filesystem::path parquet_module_file();

// Loads the module, which stays loaded for the life of the process.
//
// Errors   table.parquet_unavailable: the file is missing, cannot be loaded, or comes from another
//          build
const ParquetModule& load_parquet_module(const std::filesystem::path& file = parquet_module_file());

}  // namespace tenon
