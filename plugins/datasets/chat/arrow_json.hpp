// SPDX-License-Identifier: Apache-2.0
//
// Values of Arrow arrays as JSON: lists, structs and maps as lists and objects. A null in a struct
// or a map is skipped, since columns of a file give every row the keys of all rows.
// Invariant: never reads outside an array, even if its offsets are corrupt.
// Threads: pure functions, from any thread.
#pragma once

#include <arrow/type_fwd.h>
#include <cstdint>
#include <string>

#include "conversation.hpp"

namespace tenon {

// Errors   chat.bad_parquet, naming file, column and type, if the type or one inside of it has no
//          form in JSON, or is nested more than 64 deep
void check_has_json_form(const arrow::DataType& type,
                         const std::string& file,
                         const std::string& column);

// A row as an object with a key for each column that is not null.
//
// Errors   chat.bad_parquet: bad offsets; chat.not_utf8, with the column
Json json_of_row(const arrow::RecordBatch& batch, int64_t row);

}  // namespace tenon
