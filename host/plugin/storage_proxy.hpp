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
  void connect(const std::string& location) const {
    const tenon_storage_connect_args args{.struct_size = sizeof(tenon_storage_connect_args),
                                          .place = location.c_str()};
    instance_.call("connect", [&] { return table_->connect(instance_.self(), &args); });
  }
  void open(const std::string& checkpoint, uint32_t is_first) const {
    const tenon_storage_open_args args{.struct_size = sizeof(tenon_storage_open_args),
                                       .checkpoint = checkpoint.c_str(),
                                       .is_first = is_first,
                                       .reserved = 0};
    instance_.call("open", [&] { return table_->open(instance_.self(), &args); });
  }
  // Owner  the caller, until close()
  tenon_storage_file* create_file(const std::string& checkpoint, const std::string& file) const;
  void write(tenon_storage_file* file, std::span<const std::byte> bytes) const {
    const tenon_storage_write_args args{.struct_size = sizeof(tenon_storage_write_args),
                                        .file = file,
                                        .data = bytes.data(),
                                        .size = bytes.size()};
    instance_.call("write", [&] { return table_->write(instance_.self(), &args); });
  }
  // Closes a file. `keep` 0 cancels the file; 1 completes it.
  void close(tenon_storage_file* file_own, uint32_t keep) const {
    const tenon_storage_close_args args{.struct_size = sizeof(tenon_storage_close_args),
                                        .file_own = file_own,
                                        .keep = keep,
                                        .reserved = 0};
    instance_.call("close", [&] { return table_->close(instance_.self(), &args); });
  }
  void commit(const std::string& checkpoint) const { change("commit", table_->commit, checkpoint); }
  void abort(const std::string& checkpoint) const { change("abort", table_->abort, checkpoint); }
  std::vector<std::string> list() const;
  std::vector<std::string> list_files(const std::string& checkpoint) const;
  uint64_t file_size(const std::string& checkpoint, const std::string& file) const;
  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) const {
    const tenon_storage_read_args args{.struct_size = sizeof(tenon_storage_read_args),
                                       .checkpoint = checkpoint.c_str(),
                                       .file = file.c_str(),
                                       .offset = offset,
                                       .size = out.size(),
                                       .data = out.data()};
    instance_.call("read", [&] { return table_->read(instance_.self(), &args); });
  }
  void remove(const std::string& checkpoint) const { change("remove", table_->remove, checkpoint); }
  // Threads  [any]
  std::string address(const std::string& checkpoint) const;

 private:
  void change(const char* function,
              tenon_status* (*call)(void*, const tenon_storage_checkpoint_args*),
              const std::string& checkpoint) const {
    const tenon_storage_checkpoint_args args{.struct_size = sizeof(tenon_storage_checkpoint_args),
                                             .checkpoint = checkpoint.c_str()};
    instance_.call(function, [&] { return call(instance_.self(), &args); });
  }
  std::vector<std::string> names_of(const char* function,
                                    tenon_status* (*list)(void*, const tenon_storage_list_args*),
                                    const char* checkpoint) const;

  ComponentInstance instance_;
  const tenon_storage* table_;
};

}  // namespace tenon
