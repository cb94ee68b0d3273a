// SPDX-License-Identifier: Apache-2.0
//
// Rejects columns that mix negative ids with ids of 2^63 and above, which have the same 64 bits.
// Most of these columns are found by their types; this file compares the values, for ids that are
// text.
// Invariant: the result depends on the rows that this process has checked, and only on those.
// Threads: any.
#pragma once

#include <arrow/array.h>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "column_arrays.hpp"
#include "value_meaning.hpp"

namespace tenon {

// A negative id, or an id of 2^63 or above.
struct SignedId {
  int64_t element = 0;
  bool is_large = false;  // 2^63 or above
  int64_t bits = 0;

  std::string text() const;
};

// The first negative id and the first id of 2^63 or above, by element. `texts` has the elements
// of `ids` as text; null if the file has numbers. Ids of other types than integers have neither.
std::vector<SignedId> signed_ids_in(const arrow::Array& ids,
                                    const arrow::LargeBinaryArray* texts,
                                    const ElementRanges& ranges);

// Whether 64-bit integers of a column are unsigned. `first` is its type in the files that determine
// it, and `from` the meaning of its values in this file, which decides if those have text or nulls.
bool is_unsigned(const std::shared_ptr<arrow::DataType>& first, const ValueMeaning& from);

// The first ids of each sign, per source column.
class IdSigns {
 public:
  // Records ids of signed_ids_in(). `origin_of` gives the origin of an element: "FILE: row 2".
  //
  // Errors   columnar.bad_value if the column has ids of both signs, naming both origins
  void add(const std::string& column,
           const std::vector<SignedId>& ids,
           const std::function<std::string(int64_t)>& origin_of);

 private:
  struct Found {
    std::string id;      // empty: none so far
    std::string origin;  // of `id`
  };
  struct OfColumn {
    Found negative;
    Found large;
  };

  std::mutex mutex_;
  std::map<std::string, OfColumn> columns_;
};

}  // namespace tenon
