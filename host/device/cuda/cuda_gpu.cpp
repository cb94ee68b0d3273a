// SPDX-License-Identifier: Apache-2.0
//
// Implements gpu.hpp with CUDA, as a module. Apart from NCCL's backend and the kernels beside this
// file, it is the only file of the host that includes CUDA headers.
// The module loads libtorch's operators, allocator and random numbers for GPUs. It adds the parts
// that libtorch leaves to its users: streams, asynchronous copies and memory metrics.
// Invariant: a tensor that is copied on the copy stream and used on the compute stream is recorded
// by the allocator for both streams. So its memory is not reused while either stream needs it.
// Threads: the train thread; the observer of failed allocations runs on the allocating thread.
// Source: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution".

#include "host/device/gpu.hpp"

#ifdef TENON_HAS_KERNELS
#include "host/device/cuda/square_sums.hpp"
#endif

#include <ATen/Context.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceType.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <tenon_build.hpp>
#include <utility>

namespace tenon {
namespace {

namespace cuda = c10::cuda;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

GpuMemory memory_of(c10::DeviceIndex index) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = cuda::CUDACachingAllocator::getDeviceStats(index);
  const auto& allocated = stats.allocated_bytes[kAll];
  const auto& reserved = stats.reserved_bytes[kAll];
  size_t free = 0;
  size_t total = 0;
  const cuda::CUDAGuard guard(index);
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.allocated = allocated.current,
          .reserved = reserved.current,
          .peak_allocated = allocated.peak,
          .peak_reserved = reserved.peak,
          .free = static_cast<int64_t>(free),
          .total = static_cast<int64_t>(total)};
}

// The last failed allocation, as recorded by the allocator's observer. Lives as long as the
// process, because observers cannot be detached.
struct RefusalNote {
  std::mutex mutex;
  std::optional<RefusedMemory> refused;
};

RefusalNote& refusal_note() {
  static RefusalNote note;
  return note;
}

class CudaUpload final : public Upload {
 public:
  CudaUpload(std::vector<at::Tensor> tensors,
             at::Device device,
             cuda::CUDAStream copy_stream,
             cuda::CUDAStream compute_stream)
      : compute_stream_(compute_stream) {
    const cuda::CUDAStreamGuard guard(copy_stream);
    tensors_.reserve(tensors.size());
    for (const at::Tensor& tensor : tensors) {
      // The allocator of pinned memory keeps the source alive until the copy is done.
      tensors_.push_back(tensor.to(tensor.options().device(device), /*non_blocking=*/true));
    }
    copied_.record(copy_stream);
  }

  std::vector<at::Tensor> finish() override {
    copied_.block(compute_stream_);
    for (const at::Tensor& tensor : tensors_) {
      tensor.record_stream(compute_stream_.unwrap());
    }
    return std::move(tensors_);
  }

 private:
  cuda::CUDAStream compute_stream_;
  cuda::CUDAEvent copied_;
  std::vector<at::Tensor> tensors_;
};

bool pin(void* memory, size_t bytes) {
  if (cudaHostRegister(memory, bytes, cudaHostRegisterPortable) == cudaSuccess) {
    return true;
  }
  static_cast<void>(cudaGetLastError());  // clears the error, or the next call would report it
  return false;
}

void unpin(void* memory) {
  if (cudaHostUnregister(memory) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
  }
}

class CudaGpu final : public Gpu {
 public:
  explicit CudaGpu(c10::DeviceIndex index)
      : device_(c10::kCUDA, index),
        compute_stream_(cuda::getStreamFromPool(/*isHighPriority=*/true, index)),
        copy_stream_(cuda::getStreamFromPool(/*isHighPriority=*/false, index)) {
    cuda::setCurrentCUDAStream(compute_stream_);
  }

  at::Device device() const override { return device_; }

