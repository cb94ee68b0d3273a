// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/parquet_module.hpp"

#include <tenon/tensor.h>

#include "host/error/error.hpp"

#include <dlfcn.h>
#include <string_view>
#include <system_error>
#include <tenon_build.hpp>

namespace tenon {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) {
  throw Error("table.parquet_unavailable", what);
}

}  // namespace

size_t parquet_number_size(uint32_t dtype) {
  return dtype == TENON_I32 || dtype == TENON_F32 ? 4 : 8;
}

fs::path parquet_module_file() {
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path built = (folder / "../lib/tenon_parquet.so").lexically_normal();
  const fs::path installed = (folder / TENON_INSTALLED_PARQUET_MODULE).lexically_normal();
  return !fs::exists(built, ignored) && fs::exists(installed, ignored) ? installed : built;
}

const ParquetModule& load_parquet_module(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) {
    fail(file.string() +
         " does not exist, so that no Parquet file can be read or written; build the target "
         "tenon_parquet");
  }
  // RTLD_LOCAL: only the module needs Arrow's symbols.
  void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string text = dlerror();
    fail("the Parquet module cannot be loaded: " + text +
         "; `./dev deps` installs Apache Arrow's libraries");
  }
  const auto* const module = static_cast<const ParquetModule*>(dlsym(handle, kParquetModuleSymbol));
  if (module == nullptr || module->build != std::string_view(kParquetModuleBuild)) {
    const std::string found = module == nullptr ? "no Parquet module" : module->build;
    fail(file.string() + " is of another build (expected " + kParquetModuleBuild + ", found " +
         found + "); build both again");
  }
  return *module;
}

}  // namespace tenon
