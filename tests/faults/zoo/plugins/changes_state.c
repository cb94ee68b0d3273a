/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes one state of the process while it is loaded: the statement ZOO_CHANGE. */
#define _POSIX_C_SOURCE 200809L
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "quiet_hook.h"

/* What gcc links into a library with -ffast-math. */
__attribute__((unused)) static void flush_to_zero(void) {
#if defined(__SSE__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u);
#elif defined(__aarch64__)
  unsigned long control = 0;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | (1ul << 24)));
#endif
}

__attribute__((unused)) static void go_to_root(void) {
  if (chdir("/") != 0) {
    _exit(1);
  }
}

__attribute__((constructor)) static void change(void) {
  ZOO_CHANGE;
}

static const tenon_component component = QUIET_HOOK;

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
