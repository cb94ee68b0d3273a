// SPDX-License-Identifier: Apache-2.0
//
// The column of a batch that a lookup reads: which fields it needs, and the ids in them.
// Threads: any.
#pragma once

#include "host/embedding/pooling.hpp"
#include "host/tensor/batch.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace tenon {

// A lookup of the model: a value that is made of the rows of a table.
struct LookupUse {
  std::string value;   // for messages
  std::string column;  // of the batch; "" if the model computes the ids
  size_t table = 0;
  Pooling pooling;
};

// Checks that a dataset has the columns that are looked up.
// Errors  table.column_missing, table.column_mismatch: lookup, column and what there is
void check_lookup_columns(const std::vector<LookupUse>& lookups,
                          const std::vector<FieldInfo>& fields,
                          const std::string& dataset);

// The ids of a microbatch, on the CPU: those of the lookup's column of `batch`, or `ids` for a
// lookup without a column.
// Errors  table.bad_ids: offsets that run backwards, and the like
LookupIds lookup_ids(const LookupUse& use, const at::Tensor& ids, const Batch* batch);

}  // namespace tenon
