// SPDX-License-Identifier: Apache-2.0
//
// Compute settings of the process: the number of threads, and settings for reproducible runs.
// libtorch and its libraries keep them per process. A run changes them through its process
// (host/process/compute_settings.hpp). compute_device.hpp selects the device.

#pragma once

#include <string>

namespace tenon {

// Sets the number of compute threads: libtorch's intra-op pool, which parallel_service also uses.
// The inter-op pool gets one thread, because blocks run one after the other.
//
// Errors   device.bad_threads if n is below 1 or above 64 times the processors that this process may
//          use; run.out_of_resources if the system refuses n threads
// Threads  [main], before the first operator
void set_compute_threads(int n);
int num_compute_threads() noexcept;

// Makes libtorch choose deterministic kernels, including cuDNN's, and reject operators that have
// none. By default, libtorch fills uninitialized memory with NaN in this mode. This is off, because
// it costs a pass over each tensor, and no component may read such memory anyway. kNo means
// libtorch's defaults.
//
// Threads  [main], before the first operator
enum class Deterministic { kNo, kYes };
void set_deterministic(Deterministic deterministic);

// The flags of libtorch that set_deterministic() changes.
struct DeterministicFlags {
  bool algorithms = false;
  bool warns_only = false;  // instead of rejecting operators
  bool mkldnn = false;
  bool fills_memory = true;  // with NaN
  bool cudnn = false;
};
DeterministicFlags deterministic_flags();
// Threads  [main], while no operator runs
void set_deterministic_flags(const DeterministicFlags& flags);

// Selects MKL's reproducible code path: the same bits in each run on the same kind of machine, for
// any alignment of arguments. Sets the environment variable MKL_CBWR, unless it is already set. MKL
// reads the variable only once, at its first call.
//
// Threads  [main], before the first operator and before any other thread: it writes the environment
// Source   oneMKL developer guide, "Conditional Numerical Reproducibility"
void choose_reproducible_math();

// Makes cuBLAS return the same bits in each run, with a workspace of fixed size per stream. Sets
// the environment variable CUBLAS_WORKSPACE_CONFIG, unless it is already set. Without the variable,
// libtorch rejects matrix products on a GPU in deterministic mode.
//
// Threads  [main], before a GPU is opened and before any other thread: it writes the environment
// Source   cuBLAS documentation, "Results reproducibility"
void choose_reproducible_gpu_math();

// Returns the value of MKL_CBWR for the run report and checkpoints; "" if it is not set.
std::string reproducible_math();

// Returns the processor's model, as /proc/cpuinfo names it: "AMD EPYC 9R14 (AuthenticAMD 25-17)".
// The name alone is not enough, since virtual machines often hide it. `root` replaces "/", for
// tests.
std::string cpu_model(const std::string& root = "/");

// Returns the instruction sets and settings that results depend on: "AVX512, MKL_CBWR=AUTO,STRICT".
// Settings are environment variables that limit the instruction sets of a library.
std::string cpu_features();

// Returns one line for display: "2 threads, AVX512, MKL_CBWR=AUTO,STRICT".
std::string describe_cpu();

}  // namespace tenon
