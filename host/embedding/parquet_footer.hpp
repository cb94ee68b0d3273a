// SPDX-License-Identifier: Apache-2.0
//
// Checks the footer of a Parquet file before a reader builds it in memory. The size of a footer
// says little about that memory: three bytes can stand for a struct of 700. Not a reader, and no
// check of the content: a footer that is malformed is left to the reader. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tenon {

inline constexpr uint64_t kMaxParquetFooter = uint64_t{64} << 20;  // bytes
// Maximum number of structs, texts and lists. Enough for about a billion rows in groups of 65,536.
inline constexpr uint64_t kMaxParquetFooterItems = 1'000'000;

// Returns why no reader should open the file, to follow its name: "cannot be read: it is a FIFO,
// not a regular file"; "" if a reader may open it.
std::string parquet_footer_problem(const std::filesystem::path& file);

// True if a footer (Thrift, compact protocol) has more than kMaxParquetFooterItems items. Counts
// those that a malformed footer claims before its first error.
bool has_too_many_items(std::string_view footer) noexcept;

}  // namespace tenon
