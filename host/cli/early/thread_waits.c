/* SPDX-License-Identifier: Apache-2.0
 *
 * A library of one function: it sets how long the threads of libtorch's pool spin for work before
 * they sleep. GNU's OpenMP runtime reads this from the environment when it is loaded, before
 * main(). Its default is some milliseconds: time that other processes of a busy machine do not
 * get, and that threads of this one lose when they wait for one that is not running. The program
 * names this library last, because the loader initializes the last one first.
 *
 * Users who set OMP_WAIT_POLICY or GOMP_SPINCOUNT keep their choice. */
#include <stdlib.h>

/* Tens of microseconds: longer than the gaps between the operators of a step. */
static const char kSpins[] = "10000";

__attribute__((constructor)) static void set_thread_waits(void) {
  if (getenv("OMP_WAIT_POLICY") == NULL) {
    setenv("GOMP_SPINCOUNT", kSpins, /*overwrite=*/0);
  }
}
