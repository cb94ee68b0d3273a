// SPDX-License-Identifier: Apache-2.0
//
// libtorch's default CPU generator, which dropout and the initialisers of modules draw from. The
// host seeds it before each forward by (run, step, microbatch, block, data rank), so that it has no
// state worth saving. Threads: the train thread alone. Workers draw from tenon.random/1, never from
// here.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// Seeds the generator; a few microseconds, so that it can be done before each block. All 64 bits of
// the seed count, though libtorch's engine has 32: they are mixed down.
//
// Threads  [step]
void seed_default_generator(uint64_t seed);

// Puts the default generator back to where it was.
class RandomStateGuard {
 public:
  RandomStateGuard();
  RandomStateGuard(const RandomStateGuard&) = delete;
  RandomStateGuard& operator=(const RandomStateGuard&) = delete;
  ~RandomStateGuard();

 private:
  at::Tensor saved_;
};

}  // namespace tenon
