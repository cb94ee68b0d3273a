// SPDX-License-Identifier: Apache-2.0
//
// libtorch's default generators, of the CPU and of a GPU, which dropout and the initializers of
// modules draw from. The host seeds them before each forward by (run, step, microbatch, block, data
// rank), so that they have no state worth saving.
// Threads: the train thread alone. Workers draw
// from tenon.random/1, never from here.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// Seeds the generator; a few microseconds, so that it can be done before each block. All 64 bits of
// the seed count, though libtorch's engine has 32: they are mixed down.
//
// Threads  [step]
void seed_default_generator(uint64_t seed);
// The same, and with it the generator of a device that is no CPU, which takes the seed as it is.
void seed_default_generators(uint64_t seed, at::Device device);

// Puts the default CPU generator back to where it was.
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
