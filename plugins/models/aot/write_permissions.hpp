// SPDX-License-Identifier: Apache-2.0
//
// Refuses native code that every user of the machine can change, as the host refuses such plugins.
// Threads: any.
#ifndef TENON_AOT_WRITE_PERMISSIONS_HPP
#define TENON_AOT_WRITE_PERMISSIONS_HPP

#include <string>

// Checks a file, its folder, and the folders around it. A sticky bit, as that of /tmp, protects the
// entries of a folder around it. TENON_ALLOW_WRITABLE_PLUGINS=1 in the environment accepts all.
//
// Errors: TENON_INVALID if every user can change the file or replace it
void check_write_permissions(const std::string& file);

#endif
