// SPDX-License-Identifier: Apache-2.0
//
// The column of a batch that a lookup reads: its fields, and the ids in them.
// Threads: any.
#pragma once

#include "host/embedding/pooling.hpp"
#include "host/tensor/batch.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

// A lookup of the model: a value computed from the rows of a table.
struct LookupUse {
  std::string value;   // for messages
  std::string column;  // of the batch; "" if the model computes the ids
  size_t table = 0;
  Pooling pooling;
  bool is_over_positions = false;  // the value has an axis "T": a row for each position
};

// Checks that a dataset has the columns that lookups read.
// Errors  table.column_missing, table.column_mismatch: names lookup, column and the problem
void check_lookup_columns(const std::vector<LookupUse>& lookups,
                          const std::vector<FieldInfo>& fields,
                          const std::string& dataset);

// Returns the ids of a microbatch, on the CPU. They are from the lookup's column of `batch`, or
// from `ids` if the lookup has no column. If the batch has some positions of its sequences, a
// lookup over positions has the ids of these, also if its column is whole.
// Errors  table.bad_ids: invalid ids, weights or offsets, such as decreasing offsets
LookupIds lookup_ids(const LookupUse& use, const at::Tensor& ids, const Batch* batch);

}  // namespace tenon
