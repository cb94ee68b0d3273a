// SPDX-License-Identifier: Apache-2.0
//
// What the process computes on, set up once at its start: the device, the number of threads, and
// what makes a run repeatable. These are settings of libtorch and its libraries, which keep them
// per process; nothing else in the host changes them.

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace tenon {

// The device that a name means: "cpu", "cuda", "cuda:1".
//
// Errors  device.unavailable for one that this build or machine does not have, or an unknown name
at::Device select_device(const std::string& name);

// Sets the number of compute threads: libtorch's intra-op pool, which parallel_service uses too.
// The inter-op pool gets one thread: blocks run one after the other.
//
// Errors   device.bad_threads if n is below 1
// Threads  [main], before the first operator
void set_compute_threads(int n);
int num_compute_threads() noexcept;

// Makes libtorch choose deterministic kernels, and refuse operators that have none. Memory that an
// operator leaves unwritten is not filled with NaN, as libtorch would do by default in this mode:
// it costs a pass over each tensor, and no component may read such memory anyway. Off leaves
// libtorch as it is by default.
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

// The value of MKL_CBWR, "" where it is not set: for the run report and checkpoints.
std::string reproducible_math();

// One line for people: "2 threads, AVX512, MKL_CBWR=AUTO,STRICT", or the GPU.
std::string describe_device(const at::Device& device);

}  // namespace tenon
