/* SPDX-License-Identifier: Apache-2.0
 *
 * The three functions of the CUDA driver that the host asks before it loads CUDA.
 *
 *   FAKE_CUDA_INIT=n    what cuInit returns; 0 without it
 *   FAKE_CUDA_GPUS=n    how many GPUs there are; 1 without it */
#include <stdlib.h>

static int number(const char* variable, int otherwise) {
  const char* const text = getenv(variable);
  return text != NULL ? atoi(text) : otherwise;
}

int cuInit(unsigned flags) {
  (void)flags;
  return number("FAKE_CUDA_INIT", 0);
}

int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_GPUS", 1);
  return 0;
}

int cuGetErrorString(int error, const char** text) {
  (void)error;
  *text = "the fake driver is out of order";
  return 0;
}
