// SPDX-License-Identifier: Apache-2.0
//
// Writes files into a new folder: all of them, or none.
// Threads: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Writes files into a folder that does not exist or is empty, and creates missing folders. `files`
// has pairs of a path in the folder and a text. If a file cannot be written, the disk is left as it
// was.
//
// Errors   usage.folder_exists if the folder has content, or is no folder; usage.folder_unwritable
void write_new_folder(const std::string& folder,
                      const std::vector<std::pair<std::string, std::string>>& files);

}  // namespace tenon
