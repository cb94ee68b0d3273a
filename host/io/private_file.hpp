// SPDX-License-Identifier: Apache-2.0
//
// Files that only this user can have written, such as caches whose content the host trusts.
// Threads: any.
#pragma once

#include "host/io/regular_file.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

// Reads a file of at most `max_bytes`. Refuses a symbolic link, a file of another user, and a file
// that others may write: `problem` is then "it belongs to another user", for example.
FileText read_private_file(const std::string& path, uint64_t max_bytes);

// Replaces a file atomically by one of mode 0600. Creates missing folders with mode 0700. Returns
// the system's reason if that fails, else "".
std::string write_private_file(const std::string& path, std::string_view text);

// Makes a folder and those around it that are missing, with mode 0700. Opening a file in it reports
// a failure.
void make_private_folder(const std::string& folder);

// Returns the folder for caches of this user, ${XDG_CACHE_HOME:-~/.cache}/tenon, or "" if neither
// variable is an absolute path. It may not exist.
std::string user_cache_folder();

}  // namespace tenon
