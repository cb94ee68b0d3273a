// SPDX-License-Identifier: Apache-2.0
//
// Source: CUDA driver API, sections "Initialization", "Device Management" and "Error Handling".

#include "host/device/gpu_driver.hpp"

#include "host/text/formatted.hpp"

#include <dlfcn.h>

namespace tenon {
namespace {

// CUresult: 0 is success.
using Init = int (*)(unsigned flags);
using CountDevices = int (*)(int* count);
using ErrorText = int (*)(int error, const char** text);
constexpr int kNoDevice = 100;

template <class Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string error_text(void* library, int error) {
  const auto text_of = find<ErrorText>(library, "cuGetErrorString");
  const char* text = nullptr;
  if (text_of != nullptr && text_of(error, &text) == 0 && text != nullptr) {
    return text;
  }
  return formatted("error {}", error);
}

}  // namespace

GpuDriver ask_gpu_driver(const std::string& library) {
  GpuDriver driver;
  // Never closed: it may have started threads.
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    driver.problem = "no NVIDIA driver found: " + std::string(dlerror());
    return driver;
  }
  const auto init = find<Init>(handle, "cuInit");
  const auto count_devices = find<CountDevices>(handle, "cuDeviceGetCount");
  if (init == nullptr || count_devices == nullptr) {
    driver.problem = library + " is not a CUDA driver: it lacks cuInit or cuDeviceGetCount";
    return driver;
  }
  driver.is_there = true;
  int error = init(0);
  if (error == 0) {
    error = count_devices(&driver.num_gpus);
  }
  if (error == kNoDevice || (error == 0 && driver.num_gpus < 1)) {
    driver.num_gpus = 0;
    driver.problem = "the NVIDIA driver detects no GPU (CUDA_VISIBLE_DEVICES may hide it)";
  } else if (error != 0) {
    driver.num_gpus = 0;
    driver.problem = "the NVIDIA driver failed to start: " + error_text(handle, error);
  }
  return driver;
}

}  // namespace tenon
