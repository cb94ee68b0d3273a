// SPDX-License-Identifier: Apache-2.0
//
// Half a warp sums a chunk: its 16 threads are the lanes of host/tensor/chunk_sums.hpp. Products
// and sums are rounded separately, as on the CPU. Each block adds its chunks to words in shared
// memory, and these to the words of the sum. Integers add up to the same words in any order.

#include "host/device/cuda/square_sums.hpp"
#include "host/tensor/exact_words.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace tenon {
namespace {

constexpr int kLanes = 16;
constexpr int kThreads = 256;
constexpr int kBlocksPerProcessor = 8;
constexpr unsigned kWholeWarp = 0xFFFFFFFFU;

using Word = unsigned long long;  // as atomicAdd takes it; adds as int64_t does

__device__ double widened(double value) {
  return value;
}
__device__ double widened(float value) {
  return value;
}
__device__ double widened(__half value) {
  return __half2float(value);
}
__device__ double widened(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <class T>
__global__ void add_square_sums(const T* values, int64_t n, int64_t chunk, Word* words) {
  __shared__ Word of_block[kExactWords];
  for (int k = static_cast<int>(threadIdx.x); k < kExactWords; k += kThreads) {
    of_block[k] = 0;
  }
  __syncthreads();
  const int64_t num_chunks = (n + chunk - 1) / chunk;
  const int64_t lane = threadIdx.x % kLanes;
  const int64_t per_block = kThreads / kLanes;
  const int64_t step = gridDim.x * per_block;
  // All threads of a block make the same number of rounds, since both halves of a warp shuffle.
  for (int64_t first = blockIdx.x * per_block; first < num_chunks; first += step) {
    const int64_t c = first + threadIdx.x / kLanes;
    const int64_t end = c < num_chunks ? min(n, (c + 1) * chunk) : 0;
    double sum = 0;
#pragma unroll 4
    for (int64_t i = c * chunk + lane; i < end; i += kLanes) {
      const double value = widened(values[i]);
      sum = __dadd_rn(sum, __dmul_rn(value, value));
    }
    for (int upper = kLanes / 2; upper > 0; upper /= 2) {
      sum = __dadd_rn(sum, __shfl_down_sync(kWholeWarp, sum, upper, kLanes));
    }
    if (lane == 0 && c < num_chunks) {
      const ExactTerm term = exact_term(sum);
      for (int k = 0; k < term.num_words; ++k) {
        atomicAdd(&of_block[term.word + k], static_cast<Word>(term.digits[k]));
      }
    }
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < kExactWords; k += kThreads) {
    if (of_block[k] != 0) {
      atomicAdd(&words[k], of_block[k]);
    }
  }
}

// One thread.
__global__ void take_exact_root(const int64_t* words, double* root) {
  int64_t carried[kExactWords];
  for (int k = 0; k < kExactWords; ++k) {
    carried[k] = words[k];
  }
  carry_exact(carried);
  *root = sqrt(exact_value(carried));
}

// Returns enough blocks to fill the GPU, and no more than there is work for.
cudaError_t num_blocks_for(int64_t num_chunks, unsigned* num_blocks) {
  int device = 0;
  int num_processors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&num_processors, cudaDevAttrMultiProcessorCount, device);
  }
  const int64_t per_block = kThreads / kLanes;
  const int64_t needed = (num_chunks + per_block - 1) / per_block;
  const int64_t most = int64_t{num_processors} * kBlocksPerProcessor;
  *num_blocks = static_cast<unsigned>(needed < most ? needed : most);
  return error;
}

template <class T>
cudaError_t launch(
    const void* values, int64_t n, int64_t chunk, int64_t* words, cudaStream_t stream) {
  unsigned num_blocks = 0;
  const cudaError_t error = num_blocks_for((n + chunk - 1) / chunk, &num_blocks);
  if (error != cudaSuccess || num_blocks == 0) {
    return error;
  }
  add_square_sums<<<num_blocks, kThreads, 0, stream>>>(
      static_cast<const T*>(values), n, chunk, reinterpret_cast<Word*>(words));
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_square_sums(const void* values,
                               SquareDtype dtype,
                               int64_t n,
                               int64_t chunk,
                               int64_t* words,
                               cudaStream_t stream) {
  switch (dtype) {
    case SquareDtype::kFloat:
      return launch<float>(values, n, chunk, words, stream);
    case SquareDtype::kDouble:
      return launch<double>(values, n, chunk, words, stream);
    case SquareDtype::kHalf:
      return launch<__half>(values, n, chunk, words, stream);
    case SquareDtype::kBFloat16:
      return launch<__nv_bfloat16>(values, n, chunk, words, stream);
  }
  return cudaErrorInvalidValue;
}

cudaError_t launch_exact_root(const int64_t* words, double* root, cudaStream_t stream) {
  take_exact_root<<<1, 1, 0, stream>>>(words, root);
  return cudaGetLastError();
}

}  // namespace tenon
