// SPDX-License-Identifier: Apache-2.0
//
// Stores checkpoints in the memory of this process: the example of docs/plugin-guide/storage.md.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/storage.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

using Files = std::map<std::string, std::string>;

// State shared by all instances of a location, as ranks share one folder.
struct Location {
  std::mutex mutex;
  std::map<std::string, Files> open;
  std::map<std::string, Files> committed;
  std::vector<std::string> order;
};

class MemoryFile : public tenon::StorageFile {
 public:
  MemoryFile(Location& location, std::string checkpoint, std::string name)
      : location_(location), checkpoint_(std::move(checkpoint)), name_(std::move(name)) {}

  void write(const void* data, size_t size) override {
    content_.append(static_cast<const char*>(data), size);
  }
  void close() override {
    const std::lock_guard<std::mutex> lock(location_.mutex);
    location_.open[checkpoint_][name_] = std::move(content_);
  }

 private:
  Location& location_;
  std::string checkpoint_;
  std::string name_;
  std::string content_;
};

class MemoryStorage : public tenon::Storage {
 public:
  static constexpr const char* kType = "memory_storage";
  static constexpr const char* kSummary = "checkpoints in process memory, lost at exit";

  void connect(const std::string& place) override {
    static std::map<std::string, Location> locations;
    location_ = &locations[place];
  }

  void open(const std::string& checkpoint, bool is_first) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    if (location_->committed.count(checkpoint) != 0) {
      TENON_FAIL(TENON_EXISTS, "memory_storage.exists", address(checkpoint), " already exists");
    }
    if (is_first) {
      location_->open.clear();
      location_->open[checkpoint];
    }
  }

  std::unique_ptr<tenon::StorageFile> create_file(const std::string& checkpoint,
                                                  const std::string& file) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    if (location_->open[checkpoint].count(file) != 0) {
      TENON_FAIL(TENON_EXISTS, "memory_storage.exists", address(checkpoint), " has a file ", file);
    }
    return std::make_unique<MemoryFile>(*location_, checkpoint, file);
  }

  void commit(const std::string& checkpoint) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    const auto open = location_->open.find(checkpoint);
    if (open == location_->open.end()) {
      TENON_FAIL(TENON_NOT_FOUND, "memory_storage.not_open", address(checkpoint), " is not open");
    }
    location_->committed[checkpoint] = std::move(open->second);
    location_->open.erase(open);
    location_->order.push_back(checkpoint);
  }

  void abort(const std::string& checkpoint) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    location_->open.erase(checkpoint);
  }

  std::vector<std::string> list() override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    return location_->order;
  }

  std::vector<std::string> list_files(const std::string& checkpoint) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    std::vector<std::string> names;
    for (const auto& file : files(checkpoint)) {
      names.push_back(file.first);
    }
    return names;
  }

  uint64_t file_size(const std::string& checkpoint, const std::string& file) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    return content(checkpoint, file).size();
  }

  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            void* out,
            size_t size) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    const std::string& text = content(checkpoint, file);
    if (offset > text.size() || size > text.size() - offset) {
      TENON_FAIL(TENON_DATA_LOSS,
                 "memory_storage.short",
                 address(checkpoint),
                 "/",
                 file,
                 " ends at byte ",
                 text.size());
    }
    std::memcpy(out, text.data() + offset, size);
  }

  void remove(const std::string& checkpoint) override {
    const std::lock_guard<std::mutex> lock(location_->mutex);
    std::vector<std::string>& order = location_->order;
    order.erase(std::remove(order.begin(), order.end(), checkpoint), order.end());
    location_->committed.erase(checkpoint);
    location_->open.erase(checkpoint);
  }

  std::string address(const std::string& checkpoint) override { return "memory:/" + checkpoint; }

 private:
  const Files& files(const std::string& checkpoint) {
    const auto found = location_->committed.find(checkpoint);
    if (found == location_->committed.end()) {
      TENON_FAIL(TENON_NOT_FOUND,
                 "memory_storage.absent",
                 "checkpoint does not exist: ",
                 address(checkpoint));
    }
    return found->second;
  }
  const std::string& content(const std::string& checkpoint, const std::string& file) {
    const Files& all = files(checkpoint);
    const auto found = all.find(file);
    if (found == all.end()) {
      TENON_FAIL(
          TENON_NOT_FOUND, "memory_storage.absent", address(checkpoint), " has no file ", file);
    }
    return found->second;
  }

  Location* location_ = nullptr;
};

}  // namespace

TENON_PLUGIN(MemoryStorage)
