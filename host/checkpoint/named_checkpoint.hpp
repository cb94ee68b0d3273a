// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint that somebody means by a path of the local file system.
// Threads: any.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct NamedCheckpoint {
  std::shared_ptr<BundleStorage> storage;
  std::string bundle;
};

struct NamedCheckpoints {
  std::shared_ptr<BundleStorage> storage;
  std::string root;                  // the folder that it is of
  std::vector<std::string> bundles;  // the newest last; at least one
};

// Those of a run's folder, or of its folder "checkpoints", or in any folder of checkpoints; else
// the one at that very path.
// Errors  as find_checkpoint
NamedCheckpoints find_checkpoints(const std::string& path);

// The newest one of a run's folder, or of its folder "checkpoints"; else the one at that very path.
// Whether it can be read is not looked at.
// Errors  storage.not_found with what to name instead, where there is nothing of that name
NamedCheckpoint find_checkpoint(const std::string& path);

}  // namespace tenon
