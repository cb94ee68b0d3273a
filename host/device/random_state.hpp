// SPDX-License-Identifier: Apache-2.0
//
// libtorch's default generators, for the CPU and a GPU, which dropout and module initializers use.
// The host seeds them before each forward pass by (run, step, microbatch, block, data rank), so
// that their state need not be saved.
// Threads: the train thread only. Workers use tenon.random/1 instead.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// Seeds the CPU generator. Takes a few microseconds, so that it can run before each block. All 64
// bits of the seed are mixed into the 32 bits that libtorch's engine uses.
//
// Threads  [step]
void seed_default_generator(uint64_t seed);
// Seeds the CPU generator and, if `device` is not the CPU, its generator, with the seed unchanged.
void seed_default_generators(uint64_t seed, at::Device device);

// Saves the state of the default CPU generator, and restores it at destruction.
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
