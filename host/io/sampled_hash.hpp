// SPDX-License-Identifier: Apache-2.0
//
// Hashes that show whether files have changed, in a bounded time: small files are read whole, of
// large files only the head, the tail, and blocks in between. A change outside these blocks that
// keeps the size is not found. Not against intent, for which content_hash() exists.
// Threads: any. One call reads several files at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// Files of at most this many bytes together are read whole.
inline constexpr std::int64_t kWholeBytes = std::int64_t{64} << 20;

struct SampledHash {
  std::int64_t bytes = -1;  // size of the file; -1 if it cannot be read
  // How much was read, and XXH3-64 of it: "whole:0123456789abcdef", or "blocks-64:..." for 64
  // blocks besides head and tail. Hashes of different forms do not compare. "" if the file cannot
  // be read.
  std::string hash = {};
};

// Hashes a set of files, in their order. The offsets of blocks depend on the size of the file only.
// For more than 1,000 files, the number of blocks is reduced, so that the time stays bounded.
std::vector<SampledHash> sampled_hashes(const std::vector<std::string>& paths);

// Returns the size of each file; -1 if it is not a regular file.
std::vector<std::int64_t> file_sizes(const std::vector<std::string>& paths);

}  // namespace tenon
