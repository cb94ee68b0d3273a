// SPDX-License-Identifier: Apache-2.0
//
// Shapes of normalizations, convolutions and relu on meta tensors. libtorch has these kernels in
// Python only. Without them, a block with one of these operators cannot be measured for a plan.
// Threads: any.
#pragma once

namespace tenon {

// Registers the kernels that libtorch lacks, for the life of the process. Later calls do nothing.
void register_meta_kernels();

}  // namespace tenon
