// SPDX-License-Identifier: Apache-2.0
//
// NCCL, c10d's engine on GPUs, for the module: the only file of the host that sees NCCL's header.
// Threads: [main].

// libtorch's header of NCCL's groups is empty without it.
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
