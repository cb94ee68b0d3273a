// SPDX-License-Identifier: Apache-2.0
//
// A GPU as the host uses it, beside what operators do on it. The implementation lies in a shared
// module of its own (cuda/), which is loaded where a run asks for a GPU (gpu_module.hpp): the
// program itself never links CUDA. Tensors on the GPU are libtorch's; its operators wait for
// nothing.
// Invariants: work is done in stream order on one stream, the compute stream, which is not the
// default one; copies from the host run beside it.
// Threads: the train thread, unless a function says otherwise.

#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace tenon {

// Bytes of a GPU's memory.
struct GpuMemory {
  int64_t allocated = 0;  // in live tensors
  int64_t reserved = 0;   // that the caching allocator holds, `allocated` among them
  int64_t peak_allocated = 0;
  int64_t peak_reserved = 0;
  int64_t free = 0;   // of the device, for any process
  int64_t total = 0;  // of the device
};

// The memory at the moment when the allocator had to refuse.
struct RefusedMemory {
  int64_t requested = 0;  // bytes that were asked for
  GpuMemory memory;
};

// Tensors on their way to the GPU. It may be given up at any time.
class Upload {
 public:
  virtual ~Upload() = default;

  // The tensors on the GPU, in the order given: what is computed from here on waits for them, the
  // calling thread does not. To be called once.
  virtual std::vector<at::Tensor> finish() = 0;
};

// Pin memory of the host's, so that copies from and to GPUs need no separate copy, and take
// that back before the memory goes. As long as the process lives, on any thread.
struct MemoryPins {
  bool (*pin)(void* memory, size_t bytes) = nullptr;  // false if it cannot
  void (*unpin)(void* memory) = nullptr;
};

class Gpu {
 public:
  virtual ~Gpu() = default;

  // The device that its tensors are on.
  virtual at::Device device() const = 0;

  // One line for people: "NVIDIA H200, 139 GiB, CUDA 13.0".
  virtual std::string describe() const = 0;

  // The compute stream, a cudaStream_t.
  virtual void* stream() const = 0;

  // Begins to copy tensors to the GPU beside the computation. They overlap where the tensors lie in
  // pinned memory. Nobody may write to them any more.
  virtual std::unique_ptr<Upload> upload(std::vector<at::Tensor> tensors) = 0;

  // Waits for all that was begun on the compute stream.
  virtual void synchronize() = 0;

  virtual MemoryPins memory_pins() const = 0;

  virtual GpuMemory memory() const = 0;

  // Of the last time that the allocator refused; none if it never has.
  virtual std::optional<RefusedMemory> refused() const = 0;
};

// What a module exports under the name kGpuModuleSymbol.
struct GpuModule {
  // kGpuModuleBuild of <tenon_build.hpp>, which program and module must have from one build: the
  // classes above are no ABI.
  const char* build;
  // Makes GPU `index` the one that the calling thread computes on. Throws what derives from
  // std::exception.
  std::unique_ptr<Gpu> (*open)(int index);
  // NCCL among `size` ranks, each with the GPU that it has opened, which meet in the store. Null
  // where the module was built without NCCL's header. Throws what derives from std::exception.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(c10::intrusive_ptr<c10d::Store> store,
                                                 uint32_t rank,
                                                 uint32_t size,
                                                 std::chrono::milliseconds timeout);
};
// What `make_nccl` is where it is there; see host/distributed/collectives/cuda/nccl_backend.cpp.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(c10::intrusive_ptr<c10d::Store> store,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    std::chrono::milliseconds timeout);
inline constexpr char kGpuModuleSymbol[] = "tenon_gpu_module";

}  // namespace tenon
