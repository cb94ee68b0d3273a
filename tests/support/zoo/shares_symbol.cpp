// SPDX-License-Identifier: Apache-2.0
//
// A plugin that must be refused before any of its code runs: loading it aborts. It is built without
// the SDK's version script, so it exports the static data of its class. g++ makes such symbols
// unique: a second plugin with a class of this name would count in the variables of the first.
#include <tenon/plugin.h>

#include <cstdlib>

TENON_MANIFEST(ZOO_MANIFEST);

class Counter {
 public:
  inline static int instances = 0;

  static int& calls() {
    static int count = 0;
    return count;
  }
};

#ifdef __clang__
// clang makes no symbol unique by itself. This one is Counter::total.
__asm__(
    ".pushsection .data\n"
    ".globl _ZN7Counter5totalE\n"
    ".type _ZN7Counter5totalE, @gnu_unique_object\n"
    ".size _ZN7Counter5totalE, 4\n"
    "_ZN7Counter5totalE: .long 0\n"
    ".popsection\n");
#endif

__attribute__((constructor)) static void abort_at_once() {
  std::abort();
}

extern "C" TENON_EXPORT tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  (void)args;
  ++Counter::instances;
  ++Counter::calls();
  return nullptr;
}
