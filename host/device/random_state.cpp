// SPDX-License-Identifier: Apache-2.0

#include "host/device/random_state.hpp"

#include "host/tensor/philox.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace tenon {

void seed_default_generator(uint64_t seed) {
  // The engine is mt19937, which uses only the lower 32 bits of its seed.
  const uint64_t mixed = mix_bits(seed);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed((mixed ^ (mixed >> 32)) & 0xFFFFFFFF);
}

void seed_default_generators(uint64_t seed, at::Device device) {
  seed_default_generator(seed);
  if (!device.is_cpu() && !device.is_meta()) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(seed);
  }
}

RandomStateGuard::RandomStateGuard() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  saved_ = generator.get_state();
}

RandomStateGuard::~RandomStateGuard() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(saved_);
}

}  // namespace tenon
