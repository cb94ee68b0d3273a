// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_store.hpp"

namespace tenon {

std::optional<CommitRecord> CheckpointStore::commit_record(const std::string& /*checkpoint*/) {
  return std::nullopt;
}

std::optional<std::string> CheckpointStore::latest() {
  return std::nullopt;
}

std::vector<std::string> CheckpointStore::skipped() {
  return {};
}

}  // namespace tenon
