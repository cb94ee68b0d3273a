// SPDX-License-Identifier: Apache-2.0
//
// How the process computes, set up once at its start: the number of threads, and what makes a run
// repeatable. These are settings of libtorch and its libraries, which keep them per process;
// nothing else in the host changes them. What it computes on is compute_device.hpp's.

#pragma once

#include <string>

namespace tenon {

// Sets the number of compute threads: libtorch's intra-op pool, which parallel_service uses too.
// The inter-op pool gets one thread: blocks run one after the other.
//
// Errors   device.bad_threads if n is below 1
// Threads  [main], before the first operator
void set_compute_threads(int n);
int num_compute_threads() noexcept;

// Makes libtorch choose deterministic kernels, cuDNN's among them, and refuse operators that have
// none. Memory that an operator leaves unwritten is not filled with NaN, as libtorch would do by
// default in this mode: it costs a pass over each tensor, and no component may read such memory
// anyway. Off leaves libtorch as it is by default.
//
// Threads  [main], before the first operator
enum class Deterministic { kNo, kYes };
void set_deterministic(Deterministic deterministic);

// Asks MKL for its reproducible code path: the same bits from run to run on the same kind of
// machine, whatever the alignment of its arguments. It sets the variable MKL_CBWR, unless the
// environment already has it; MKL reads it once, at its first call, and never again.
//
// Threads  [main], before the first operator and before any other thread: it writes the environment
// Source   oneMKL developer guide, "Conditional Numerical Reproducibility"
void choose_reproducible_math();

// Asks cuBLAS for the same bits from run to run: a workspace of fixed size for each stream. It sets
// the variable CUBLAS_WORKSPACE_CONFIG, unless the environment already has it; without it libtorch
// refuses matrix products on a GPU in deterministic mode.
//
// Threads  [main], before a GPU is opened and before any other thread: it writes the environment
// Source   cuBLAS documentation, "Results reproducibility"
void choose_reproducible_gpu_math();

// The value of MKL_CBWR, "" where it is not set: for the run report and checkpoints.
std::string reproducible_math();

// One line for people: "2 threads, AVX512, MKL_CBWR=AUTO,STRICT".
std::string describe_cpu();

}  // namespace tenon
