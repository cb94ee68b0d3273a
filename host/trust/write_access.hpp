// SPDX-License-Identifier: Apache-2.0
//
// Who can change a plugin besides root and the user of this process, by the permissions of its
// file and of the folders on its path. Whoever can change a plugin runs code in the host.
// Limit: permissions that a network file system enforces elsewhere are not seen.
// Threads: any.
#pragma once

#include <string>

namespace tenon {

struct WriteAccess {
  // Set if every user of the machine can change the file or the folder, without advice:
  // "build/plugins is writable by all users (mode 0777)". Else "".
  std::string by_all;
  // What to do about `by_all`: "run chmod o-w build/plugins".
  std::string advice;
  // Set if some other users can: "build/plugins/a.so is writable by its group 50 (mode 0664)", or
  // "... belongs to user 1000". Else "".
  std::string by_some;
};

// Looks at a folder of plugins and the folders around it. In a folder with the sticky bit, such as
// /tmp, nobody can replace the entries of others; a folder of plugins must not be such a folder
// itself, because everybody can add plugins to it. A folder that cannot be accessed yields nothing:
// reading it reports the error.
WriteAccess write_access_of_folder(const std::string& folder);

// Looks at the folders around a file, also around the target of a symbolic link. A sticky bit
// protects the file in its own folder too.
WriteAccess write_access_around(const std::string& file);

// Looks at a file. If a symbolic link leads to it, also at the folders that hold the target; those
// of `path` are for write_access_of_folder().
WriteAccess write_access_of_file(const std::string& path);

}  // namespace tenon
