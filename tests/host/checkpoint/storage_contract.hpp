// SPDX-License-Identifier: Apache-2.0
//
// What every storage of bundles promises, as one test for all of them.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"

#include <functional>
#include <memory>
#include <string>

namespace tenon {

// Call it as the whole body of a test case: it has sections. `connect` gives a new storage of one
// and the same place each time, as another process or rank would have it; the place is empty at
// first.
void check_storage_contract(const std::function<std::unique_ptr<CheckpointStore>()>& connect);

// Writes `text` as a file of an open bundle.
void write_file(CheckpointStore& storage,
                const std::string& checkpoint,
                const std::string& file,
                const std::string& text);

// Opens, writes files "a" and "b" made of `seed`, and commits.
void save_checkpoint(CheckpointStore& storage, const std::string& checkpoint, int seed);

// That it is listed, and has what save_checkpoint wrote.
void check_checkpoint(CheckpointStore& storage, const std::string& checkpoint, int seed);

// The whole content of a file of a committed bundle.
std::string read_file(CheckpointStore& storage,
                      const std::string& checkpoint,
                      const std::string& file);

}  // namespace tenon
