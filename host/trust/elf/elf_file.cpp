// SPDX-License-Identifier: Apache-2.0

#include "host/trust/elf/elf_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tenon {

ElfFile::ElfFile(const std::string& path)
    // O_NONBLOCK, so that a FIFO in a plugin folder does not hang the host
    : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
    problem_ = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem_ = "it is not a regular file";
  } else {
    size_ = static_cast<uint64_t>(status.st_size);
  }
}

ElfFile::~ElfFile() {
  if (fd_ >= 0) {
    ::close(fd_);
  }
}

std::optional<std::string> ElfFile::read(uint64_t offset, uint64_t size) const {
  if (!holds(offset, size)) {
    return std::nullopt;
  }
  std::string bytes(size, '\0');
  uint64_t done = 0;
  while (done < size) {
    const ssize_t n =
        ::pread(fd_, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {  // an error, or the file has shrunk since
      return std::nullopt;
    }
    done += static_cast<uint64_t>(n);
  }
  return bytes;
}

bool has_native_structs(const Elf64_Ehdr& header) noexcept {
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB;
}

}  // namespace tenon
