// SPDX-License-Identifier: Apache-2.0
//
// The host's interface to a GPU, apart from operators. The implementation is a separate shared
// module (cuda/), loaded if a run requests a GPU (gpu_module.hpp). The program itself never links
// CUDA. Tensors on the GPU are libtorch's, and its operators are asynchronous.
// Invariants: work runs in order on one stream, the compute stream, which is not the default
// stream; copies from the host run concurrently with it.
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
  int64_t reserved = 0;   // held by the caching allocator, including `allocated`
  int64_t peak_allocated = 0;
  int64_t peak_reserved = 0;
  int64_t free = 0;   // on the device, for any process
  int64_t total = 0;  // of the device
};

// The memory at the time of a failed allocation.
struct RefusedMemory {
  int64_t requested = 0;  // bytes
  GpuMemory memory;
};

// Tensors that are being copied to the GPU. May be destroyed at any time.
class Upload {
 public:
  virtual ~Upload() = default;

  // Returns the tensors on the GPU, in the given order. Later work on the compute stream waits for
  // the copies; the calling thread does not. Call once.
  virtual std::vector<at::Tensor> finish() = 0;
};

// Functions that pin host memory, so that copies from and to GPUs need no intermediate copy, and
// unpin it before it is freed. Callable for the life of the process, on any thread.
struct MemoryPins {
  bool (*pin)(void* memory, size_t bytes) = nullptr;  // false if it fails
  void (*unpin)(void* memory) = nullptr;
};

class Gpu {
 public:
  virtual ~Gpu() = default;

  // The device of its tensors.
  virtual at::Device device() const = 0;

  // Returns one line for display: "NVIDIA H200, 139 GiB, CUDA 13.0".
  virtual std::string describe() const = 0;

  // The compute stream, a cudaStream_t.
  virtual void* stream() const = 0;

  // Starts copying tensors to the GPU. The copies overlap with computation if the tensors are in
  // pinned memory. The tensors must not be written to from now on.
  virtual std::unique_ptr<Upload> upload(std::vector<at::Tensor> tensors) = 0;

  // Waits for all work on the compute stream.
  virtual void synchronize() = 0;

  virtual MemoryPins memory_pins() const = 0;

  virtual GpuMemory memory() const = 0;

  // Returns the last failed allocation of the process; nothing if none has failed.
  virtual std::optional<RefusedMemory> refused() const = 0;
};

// The export of the module, under the name kGpuModuleSymbol.
struct GpuModule {
  // kGpuModuleBuild of <tenon_build.hpp>. Program and module must come from the same build, because
  // the classes above are not an ABI.
  const char* build;
  // Opens GPU `index`, and makes it the current GPU of the calling thread. Throws exceptions
  // derived from std::exception.
  std::unique_ptr<Gpu> (*open)(int index);
  // Creates an NCCL backend for `size` ranks, each with its open GPU, with rendezvous in the store.
  // Null if the module was built without NCCL's header. Throws exceptions derived from
  // std::exception.
  c10::intrusive_ptr<c10d::Backend> (*make_nccl)(c10::intrusive_ptr<c10d::Store> store,
                                                 uint32_t rank,
                                                 uint32_t size,
                                                 std::chrono::milliseconds timeout);
  // The functions of exact_squares.hpp for tensors on the GPU, in order on the current stream. Null
  // if the module was built without CUDA's compiler. Throw exceptions derived from std::exception.
  void (*add_squares)(at::Tensor& words, const at::Tensor& flat, int64_t chunk);
  at::Tensor (*exact_root)(const at::Tensor& words);
};
// The value of `make_nccl`, unless null; see host/distributed/collectives/cuda/nccl_backend.cpp.
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(c10::intrusive_ptr<c10d::Store> store,
                                                    uint32_t rank,
                                                    uint32_t size,
                                                    std::chrono::milliseconds timeout);
inline constexpr char kGpuModuleSymbol[] = "tenon_gpu_module";

}  // namespace tenon
