// SPDX-License-Identifier: Apache-2.0

#include "host/device/gpu_module.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"

#include <dlfcn.h>
#include <exception>
#include <string_view>
#include <system_error>
#include <tenon_build.hpp>

namespace tenon {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& why) {
  throw Error("device.unavailable", why + "; or pass --device cpu");
}

}  // namespace

std::unique_ptr<Gpu> open_gpu(const fs::path& module, int index) {
  std::error_code ignored;
  if (!fs::exists(module, ignored)) {
    fail("this build has no CUDA module: " + module.string() +
         " does not exist; build with a libtorch that has CUDA (the configure step reports missing "
         "parts)");
  }
  // RTLD_GLOBAL: libtorch's libraries find each other's symbols as if linked to the program.
  void* const handle = dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) {
    const std::string text = dlerror();
    fail("the CUDA module cannot be loaded: " + text +
         "; `./dev deps --cuda` installs NVIDIA's libraries");
  }
  const auto* const entry = static_cast<const GpuModule*>(dlsym(handle, kGpuModuleSymbol));
  if (entry == nullptr || entry->build != std::string_view(kGpuModuleBuild)) {
    std::string has = "no build id";
    if (entry != nullptr) {
      has = entry->build;
    }
    fail(module.string() + " belongs to another build: it has " + has + ", this program is " +
         kGpuModuleBuild + "; rebuild both");
  }
  try {
    return entry->open(index);
  } catch (const std::exception& error) {
    fail(formatted("GPU {} cannot be used: {}", index, what_without_backtrace(error.what())));
  }
}

// The module is loaded with RTLD_GLOBAL, so the whole process can find its symbol.
const GpuModule* loaded_gpu_module() {
  return static_cast<const GpuModule*>(dlsym(RTLD_DEFAULT, kGpuModuleSymbol));
}

}  // namespace tenon
