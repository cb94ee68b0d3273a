// SPDX-License-Identifier: Apache-2.0
//
// Updates rows on a GPU: a group of threads per row, each thread striding over elements. Formulas
// and rounding are shared with the CPU (row_formulas.hpp, row_elements.hpp). Learning rate, step
// and found_inf are read on the device, so the host does not wait.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "row_settings.hpp"

namespace rows_cuda {

#define ROW_INLINE __host__ __device__ __forceinline__

ROW_INLINE float root_of(float x) {
  return sqrtf(x);
}
ROW_INLINE float scalar_root_of(float x) {
  return sqrtf(x);
}
ROW_INLINE double double_root_of(double x) {
  return sqrt(x);
}
ROW_INLINE double power_of(double x, int64_t n) {
  return pow(x, static_cast<double>(n));
}

#include "row_elements.hpp"
#include "row_formulas.hpp"

// `group` threads, a power of 2 of at most 32, work on a row.
template <class Formula>
__global__ void update_rows_kernel(RowsCall call,
                                   typename Formula::Settings settings,
                                   uint32_t group) {
  if (call.found_inf != nullptr && *call.found_inf == 1.0f) {
    return;
  }
  // Constructing a formula uses fp64, which is slow on many GPUs, so one thread per block does it.
  __shared__ alignas(Formula) unsigned char made[sizeof(Formula)];
  if (threadIdx.x == 0) {
    *reinterpret_cast<Formula*>(made) = Formula(settings, *call.lr, *call.step);
  }
  __syncthreads();
  const Formula formula = *reinterpret_cast<const Formula*>(made);
  const uint32_t rows_in_warp = 32 / group;
  const uint32_t lane = threadIdx.x % 32;
  const size_t warp = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const size_t num_warps = static_cast<size_t>(gridDim.x) * blockDim.x / 32;
  for (size_t first = warp * rows_in_warp; first < call.n; first += num_warps * rows_in_warp) {
    const size_t i = first + lane / group;
    const bool is_row = i < call.n;
    float scale = 0.0f;
    if constexpr (Formula::kHasRowSlot) {
      float sum = 0.0f;
      if (is_row) {
        for (uint32_t j = lane % group; j < call.dim; j += group) {
          sum += element_square(call, formula, i, j);
        }
      }
      for (uint32_t offset = group / 2; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
      }
      if (is_row && lane % group == 0) {
        char* const row = row_address(call, call.rows_R[i]);
        scale = formula.next_scale(
            sum / static_cast<float>(call.dim),
            reinterpret_cast<float*>(row + call.slot_offsets[Formula::kNumSlots]));
      }
      scale = __shfl_sync(0xFFFFFFFFu, scale, lane - lane % group);
    }
    if (is_row) {
      for (uint32_t j = lane % group; j < call.dim; j += group) {
        update_element(call, formula, i, j, scale);
      }
    }
  }
}

// Enqueues an update. Returns an error message, or null.
template <class Formula>
const char* launch(const RowsCall& call, const typename Formula::Settings& settings, void* stream) {
  if (call.n == 0) {
    return nullptr;
  }
  constexpr uint32_t kThreads = 256;
  constexpr size_t kMostBlocks = 65535;
  uint32_t group = 1;
  while (group < 32 && group < call.dim) {
    group *= 2;
  }
  const size_t rows_in_block = kThreads / group;
  size_t blocks = (call.n + rows_in_block - 1) / rows_in_block;
  blocks = blocks < kMostBlocks ? blocks : kMostBlocks;
  update_rows_kernel<Formula>
      <<<static_cast<unsigned>(blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          call, settings, group);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

}  // namespace rows_cuda
