// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/memory_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

MemoryFile::MemoryFile(const char* name)
    : descriptor_(::memfd_create(name, MFD_CLOEXEC)),
      path_("/proc/self/fd/" + std::to_string(descriptor_)) {
  if (descriptor_ < 0) {
    fail("memfd_create");
  }
}

MemoryFile::~MemoryFile() {
  ::close(descriptor_);
}

void MemoryFile::write(std::string_view content) const {
  if (::ftruncate(descriptor_, static_cast<off_t>(content.size())) != 0) {
    fail("ftruncate");
  }
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::pwrite(
        descriptor_, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n <= 0) {
      fail("pwrite");
    }
    done += static_cast<std::size_t>(n);
  }
}

void use_memory_for_scratch() {
  constexpr char kMemory[] = "/dev/shm";
  if (::access(kMemory, W_OK) == 0) {
    ::setenv("TMPDIR", kMemory, /*overwrite=*/0);
  }
}

std::string read_corpus_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    errno = ENOENT;
    fail("cannot read " + path);
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace tenon