  std::string describe() const override {
    cudaDeviceProp properties{};
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device_.index()));
    int version = 0;  // 13000 for 13.0
    C10_CUDA_CHECK(cudaRuntimeGetVersion(&version));
    char text[sizeof(properties.name) + 64];
    std::snprintf(text,
                  sizeof(text),
                  "%s, %.0f GiB, CUDA %d.%d",
                  properties.name,
                  static_cast<double>(properties.totalGlobalMem) / kGiB,
                  version / 1000,
                  version % 1000 / 10);
    return text;
  }

  void* stream() const override { return compute_stream_.stream(); }

  std::unique_ptr<Upload> upload(std::vector<at::Tensor> tensors) override {
    return std::make_unique<CudaUpload>(std::move(tensors), device_, copy_stream_, compute_stream_);
  }

  void synchronize() override { compute_stream_.synchronize(); }

  MemoryPins memory_pins() const override { return {&pin, &unpin}; }

  GpuMemory memory() const override { return memory_of(device_.index()); }

  std::optional<RefusedMemory> refused() const override {
    RefusalNote& note = refusal_note();
    const std::lock_guard lock(note.mutex);
    return note.refused;
  }

 private:
  at::Device device_;
  cuda::CUDAStream compute_stream_;
  cuda::CUDAStream copy_stream_;
};

// Called on the allocating thread, without any of the allocator's locks held.
void note_refusal(int64_t device, size_t requested, size_t /*total*/, size_t /*free*/) {
  RefusedMemory refused;
  refused.requested = static_cast<int64_t>(requested);
  refused.memory = memory_of(static_cast<c10::DeviceIndex>(device));
  RefusalNote& note = refusal_note();
  const std::lock_guard lock(note.mutex);
  note.refused = refused;
}

std::unique_ptr<Gpu> open(int index) {
  at::Context& context = at::globalContext();
  if (!at::Context::hasCUDA()) {
    throw std::runtime_error(
        "libtorch does not see it: its CUDA was loaded after something had asked for a GPU, or "
        "the driver is too old for it");
  }
  context.lazyInitDevice(c10::kCUDA);
  cuda::set_device(static_cast<c10::DeviceIndex>(index));
  // fp32 means fp32: by default, convolutions use TF32; matrix products do not.
  context.setAllowTF32CuDNN(false);
  cuda::CUDACachingAllocator::attachOutOfMemoryObserver(note_refusal);
  auto gpu = std::make_unique<CudaGpu>(static_cast<c10::DeviceIndex>(index));
  // Runs a first kernel and waits for it. A GPU for which this libtorch has no kernels fails here,
  // not in the middle of the first step.
  at::zeros({1}, at::TensorOptions().dtype(at::kFloat).device(gpu->device()));
  gpu->synchronize();
  return gpu;
}

#ifdef TENON_HAS_KERNELS

SquareDtype square_dtype(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
      return SquareDtype::kFloat;
    case at::kDouble:
      return SquareDtype::kDouble;
    case at::kHalf:
      return SquareDtype::kHalf;
    case at::kBFloat16:
      return SquareDtype::kBFloat16;
    default:
      throw std::runtime_error("squares of the dtype " + std::string(c10::toString(dtype)));
  }
}

void add_squares(at::Tensor& words, const at::Tensor& flat, int64_t chunk) {
  const cuda::CUDAGuard guard(words.device());
  C10_CUDA_CHECK(launch_square_sums(flat.const_data_ptr(),
                                    square_dtype(flat.scalar_type()),
                                    flat.numel(),
                                    chunk,
                                    words.mutable_data_ptr<int64_t>(),
                                    cuda::getCurrentCUDAStream()));
}

at::Tensor exact_root(const at::Tensor& words) {
  const cuda::CUDAGuard guard(words.device());
  at::Tensor root = at::zeros({}, words.options().dtype(at::kDouble));
  C10_CUDA_CHECK(launch_exact_root(words.const_data_ptr<int64_t>(),
                                   root.mutable_data_ptr<double>(),
                                   cuda::getCurrentCUDAStream()));
  return root;
}

#endif

}  // namespace

extern "C" __attribute__((visibility("default"))) const GpuModule tenon_gpu_module = {
    kGpuModuleBuild,
    &open,
#ifdef TENON_HAS_NCCL
    &make_nccl_backend,
#else
    nullptr,
#endif
#ifdef TENON_HAS_KERNELS
    &add_squares,
    &exact_root,
#else
    nullptr,
    nullptr,
#endif
};

}  // namespace tenon
