// SPDX-License-Identifier: Apache-2.0
//
// Opens files for reading that the user, a recipe or another file names. Only regular files: a
// FIFO or a device in place of a file would block the process, or have no end.
// Threads: any.
#pragma once

#include "host/io/durable_file.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace tenon {

struct RegularFile {
  OpenFile file;            // not open if the file cannot be read
  uint64_t size = 0;        // in bytes, when the file was opened
  std::string problem;      // "" if it is open; else "it is a FIFO, not a regular file", or the
                            // system's reason: "Permission denied"
  bool is_missing = false;  // no such file
};

// Opens a file for reading. Returns at once, whatever the path names.
RegularFile open_regular_file(const std::string& path);

// Reads from `offset` until `out` is full or the file ends. Returns the system's reason if reading
// fails, else "". Sets `num_read` to the number of bytes.
std::string read_at(const OpenFile& file,
                    uint64_t offset,
                    std::span<std::byte> out,
                    size_t& num_read);

// Writes all of `text`, which may have NUL bytes; repeats interrupted calls. Returns false if
// writing fails, with the reason in errno. Allocates no memory.
bool write_all(int fd, std::string_view text) noexcept;

struct FileText {
  std::string text;
  std::string problem;      // why the file cannot be read, as in RegularFile; "" if it was read
  bool is_missing = false;  // no such file
  bool is_too_large = false;
};

// Reads a whole file of at most `max_bytes`. The memory is bounded by `max_bytes`, whatever size
// the file claims to have.
FileText read_file_text(const std::string& path, uint64_t max_bytes);

// The kind of a file that is not regular: "a FIFO", "a folder".
std::string_view file_kind(mode_t mode) noexcept;

}  // namespace tenon
