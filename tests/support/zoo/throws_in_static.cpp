// SPDX-License-Identifier: Apache-2.0
//
// Throws while the library is being mapped: no try/catch of the host could help.
#include <tenon/plugin.h>

#include <stdexcept>

namespace {

int throw_something() {
  throw std::runtime_error("the zoo's static initialiser failed");
}

[[maybe_unused]] const int kValue = throw_something();

}  // namespace

extern "C" TENON_EXPORT tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return nullptr;
}
