// SPDX-License-Identifier: Apache-2.0
//
// Plain structs that describe an update of rows: an optimizer's settings, and the locations of rows
// and gradients. Shared by CPU and CUDA.
#pragma once

#include <cstddef>
#include <cstdint>

struct SgdSettings {
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
};

struct AdagradSettings {
  double lr_decay = 0.0;
  double eps = 1e-10;
  double weight_decay = 0.0;
};

struct AdamSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool correct_eps = false;      // add eps to the root of the bias-corrected mean square
  double weight_decay = 0.0;     // L2, through the running means
  double decoupled_decay = 0.0;  // decoupled, of the value itself
  bool decay_by_rate = true;     // multiply the decoupled decay by lr
};

struct FtrlSettings {
  double l1 = 0.0;
  double l2 = 0.0;
  double beta = 1.0;
};

struct LionSettings {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.0;
};

constexpr int kMaxRowSlots = 2;

enum class RowValue : uint32_t { kF32, kBf16, kF16 };

// The arguments of one update, documented in draft/sparse_optimizer.h. On a GPU, all pointers are
// device pointers. R rows, D elements per row.
struct RowsCall {
  void* const* blocks = nullptr;
  size_t stride = 0;
  uint32_t shift = 0;
  uint32_t dim = 0;
  RowValue value = RowValue::kF32;
  int32_t value_offset = 0;
  int32_t master_offset = -1;
  int32_t slot_offsets[kMaxRowSlots] = {};
  size_t n = 0;
  const int64_t* rows_R = nullptr;
  const int64_t* ids_R = nullptr;
  const float* grads_RD = nullptr;
  const int64_t* counts_R = nullptr;  // null: sum of gradients; else mean
  const int64_t* step = nullptr;
  const double* lr = nullptr;
  const float* found_inf = nullptr;
  uint64_t seed = 0;
};
