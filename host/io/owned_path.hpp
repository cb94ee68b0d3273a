// SPDX-License-Identifier: Apache-2.0
//
// Refuses folders that another user has prepared: whoever writes to such a folder, root above all,
// would write where that user wants.
// Threads: any.
#pragma once

#include <string>

namespace tenon {

// Checks an existing folder to write to. Refuses a folder of another user inside of a folder where
// all users may create one, such as /tmp, and links in the folder that another user has made. Root
// and this user count as the owner.
//
// Errors  storage.io with the path and its owner
void refuse_prepared_folder(const std::string& folder);

}  // namespace tenon
