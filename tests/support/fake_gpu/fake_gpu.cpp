// SPDX-License-Identifier: Apache-2.0
//
// A GPU module without a GPU, for tests: its "device" is the CPU, so that a run goes through all
// that a run on a GPU goes through but the kernels. It is strict where CUDA would be silent: the
// tensors that were uploaded are copies, and what they were copied from is spoilt when the upload
// ends, so that a run which reads it gives other numbers.
//
//   FAKE_GPU_OPEN=text          opening fails with the text
//   FAKE_GPU_UPLOADS=n          upload n, from 1, finds no memory
//   FAKE_GPU_REPORT=file        is written at the end: the numbers of uploads and of waits
//
// Threads: as gpu.hpp.

#include "host/device/gpu.hpp"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <tenon_build.hpp>
#include <utility>

#ifndef FAKE_GPU_BUILD
#define FAKE_GPU_BUILD kGpuModuleBuild
#endif

namespace tenon {
namespace {

int64_t number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoll(text, nullptr, 10) : 0;
}

class FakeUpload final : public Upload {
 public:
  explicit FakeUpload(std::vector<at::Tensor> tensors) : sources_(std::move(tensors)) {
    for (const at::Tensor& source : sources_) {
      copies_.push_back(source.clone());
    }
  }

  std::vector<at::Tensor> finish() override {
    for (at::Tensor& source : sources_) {
      source.zero_();
    }
    return std::move(copies_);
  }

 private:
  std::vector<at::Tensor> sources_;
  std::vector<at::Tensor> copies_;
};

class FakeGpu final : public Gpu {
 public:
  ~FakeGpu() override {
    if (const char* const file = std::getenv("FAKE_GPU_REPORT")) {
      std::ofstream(file) << num_uploads_ << " uploads, " << num_waits_ << " waits\n";
    }
  }

  at::Device device() const override { return at::kCPU; }
  std::string describe() const override { return "Fake GPU, 1 GiB"; }
  void* stream() const override { return const_cast<FakeGpu*>(this); }

  std::unique_ptr<Upload> upload(std::vector<at::Tensor> tensors) override {
    if (++num_uploads_ == number("FAKE_GPU_UPLOADS")) {
      refused_ = RefusedMemory{.requested = 3 << 20, .memory = memory()};
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "the fake GPU is full");
    }
    return std::make_unique<FakeUpload>(std::move(tensors));
  }

  void synchronize() override { ++num_waits_; }

  MemoryPins memory_pins() const override { return {}; }

  GpuMemory memory() const override {
    return {.allocated = 600 << 20,
            .reserved = 800 << 20,
            .peak_allocated = 700 << 20,
            .peak_reserved = 800 << 20,
            .free = 100 << 20,
            .total = 1 << 30};
  }

  std::optional<RefusedMemory> refused() const override { return refused_; }

 private:
  int64_t num_uploads_ = 0;
  int64_t num_waits_ = 0;
  std::optional<RefusedMemory> refused_;
};

std::unique_ptr<Gpu> open(int /*index*/) {
  if (const char* const text = std::getenv("FAKE_GPU_OPEN")) {
    throw std::runtime_error(text);
  }
  return std::make_unique<FakeGpu>();
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const GpuModule tenon_gpu_module = {FAKE_GPU_BUILD, &open, nullptr, nullptr, nullptr};

}  // namespace tenon
