// SPDX-License-Identifier: Apache-2.0
//
// Bundles where a plugin keeps them: names are checked here, and its statuses become the host's
// errors. Invariant: a bundle or file whose name no bundle may have is never shown, whatever the
// plugin lists. Threads: as BundleStorage; made and destroyed on the main thread.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/plugin/storage_proxy.hpp"

namespace tenon {

class PluginStorage final : public BundleStorage {
 public:
  // Connects. `place` tells runs apart, and what they keep: "mlp-7/checkpoints".
  //
  // Errors   storage.io, storage.not_found; plugin.missing_interface
  PluginStorage(ComponentInstance instance, const std::string& place);

  void open(const std::string& bundle, bool is_first) override;
  std::unique_ptr<BundleFile> create_file(const std::string& bundle,
                                          const std::string& file) override;
  void commit(const std::string& bundle) override;
  void abort(const std::string& bundle) override;
  std::vector<std::string> list() override;
  std::vector<std::string> list_files(const std::string& bundle) override;
  uint64_t file_size(const std::string& bundle, const std::string& file) override;
  void read(const std::string& bundle,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) override;
  void remove(const std::string& bundle) override;
  std::string address(const std::string& bundle) const override;

 private:
  StorageProxy proxy_;
};

}  // namespace tenon
