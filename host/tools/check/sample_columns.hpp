// SPDX-License-Identifier: Apache-2.0
//
// Columns for checks of features. The content of a sample depends on its number alone, so that the
// same samples can be put into other batches.
// Threads: any; pure functions.
#pragma once

#include "host/tensor/column.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Types of columns that features read: numbers, lists of numbers and texts, with weights or not.
std::span<const ColumnType> column_types();

enum class EmptyLists { kNo, kSome };

// Makes a column of these samples. With kSome, each third sample has no entries. `seed` selects
// other content.
Column make_column(const ColumnType& type,
                   const std::vector<int64_t>& samples,
                   uint64_t seed,
                   EmptyLists empty);

// Returns the content of sample `i` of the batch, as bytes.
std::string bytes_of_sample(const Column& column, std::size_t i);

}  // namespace tenon
