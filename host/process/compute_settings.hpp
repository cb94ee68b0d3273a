// SPDX-License-Identifier: Apache-2.0
//
// Settings of computation that libtorch and its libraries have once per process: threads, the
// default dtype, determinism, kernels, memory. A run gets an object of this class from its process
// (process.hpp), applies its settings, and destroys the object at its end.
//
// Invariant: the destructor restores the settings from before, also if they were those of another
// object. Objects are destroyed in reverse order of their creation. Five settings stay, because a
// library reads them once, or because memory in use depends on them: environment variables, the
// inter-op pool, the thresholds of malloc, the allocator of CPU tensors, and the functions that pin
// memory.
// Threads: [main], while no operator runs.
#pragma once

#include "host/kernels/kernel_choice.hpp"
#include "host/tensor/staging_memory.hpp"

#include <c10/core/ScalarType.h>

#include <memory>

namespace tenon {

class ComputeSettings {
 public:
  ComputeSettings();
  ~ComputeSettings();
  ComputeSettings(const ComputeSettings&) = delete;
  ComputeSettings& operator=(const ComputeSettings&) = delete;

  // Makes results reproducible (device.hpp): deterministic kernels, and the settings of MKL and
  // cuBLAS, which stay. Call it before the first operator, before a GPU is opened and before other
  // threads exist: it writes the environment.
  void make_reproducible();
  // Suppresses the errors that libtorch's tracer prints on a machine without a GPU. Stays. Writes
  // the environment, as above.
  void quiet_tracer();
  // Keeps freed memory in the process (host_memory.hpp, block_cache.hpp). Stays.
  void keep_memory();
  // Pins staging memory by these functions, which must exist as long as the process. Stays.
  void pin_staging(const StagingPins& pins);
  // Sets the number of compute threads.
  //
  // Errors  those of set_compute_threads()
  void use_threads(int n);
  // Sets the policy for choosing kernels. This, and restoring the policy, forgets all answers.
  void use_kernels(KernelPolicy policy);
  // Lets `keeper` keep the answers that are measured.
  void keep_kernel_answers(KeepKernelAnswer keeper);
  // Sets the dtype in which libtorch modules create parameters.
  void use_default_dtype(at::ScalarType dtype);

 private:
  struct Before;

  const std::unique_ptr<Before> before_;
};

}  // namespace tenon
