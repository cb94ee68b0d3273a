// SPDX-License-Identifier: Apache-2.0
//
// Lets an exception out of its entry, which the ABI forbids.
#include <tenon/plugin.h>

#include <stdexcept>

extern "C" TENON_EXPORT tenon_status* tenon_plugin_entry(tenon_entry_args*) {
  throw std::runtime_error("the zoo's entry failed");
}
