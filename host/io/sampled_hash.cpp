// SPDX-License-Identifier: Apache-2.0
#include "host/io/sampled_hash.hpp"

#include "host/io/checksum.hpp"
#include "host/io/regular_file.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <new>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <thread>

namespace tenon {
namespace {

constexpr std::size_t kBlock = 4096;                  // bytes, a page
constexpr std::size_t kMostBlocks = 64;               // of one file
constexpr std::size_t kMostBlocksOfSet = 64000;       // of all files
constexpr std::size_t kChunk = std::size_t{1} << 20;  // bytes of a read of a whole file
constexpr std::size_t kMostThreads = 8;               // reads wait for disks and networks

std::size_t num_blocks_for(std::size_t num_files) {
  return std::clamp(
      kMostBlocksOfSet / std::max<std::size_t>(num_files, 1), std::size_t{1}, kMostBlocks);
}

// The offsets of all blocks of a file, ascending: its head, one in each of `num_blocks` equal
// parts, and its tail. The offset within a part is drawn by splitmix64 from the size of the file.
std::vector<std::uint64_t> block_offsets(std::uint64_t size, std::size_t num_blocks) {
  std::vector<std::uint64_t> offsets = {0};
  const std::uint64_t last = size - kBlock;
  std::uint64_t state = size;
  for (std::size_t i = 0; i < num_blocks; ++i) {
    const std::uint64_t begin = last / num_blocks * i;
    state += 0x9E3779B97F4A7C15;
    std::uint64_t bits = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
    bits ^= bits >> 31;
    offsets.push_back(begin + bits % std::max<std::uint64_t>(last / num_blocks, 1));
  }
  offsets.push_back(last);
  return offsets;
}

SampledHash hash_of(const std::string& path, bool is_whole, std::size_t num_blocks) {
  const RegularFile opened = open_regular_file(path);
  if (!opened.file.is_open()) {
    return {};
  }
  const std::uint64_t size = opened.size;
  SampledHash result{.bytes = static_cast<std::int64_t>(size)};
  Checksum sum;
  std::vector<std::byte> buffer;
  const auto add = [&](std::uint64_t offset, std::size_t bytes) {
    buffer.resize(bytes);
    std::size_t num_read = 0;
    const bool is_read = read_at(opened.file, offset, buffer, num_read).empty();
    sum.add(std::span(buffer).first(num_read));
    return is_read && num_read == bytes;
  };
  is_whole = is_whole || size <= (num_blocks + 2) * kBlock;
  bool is_read = true;
  if (is_whole) {
    for (std::uint64_t at = 0; at < size && is_read; at += kChunk) {
      is_read = add(at, static_cast<std::size_t>(std::min<std::uint64_t>(kChunk, size - at)));
    }
  } else {
    ::posix_fadvise(opened.file.get(), 0, 0, POSIX_FADV_RANDOM);  // only a hint
    for (const std::uint64_t offset : block_offsets(size, num_blocks)) {
      is_read = is_read && add(offset, kBlock);
    }
  }
  if (is_read) {
    char form[32] = "whole";
    if (!is_whole) {
      std::snprintf(form, sizeof(form), "blocks-%zu", num_blocks);
    }
    result.hash = std::string(form) + ":" + xxh3_text(sum.value());
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> file_sizes(const std::vector<std::string>& paths) {
  std::vector<std::int64_t> sizes;
  for (const std::string& path : paths) {
    struct stat status = {};
    const bool is_file = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
    sizes.push_back(is_file ? status.st_size : -1);
  }
  return sizes;
}

std::vector<SampledHash> sampled_hashes(const std::vector<std::string>& paths) {
  std::int64_t total = 0;
  for (const std::int64_t size : file_sizes(paths)) {
    total = std::min(total + std::clamp<std::int64_t>(size, 0, kWholeBytes + 1), kWholeBytes + 1);
  }
  const bool is_whole = total <= kWholeBytes;
  const std::size_t num_blocks = num_blocks_for(paths.size());
  std::vector<SampledHash> hashes(paths.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < paths.size(); i = next++) {
      try {
        hashes[i] = hash_of(paths[i], is_whole, num_blocks);
      } catch (const std::bad_alloc&) {  // as if the file could not be read
        hashes[i] = {};
      }
    }
  };
  std::vector<std::jthread> threads;
  try {
    while (threads.size() + 1 < std::min(kMostThreads, paths.size() / 4)) {
      threads.emplace_back(work);
    }
  } catch (const std::system_error&) {  // without further threads, it takes longer
  }
  work();
  threads.clear();
  return hashes;
}

}  // namespace tenon
