/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes the state of the process while it is being loaded, as a library linked with -ffast-math
 * and a careless start function do. Otherwise a good plugin. */
#define _POSIX_C_SOURCE 200809L
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "minimal_loss.h"

__attribute__((constructor)) static void change(void) {
  fesetround(FE_TOWARDZERO);
#ifdef __SSE__
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040u); /* denormal numbers are zero */
#endif
  signal(SIGTERM, SIG_IGN);
  umask(0777);
  setlocale(LC_ALL, "C.UTF-8");
  if (chdir("/") != 0) {
    _exit(1);
  }
}

static const tenon_component component = ZOO_LOSS("zoo");

tenon_status* tenon_plugin_entry(tenon_entry_args* args) {
  args->out_abi_minor = TENON_ABI_MINOR;
  return args->register_component(args->registrar, &component);
}
