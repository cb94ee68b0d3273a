// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a storage of checkpoints (contract: draft/storage.h). Callers check the
// names of checkpoints and files.
#pragma once

#include <tenon/draft/storage.h>

#include "host/plugin/instance.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// The tags hold for all calls, unless documented otherwise.
//
// Errors   PluginError
// Threads  [worker], as in the table
class StorageProxy {
 public:
  // Errors   plugin.missing_interface
  // Threads  [main]
  explicit StorageProxy(ComponentInstance instance);

  const ComponentInstance& instance() const noexcept { return instance_; }

  // Threads  [main], once, before anything else
  void connect(const std::string& place) const {
    instance_.call("connect", [&] { return table_->connect(instance_.self(), place.c_str()); });
  }
  void open(const std::string& checkpoint, uint32_t is_first) const {
    instance_.call("open",
                   [&] { return table_->open(instance_.self(), checkpoint.c_str(), is_first); });
  }
  // Owner  the caller, until close()
  tenon_storage_file* create_file(const std::string& checkpoint, const std::string& file) const;
  void write(tenon_storage_file* file, std::span<const std::byte> bytes) const {
    instance_.call(
        "write", [&] { return table_->write(instance_.self(), file, bytes.data(), bytes.size()); });
  }
  // Closes a file. `keep` 0 cancels the file; 1 completes it.
  void close(tenon_storage_file* file_own, uint32_t keep) const {
    instance_.call("close", [&] { return table_->close(instance_.self(), file_own, keep); });
  }
  void commit(const std::string& checkpoint) const {
    instance_.call("commit", [&] { return table_->commit(instance_.self(), checkpoint.c_str()); });
  }
  void abort(const std::string& checkpoint) const {
    instance_.call("abort", [&] { return table_->abort(instance_.self(), checkpoint.c_str()); });
  }
  std::vector<std::string> list() const;
  std::vector<std::string> list_files(const std::string& checkpoint) const;
  uint64_t file_size(const std::string& checkpoint, const std::string& file) const;
  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) const {
    instance_.call("read", [&] {
      return table_->read(
          instance_.self(), checkpoint.c_str(), file.c_str(), offset, out.data(), out.size());
    });
  }
  void remove(const std::string& checkpoint) const {
    instance_.call("remove", [&] { return table_->remove(instance_.self(), checkpoint.c_str()); });
  }
  // Threads  [any]
  std::string address(const std::string& checkpoint) const;

 private:
  ComponentInstance instance_;
  const tenon_storage* table_;
};

}  // namespace tenon
