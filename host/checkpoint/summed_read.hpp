// SPDX-License-Identifier: Apache-2.0
//
// Reads a range of a checkpoint's file and computes its checksum, at the speed of reading alone.
// Two threads alternate: one computes the checksum while the other reads. The checksum processes
// the bytes in order.
// Threads: any.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/io/checksum.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tenon {

// Fills `out` from byte `begin` of the file. If `sum` is null, it only reads.
// Errors  those of CheckpointStore::read; `sum` is then unusable
void read_summed(CheckpointStore& storage,
                 const std::string& checkpoint,
                 const std::string& file,
                 uint64_t begin,
                 std::span<std::byte> out,
                 Checksum* sum);

}  // namespace tenon
