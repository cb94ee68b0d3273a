// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints in a folder, for example on a network disk: FOLDER/PLACE/NUMBER.NAME holds the files
// of checkpoint NAME. NUMBER grows with each commit, so that the names alone define the order.
//
// A checkpoint is written into a folder without a number. One rename commits it.
// Threads: the system calls are safe from several threads; an instance does not change after
// `connect`.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/storage.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const std::string& path, int reason) {
  const uint32_t code = reason == ENOENT   ? TENON_NOT_FOUND
                        : reason == EEXIST ? TENON_EXISTS
                                           : TENON_IO;
  TENON_FAIL(code, "my_plugin.io", "cannot ", what, " ", path, ": ", std::strerror(reason));
}

// An open file.
class File {
 public:
  File(const std::string& path, int flags) : path_(path), file_(::open(path.c_str(), flags, 0666)) {
    if (file_ < 0) {
      fail("open", path_, errno);
    }
  }
  ~File() { ::close(file_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Waits until the content is on the disk.
  void sync() const { check(::fsync(file_), "sync"); }
  size_t write(const char* data, size_t size) const {
    return static_cast<size_t>(check(::write(file_, data, size), "write to"));
  }
  size_t read(char* out, size_t size, uint64_t offset) const {
    return static_cast<size_t>(
        check(::pread(file_, out, size, static_cast<off_t>(offset)), "read"));
  }

 private:
  ssize_t check(ssize_t result, const char* what) const {
    if (result < 0) {
      fail(what, path_, errno);
    }
    return result;
  }

  std::string path_;
  int file_;
};

// A file of a checkpoint that is being written. Without `close`, it is removed.
class NewFile : public tenon::StorageFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path), file_(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC) {}
  ~NewFile() override {
    if (!is_closed_) {
      ::unlink(path_.c_str());
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, size_t size) override {
    const auto* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const size_t done = file_.write(bytes, size);
      bytes += done;
      size -= done;
    }
  }
  void close() override {
    file_.sync();
    is_closed_ = true;
  }

 private:
  std::string path_;
  File file_;
  bool is_closed_ = false;
};

class MyPlugin : public tenon::Storage {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "checkpoints in a folder";

  struct Options {
    std::string folder;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("folder", &Options::folder)
        .required()
        .non_empty()
        .path()
        .doc("folder of all checkpoints, created if missing");
  }

  explicit MyPlugin(const Options& options) : folder_(options.folder) {}

  // Writes nothing, because programs that only read connect too.
  void connect(const std::string& place) override {
    depth_ = 1 + static_cast<size_t>(std::count(place.begin(), place.end(), '/'));
    folder_ += "/" + place;
  }

  void open(const std::string& checkpoint, bool is_first) override {
    if (is_committed(checkpoint)) {
      fail("open", address(checkpoint), EEXIST);
    }
    std::error_code error;
    if (is_first) {
      fs::remove_all(unfinished(checkpoint), error);
    }
    fs::create_directories(unfinished(checkpoint), error);
    check(error, "create", unfinished(checkpoint));
  }

  std::unique_ptr<tenon::StorageFile> create_file(const std::string& checkpoint,
                                                  const std::string& file) override {
    return std::make_unique<NewFile>(unfinished(checkpoint) + "/" + file);
  }

  // Syncs the names of the files first, then makes the checkpoint visible, then syncs its name.
  void commit(const std::string& checkpoint) override {
    sync_folder(unfinished(checkpoint));
    const auto all = numbered();
    char number[16];
    std::snprintf(number, sizeof number, "%08llu", all.empty() ? 1ULL : all.back().first + 1);
    std::error_code error;
    fs::rename(unfinished(checkpoint), folder_ + "/" + number + "." + checkpoint, error);
    check(error, "commit", unfinished(checkpoint));
    fs::path folder = folder_;
    sync_folder(folder);
    for (size_t i = 0; i < depth_; ++i) {  // the folders of the place may be new, too
      folder = folder.parent_path();
      sync_folder(folder);
    }
  }

