// SPDX-License-Identifier: Apache-2.0
//
// Where measured choices of kernels (kernel_choice.hpp) are kept, so that all runs of a user on one
// machine have the same ones: ${XDG_CACHE_HOME:-~/.cache}/tenon/kernels.json, by machine.
//
// Invariant: a missing, unwritable or corrupt cache file costs time, never a run.
#pragma once

#include "host/kernels/kernel_choice.hpp"

#include <string>

namespace tenon {

// What answers depend on: the processor's model and instruction sets, the versions of the host and
// of libtorch, and its settings for reproducible math.
std::string kernel_machine();

// Returns a function that keeps the answers of this process in the file, and that reads those of
// other processes of the same machine. Processes measure one after the other. Null for "".
KeepKernelAnswer kernel_answers_in(const std::string& file);
// The file of this user; "" if no home folder is known.
std::string default_kernel_cache_file();

// The answers of this process as JSON that ends in a line break, for the run folder.
std::string kernel_answers_text();

}  // namespace tenon
