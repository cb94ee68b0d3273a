// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/kept_checkpoints.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace tenon {

KeptCheckpoints::KeptCheckpoints(std::string kind, Read read)
    : kind_(std::move(kind)), read_(std::move(read)) {}

std::vector<KeptCheckpoint> KeptCheckpoints::list(CheckpointStore& storage) {
  const std::vector<std::string> names = storage.list();
  std::erase_if(known_, [&](const auto& entry) {
    return std::ranges::find(names, entry.first) == names.end();
  });
  std::vector<KeptCheckpoint> kept;
  for (const std::string& name : names) {
    const auto [known, is_new] = known_.try_emplace(name);
    if (is_new) {
      try {
        known->second = read_(name);
        if (!known->second.has_value()) {
          log_info(storage.address(name) +
                   " is a copy, or of another run; it is neither counted nor removed by keep_last");
        }
      } catch (const std::exception& error) {  // also out of memory: one must not stop the others
        log_warning(std::string(error.what()) + "; this " + kind_ +
                    " is neither counted nor removed");
      }
    }
    if (known->second.has_value()) {
      kept.push_back(*known->second);
    }
  }
  return kept;
}

void KeptCheckpoints::remove(CheckpointStore& storage, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    try {
      storage.remove(name);
    } catch (const Error& error) {  // the others can still be removed
      log_warning(error.what());
    }
    known_.erase(name);
  }
}

}  // namespace tenon
