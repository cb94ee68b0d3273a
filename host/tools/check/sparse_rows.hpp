// SPDX-License-Identifier: Apache-2.0
//
// Rows of a table in memory, for checks of one sparse optimizer: in several blocks, with a pattern
// around the fields, so that a write outside of them shows.
// Threads: apply() by several threads at once, on disjoint rows; all else by one.
#pragma once

#include <tenon/draft/sparse_optimizer.h>

#include "host/plugin/sparse_optimizer_proxy.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace tenon {

// The rows of one update, and their gradients.
struct CheckedRows {
  std::vector<int64_t> rows;
  std::vector<int64_t> ids;
  std::vector<int64_t> counts;
  std::vector<float> grads;  // [rows, dim]

  // Returns the rows in [begin, end), in this order.
  CheckedRows part(std::size_t begin, std::size_t end, uint32_t dim) const;
  CheckedRows reversed(uint32_t dim) const;
};

class SparseRows {
 public:
  // Rows have random values, and the initial state that the optimizer declares. `value_dtype` is
  // TENON_F32, TENON_BF16 or TENON_F16.
  SparseRows(const SparseOptimizerInfo& info,
             uint32_t value_dtype,
             int64_t num_rows,
             std::mt19937_64& generator);
  // A copy of the rows, in other memory.
  SparseRows(const SparseRows& other);
  SparseRows& operator=(const SparseRows&) = delete;

  static constexpr uint32_t kDim = 5;

  // Random gradients for these rows.
  static CheckedRows random_update(const std::vector<int64_t>& rows, std::mt19937_64& generator);
  // An id depends on the row, and is not its number.
  static int64_t id_of(int64_t row) { return row * 1000003 + 1; }

  // Calls update, as step `step` of the table. `found_inf` may be null.
  //
  // Errors   PluginError
  void apply(const SparseOptimizerProxy& optimizer,
             const tenon_exec& exec,
             const CheckedRows& update,
             int64_t step,
             const float* found_inf = nullptr) const;

  int64_t num_rows() const { return num_rows_; }
  // Returns the bytes of a row's fields.
  std::string row_bytes(int64_t row) const;
  // True if the value and state of a row are finite.
  bool is_finite(int64_t row) const;
  // True if nothing but fields of rows was written.
  bool is_padding_kept() const;

 private:
  struct Field {
    std::size_t offset = 0;
    std::size_t count = 1;
    uint32_t dtype = TENON_F32;
    double init = 0;
  };
  void lay_out(const SparseOptimizerInfo& info, uint32_t value_dtype);
  void point_layout();
  std::byte* field(int64_t row, const Field& field) const;
  void set(int64_t row, const Field& field, std::size_t i, double value) const;
  double get(int64_t row, const Field& field, std::size_t i) const;

  int64_t num_rows_;
  std::vector<Field> fields_;  // value, master if there is one, slots
  std::size_t stride_ = 0;
  bool has_master_ = false;
  uint32_t value_dtype_ = TENON_F32;
  std::vector<std::vector<std::byte>> blocks_;
  std::vector<void*> addresses_;
  std::vector<int32_t> slot_offsets_;
  tenon_row_layout layout_{};
};

}  // namespace tenon
