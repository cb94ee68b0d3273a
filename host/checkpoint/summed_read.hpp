// SPDX-License-Identifier: Apache-2.0
//
// Reads a stretch of a bundle's file and sums it up on the way, at the speed of reading alone: two
// threads take turns, so that one sums up while the other reads. The checksum sees the bytes in
// order.
// Threads: any.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/checkpoint/checksum.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tenon {

// Fills `out` from byte `begin` of the file on. Without a checksum it only reads.
// Errors  those of BundleStorage::read; `sum` is of no use then
void read_summed(BundleStorage& storage,
                 const std::string& bundle,
                 const std::string& file,
                 uint64_t begin,
                 std::span<std::byte> out,
                 Checksum* sum);

}  // namespace tenon