  void abort(const std::string& checkpoint) override { remove_folder(unfinished(checkpoint)); }

  std::vector<std::string> list() override {
    std::vector<std::string> names;
    for (const auto& [number, name] : numbered()) {
      names.push_back(name.substr(name.find('.') + 1));
    }
    return names;
  }

  std::vector<std::string> list_files(const std::string& checkpoint) override {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(committed(checkpoint), error)) {
      names.push_back(entry.path().filename());
    }
    check(error, "list", address(checkpoint));
    std::sort(names.begin(), names.end());
    return names;
  }

  uint64_t file_size(const std::string& checkpoint, const std::string& file) override {
    const std::string path = committed(checkpoint) + "/" + file;
    std::error_code error;
    const uint64_t size = fs::file_size(path, error);
    check(error, "examine", path);
    return size;
  }

  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            void* out,
            size_t size) override {
    const std::string path = committed(checkpoint) + "/" + file;
    const File in(path, O_RDONLY | O_CLOEXEC);
    auto* bytes = static_cast<char*>(out);
    while (size > 0) {
      const size_t done = in.read(bytes, size, offset);
      if (done == 0) {
        TENON_FAIL(TENON_DATA_LOSS, "my_plugin.short", path, " ends at byte ", offset);
      }
      bytes += done;
      offset += done;
      size -= done;
    }
  }

  // Takes the number away first: a checkpoint that is removed in part must not be listed.
  void remove(const std::string& checkpoint) override {
    if (is_committed(checkpoint)) {
      remove_folder(unfinished(checkpoint));
      std::error_code error;
      fs::rename(committed(checkpoint), unfinished(checkpoint), error);
      check(error, "remove", address(checkpoint));
    }
    remove_folder(unfinished(checkpoint));
  }

  std::string address(const std::string& checkpoint) override { return folder_ + "/" + checkpoint; }

 private:
  // Numbers and folder names of the committed checkpoints, in order.
  std::vector<std::pair<unsigned long long, std::string>> numbered() const {
    std::vector<std::pair<unsigned long long, std::string>> all;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(folder_, error)) {
      const std::string name = entry.path().filename();
      char* end = nullptr;
      const unsigned long long number = std::strtoull(name.c_str(), &end, 10);
      if (end == name.c_str() + 8 && *end == '.') {
        all.emplace_back(number, name);
      }
    }
    if (error.value() != ENOENT) {  // before the first checkpoint there is no folder
      check(error, "list", folder_);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  // "" if the checkpoint does not exist.
  std::string find(const std::string& checkpoint) const {
    for (const auto& [number, name] : numbered()) {
      if (name.substr(name.find('.') + 1) == checkpoint) {
        return folder_ + "/" + name;
      }
    }
    return "";
  }
  bool is_committed(const std::string& checkpoint) const { return !find(checkpoint).empty(); }
  std::string committed(const std::string& checkpoint) {
    const std::string path = find(checkpoint);
    if (path.empty()) {
      fail("find", address(checkpoint), ENOENT);
    }
    return path;
  }
  std::string unfinished(const std::string& checkpoint) const {
    return folder_ + "/unfinished." + checkpoint;
  }

  static void check(const std::error_code& error, const char* what, const std::string& path) {
    if (error) {
      fail(what, path, error.value());
    }
  }
  static void sync_folder(const fs::path& path) {
    File(path.string(), O_RDONLY | O_DIRECTORY | O_CLOEXEC).sync();
  }
  static void remove_folder(const std::string& path) {
    std::error_code error;
    fs::remove_all(path, error);
    check(error, "remove", path);
  }

  std::string folder_;
  size_t depth_ = 0;  // number of folders in the place
};

}  // namespace

TENON_PLUGIN(MyPlugin)
