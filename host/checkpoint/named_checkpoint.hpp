// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint that somebody means by a path of the local file system.
// Threads: any.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"

#include <memory>
#include <string>

namespace tenon {

struct NamedCheckpoint {
  std::shared_ptr<BundleStorage> storage;
  std::string bundle;
};

// The newest one of a run's folder, or of its folder "checkpoints"; else the one at that very path.
// Whether it can be read is not looked at.
// Errors  storage.not_found with what to name instead, where there is nothing of that name
NamedCheckpoint find_checkpoint(const std::string& path);

}  // namespace tenon
