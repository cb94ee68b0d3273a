// SPDX-License-Identifier: Apache-2.0
//
// NCCL, c10d's engine on GPUs, for the CUDA module. No other file of the host includes NCCL's
// header.
// Threads: [main].

// Without this macro, libtorch's header for NCCL groups is empty.
#define USE_C10D_NCCL

#include "host/device/gpu.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <utility>

namespace tenon {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(c10::intrusive_ptr<c10d::Store> store,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(
      std::move(store), static_cast<int>(rank), static_cast<int>(size), std::move(options));
}

}  // namespace tenon
