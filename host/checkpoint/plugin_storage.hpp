// SPDX-License-Identifier: Apache-2.0
//
// Stores checkpoints through a storage plugin: checks names, and converts statuses of the plugin to
// errors of the host.
// Invariant: checkpoints and files with invalid names are never listed, even if the plugin lists
// them.
// Threads: as CheckpointStore; created and destroyed on the main thread.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/plugin/storage_proxy.hpp"

namespace tenon {

class PluginStorage final : public CheckpointStore {
 public:
  // Connects to the storage. `location` identifies the run and the content: "mlp-7/checkpoints".
  //
  // Errors   storage.io, storage.not_found; plugin.missing_interface
  PluginStorage(ComponentInstance instance, const std::string& location);

  void open(const std::string& checkpoint, bool is_first) override;
  std::unique_ptr<CheckpointFile> create_file(const std::string& checkpoint,
                                              const std::string& file) override;
  void commit(const std::string& checkpoint) override;
  void abort(const std::string& checkpoint) override;
  std::vector<std::string> list() override;
  std::vector<std::string> list_files(const std::string& checkpoint) override;
  uint64_t file_size(const std::string& checkpoint, const std::string& file) override;
  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) override;
  void remove(const std::string& checkpoint) override;
  std::string address(const std::string& checkpoint) const override;

 private:
  StorageProxy proxy_;
};

}  // namespace tenon
