// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/plugin_storage.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// Makes a call, and converts errors of the storage to storage.* errors. Other errors of the plugin
// stay unchanged.
template <class Body>
auto call(Body&& body) {
  try {
    return body();
  } catch (const PluginError& error) {
    switch (error.code()) {
      case TENON_IO:
      case TENON_TIMEOUT:
      case TENON_DATA_LOSS:
        throw Error("storage.io", error.message());
      case TENON_NOT_FOUND:
        throw Error("storage.not_found", error.message());
      case TENON_EXISTS:
        throw Error("storage.exists", error.message());
      default:
        throw;
    }
  }
}

class PluginFile final : public CheckpointFile {
 public:
  PluginFile(const StorageProxy& proxy, tenon_storage_file* file) : proxy_(proxy), file_(file) {}
  ~PluginFile() override {
    if (file_ != nullptr) {
      try {
        proxy_.close(std::exchange(file_, nullptr), 0);
      } catch (const Error&) {
        // The file is canceled; the error that caused it is reported elsewhere.
      }
    }
  }
  PluginFile(const PluginFile&) = delete;
  PluginFile& operator=(const PluginFile&) = delete;
  PluginFile(PluginFile&&) = delete;
  PluginFile& operator=(PluginFile&&) = delete;

  void write(std::span<const std::byte> bytes) override {
    if (!bytes.empty()) {
      call([&] { proxy_.write(file_, bytes); });
    }
  }
  void close() override {
    call([&] { proxy_.close(std::exchange(file_, nullptr), 1); });
  }

 private:
  const StorageProxy& proxy_;
  tenon_storage_file* file_;
};

// Removes invalid names, which the host could not pass to the plugin.
std::vector<std::string> usable(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return !is_checkpoint_name(name); });
  return names;
}

}  // namespace

PluginStorage::PluginStorage(ComponentInstance instance, const std::string& location)
    : proxy_(std::move(instance)) {
  call([&] { proxy_.connect(location); });
}

void PluginStorage::open(const std::string& checkpoint, bool is_first) {
  check_checkpoint_name(checkpoint);
  call([&] { proxy_.open(checkpoint, is_first ? 1 : 0); });
}

std::unique_ptr<CheckpointFile> PluginStorage::create_file(const std::string& checkpoint,
                                                           const std::string& file) {
  check_checkpoint_name(checkpoint);
  check_checkpoint_name(file);
  return std::make_unique<PluginFile>(proxy_,
                                      call([&] { return proxy_.create_file(checkpoint, file); }));
}

void PluginStorage::commit(const std::string& checkpoint) {
  check_checkpoint_name(checkpoint);
  call([&] { proxy_.commit(checkpoint); });
}

void PluginStorage::abort(const std::string& checkpoint) {
  check_checkpoint_name(checkpoint);
  call([&] { proxy_.abort(checkpoint); });
}

std::vector<std::string> PluginStorage::list() {
  return usable(call([&] { return proxy_.list(); }));
}

std::vector<std::string> PluginStorage::list_files(const std::string& checkpoint) {
  check_checkpoint_name(checkpoint);
  return usable(call([&] { return proxy_.list_files(checkpoint); }));
}

uint64_t PluginStorage::file_size(const std::string& checkpoint, const std::string& file) {
  check_checkpoint_name(checkpoint);
  check_checkpoint_name(file);
  return call([&] { return proxy_.file_size(checkpoint, file); });
}

void PluginStorage::read(const std::string& checkpoint,
                         const std::string& file,
                         uint64_t offset,
                         std::span<std::byte> out) {
  check_checkpoint_name(checkpoint);
  check_checkpoint_name(file);
  call([&] { proxy_.read(checkpoint, file, offset, out); });
}

void PluginStorage::remove(const std::string& checkpoint) {
  check_checkpoint_name(checkpoint);
  call([&] { proxy_.remove(checkpoint); });
}

std::string PluginStorage::address(const std::string& checkpoint) const {
  return call([&] { return proxy_.address(checkpoint); });
}

}  // namespace tenon
