// SPDX-License-Identifier: Apache-2.0
//
// The values that a model gives each sample of a dataset, in files: a value for each position.
//
// A set of values is a folder named by a key, a hash of everything that decides the values. It has
// files of kSamplesOfFile samples each. A file has a header, the ends of its samples, the values
// and a checksum of all of it. While the set is computed, the name of its folder ends in
// `.incomplete`. Files that it has already are kept, so that an interrupted computation continues.
#pragma once

#include "host/data/stored_source.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/file_lock.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon {

inline constexpr int64_t kSamplesOfFile = 512;

class OutputFiles {
 public:
  // `cache` is the folder of all sets; `key` has 32 hexadecimal digits. `dtype` is kFloat or
  // kDouble.
  OutputFiles(std::string cache, std::string key, at::ScalarType dtype, int64_t num_samples);

  // The folder of the complete set.
  std::string folder() const { return cache_ + "/" + key_; }
  bool is_complete() const;
  size_t num_files() const;
  // Samples [first, second) of a file.
  std::pair<int64_t, int64_t> samples_of(size_t file) const;

  // Makes the folder of a set that is not complete. Returns the files that it lacks, or that are
  // corrupt.
  //
  // Errors   storage.io
  std::vector<size_t> begin() const;
  // Writes a file durably, or leaves none.
  //
  // Shapes   rows: by sample [positions], on the CPU
  // Errors   storage.io
  void write(size_t file, std::span<const at::Tensor> rows) const;
  // Renames the folder, which has all files.
  //
  // Errors   storage.io
  void finish() const;

  // Opens the complete set, and verifies its checksums.
  //
  // Errors   outputs.corrupt, naming the file
  std::shared_ptr<const SampleValues> open() const;

 private:
  std::string cache_;
  std::string key_;
  at::ScalarType dtype_;
  int64_t num_samples_;
};

// A lock of a set, so that one run computes it. The system ends the lock with its process. Without
// locks in the file system, two runs compute the same files twice.
class OutputLock {
 public:
  // Errors   storage.io
  OutputLock(const std::string& cache, const std::string& key);

  // Returns false while another process holds the lock; logs that once.
  bool try_lock();

 private:
  FileLock file_;
  bool is_told_ = false;
};

// The folder for sets of values: $TENON_CACHE/outputs, else that of the user's caches.
//
// Errors   storage.io if there is none
std::string output_cache_folder();

}  // namespace tenon
