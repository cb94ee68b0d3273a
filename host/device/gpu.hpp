// SPDX-License-Identifier: Apache-2.0
//
// What the host asks of GPUs. The folder no_gpu/ implements it for builds without any; a build with
// CUDA brings another implementation of this header.
// Threads: every function may be called from any thread.

#pragma once

#include <string>

namespace tenon {

// Number of GPUs that this process can use.
int num_gpus() noexcept;

// True if host memory can be pinned, so that copies to a GPU run beside the computation.
bool can_pin_memory() noexcept;

// One line for people about GPU `index`, below num_gpus().
std::string describe_gpu(int index);

}  // namespace tenon
