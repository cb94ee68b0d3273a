// SPDX-License-Identifier: Apache-2.0
//
// Parquet files of numbers, as a module with Apache Arrow offers them. The host itself links no
// Arrow: it loads the module when a command reads or writes rows of tables (row_file.hpp).
// Threads: any; one object belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tenon {

// Bytes of a number of that dtype in a column.
size_t parquet_number_size(uint32_t dtype);

// Required numbers, or required lists of numbers, one a row.
struct ParquetColumn {
  std::string name;
  uint32_t dtype = 0;  // TENON_I32, TENON_I64, TENON_F32 or TENON_F64
  size_t width = 0;    // numbers of each list; 0 for a column without lists

  size_t numbers() const { return width == 0 ? 1 : width; }
  size_t number_size() const { return parquet_number_size(dtype); }
};

// Writes a file, one row group after the other.
class ParquetWriter {
 public:
  virtual ~ParquetWriter() = default;
  // Of each column, `rows` times its numbers, one after the other.
  virtual void add_group(size_t rows, const std::vector<std::string>& numbers) = 0;
  // Completes the file.
  virtual void finish() = 0;
};

// Reads the columns of a file that have numbers, or lists of numbers with one length. Columns of
// other types are skipped.
class ParquetReader {
 public:
  virtual ~ParquetReader() = default;
  virtual const std::vector<ParquetColumn>& columns() const = 0;
  virtual size_t num_groups() const = 0;
  virtual size_t rows_of(size_t group) const = 0;
  // The numbers of a column, which is an index of columns(), in one row group.
  virtual std::string numbers(size_t group, size_t column) = 0;
};

// What the module exports under the name kParquetModuleSymbol. Its functions, and those of its
// objects, throw what derives from std::exception.
struct ParquetModule {
  // kParquetModuleBuild of <tenon_build.hpp>: host and module must come from one build, because the
  // classes above are no ABI.
  const char* build;
  std::unique_ptr<ParquetWriter> (*create)(const std::string& file,
                                           const std::vector<ParquetColumn>& columns);
  std::unique_ptr<ParquetReader> (*open)(const std::string& file);
};
inline constexpr char kParquetModuleSymbol[] = "tenon_parquet_module";

// The module of this program: ../lib/tenon_parquet.so of a build tree, or of the installation.
std::filesystem::path parquet_module_file();

// Loads the module; it stays for the life of the process.
//
// Errors   table.parquet_unavailable: the file is missing, cannot be loaded, or comes from another
//          build
const ParquetModule& load_parquet_module(const std::filesystem::path& file = parquet_module_file());

}  // namespace tenon
