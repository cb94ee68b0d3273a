// SPDX-License-Identifier: Apache-2.0
//
// The names that checkpoints and their files may have.
// Threads: any.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// True if `name` is valid for a checkpoint or a file.
bool is_checkpoint_name(std::string_view name);

// Errors  storage.bad_name if `name` is not valid for a checkpoint or a file
void check_checkpoint_name(const std::string& name);

}  // namespace tenon
