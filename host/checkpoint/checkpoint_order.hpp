// SPDX-License-Identifier: Apache-2.0
//
// The order of a storage's checkpoints, cross-checked: COMMITTED against `latest`, and a COMMITTED
// without a checksum also against the times in index.json.
// Invariant: one wrong number, name or time does not change which checkpoint is the newest.
// Threads: as CheckpointStore.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tenon {

struct CheckpointOrder {
  // As CheckpointStore::list(): the newest last. A checkpoint with a corrupt COMMITTED may be the
  // newest, and is then tried first: it comes last, unless `latest` shows that another is newer.
  std::vector<std::string> checkpoints;
  std::vector<std::string> warnings;  // contradictions, for the log
};

// Errors  storage.io
CheckpointOrder checkpoint_order(const std::shared_ptr<CheckpointStore>& storage);

}  // namespace tenon
