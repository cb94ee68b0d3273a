// SPDX-License-Identifier: Apache-2.0
#include "host/tools/new_plugin/new_folder.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_unwritable(const std::string& action, const fs::path& path, int error) {
  throw Error("usage.folder_unwritable",
              "cannot " + action + " " + path.string() + ": " +
                  std::generic_category().message(error) +
                  "; nothing was written; choose another folder with --dir, or fix the cause");
}

[[noreturn]] void fail_exists(const fs::path& folder, const std::string& what) {
  throw Error("usage.folder_exists",
              folder.string() + " " + what + "; choose a new folder with --dir");
}

// Files and folders made so far. They are removed again unless they are kept.
class Made {
 public:
  Made() = default;
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;
  ~Made() {
    std::error_code ignored;
    for (auto path = paths_.rbegin(); path != paths_.rend(); ++path) {
      fs::remove(*path, ignored);  // a folder only if it is empty
    }
  }

  // Makes missing folders along the path.
  void make_folders(const fs::path& folder) {
    std::error_code ignored;
    if (folder.empty() || fs::is_directory(folder, ignored)) {
      return;
    }
    make_folders(folder.parent_path());
    paths_.reserve(paths_.size() + 1);
    if (::mkdir(folder.c_str(), 0777) == 0) {
      paths_.push_back(folder);
      return;
    }
    const int error = errno;
    if (error != EEXIST || !fs::is_directory(folder, ignored)) {
      fail_unwritable("create the folder", folder, error);
    }
  }

  // Writes a file that must not exist.
  void write(const fs::path& file, const std::string& text) {
    paths_.reserve(paths_.size() + 1);
    OpenFile out(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!out.is_open()) {
      fail_unwritable("create", file, errno);
    }
    paths_.push_back(file);
    // Some file systems report a full disk only here.
    if (!write_all(out.get(), text) || ::fsync(out.get()) != 0) {
      fail_unwritable("write", file, errno);
    }
  }

  void keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

// Rejects a path that exists and is not an empty folder.
void check_new(const fs::path& folder) {
  std::error_code failed;
  const fs::file_status status = fs::status(folder, failed);
  if (!fs::exists(status)) {
    return;
  }
  if (!fs::is_directory(status)) {
    fail_exists(folder, "exists and is not a folder");
  }
  const fs::directory_iterator first(folder, failed);
  if (failed) {
    fail_unwritable("read the folder", folder, failed.value());
  }
  if (first != fs::directory_iterator()) {
    fail_exists(folder, "is not empty: it has " + first->path().filename().string());
  }
}

}  // namespace

void write_new_folder(const std::string& folder,
                      const std::vector<std::pair<std::string, std::string>>& files) {
  fs::path root(folder);
  if (!root.has_filename()) {  // ends in '/'
    root = root.parent_path();
  }
  check_new(root);
  Made made;
  made.make_folders(root);
  for (const auto& [path, text] : files) {
    const fs::path file = root / path;
    made.make_folders(file.parent_path());
    made.write(file, text);
  }
  made.keep();
}

}  // namespace tenon
