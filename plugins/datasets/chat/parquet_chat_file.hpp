// SPDX-License-Identifier: Apache-2.0
//
// A Parquet file whose rows are samples. A row becomes the JSON value that a line of a JSON file
// would have: lists and structs as lists and objects, nulls in objects skipped. Only columns that
// samples may have are read.
// Invariants: a row group is decoded in blocks, and never kept as a whole. Apache Arrow, which only
// this file's source includes, reads through the descriptor that the digest was computed from.
// Threads: any, after construction.
#pragma once

#include <memory>
#include <string>

#include "chat_file.hpp"

namespace tenon {

// Reads the file's footer.
//
// Errors   chat.open, chat.no_file, chat.read: it cannot be read; chat.bad_parquet: it is truncated
//          or corrupt, or a column has a type without a form in JSON
std::unique_ptr<ChatFile> open_parquet_chat_file(const std::string& path,
                                                 const IgnoredKeys& ignored);

}  // namespace tenon
