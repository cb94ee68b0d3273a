// SPDX-License-Identifier: Apache-2.0
//
// Parquet files that no writer writes: of a column `id` and lists `vector`, with row groups that
// claim any number of rows and values. Written byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

struct CraftedGroup {
  int64_t num_rows = 0;           // as the footer claims
  std::vector<int64_t> ids;       // in the file
  int64_t num_vector_values = 0;  // as the footer claims; the file has none
};

// A whole file.
std::string crafted_parquet(const std::vector<CraftedGroup>& groups);

// A file that is a footer alone, of at least `bytes` bytes: column chunks of three bytes each, in
// groups of `chunks_of_group`.
std::string parquet_footer_of_chunks(size_t bytes, size_t chunks_of_group);

}  // namespace tenon
