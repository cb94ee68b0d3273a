// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/local_storage.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommitted = "/COMMITTED";
constexpr const char* kNotYet = "/COMMITTED.tmp";
constexpr const char* kLatest = "/latest";
constexpr std::string_view kOpenPrefix = ".open-";
constexpr std::string_view kGonePrefix = ".gone-";

bool is_there(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    return true;
  }
  if (errno != ENOENT && errno != ENOTDIR) {
    throw_disk_error("access", path, errno);
  }
  return false;
}

// Returns the names in a folder; empty if the folder does not exist.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error && error.value() != ENOENT) {
    throw_disk_error("list the folder", path, error.value());
  }
  return names;
}

void remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error && error.value() != ENOENT) {
    throw_disk_error("remove", path, error.value());
  }
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_disk_error("remove", path, errno);
  }
}

// Returns up to 512 bytes of a file; "" if it does not exist.
std::string small_text(const std::string& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) {
    if (errno == ENOENT || errno == ENOTDIR) {
      return "";
    }
    throw_disk_error("open", path, errno);
  }
  std::array<char, 512> text;
  ssize_t n = 0;
  do {
    n = ::pread(file.get(), text.data(), text.size(), 0);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    throw_disk_error("read", path, errno);
  }
  return {text.data(), static_cast<size_t>(n)};
}

// Returns the position in the order of commits, or 0 if the text is invalid. The checkpoint is then
// still listed, because its checksums show whether it is valid.
uint64_t sequence_of(const std::string& folder) {
  const std::string text = small_text(folder + kCommitted);
  uint64_t sequence = 0;
  std::from_chars(text.data(), text.data() + text.size(), sequence);
  return sequence;
}

class LocalFile final : public CheckpointFile {
 public:
  explicit LocalFile(std::string path)
      : path_(std::move(path)), file_(DurableFile::create(path_)) {}
  ~LocalFile() override {
    if (file_.is_open()) {
      ::unlink(path_.c_str());
    }
  }
  LocalFile(const LocalFile&) = delete;
  LocalFile& operator=(const LocalFile&) = delete;
  LocalFile(LocalFile&&) = delete;
  LocalFile& operator=(LocalFile&&) = delete;

  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  void close() override {
    file_.sync();
    file_.close();
  }

 private:
  std::string path_;
  DurableFile file_;
};

}  // namespace

LocalStorage::LocalStorage(std::string root) : root_(std::move(root)) {}

std::string LocalStorage::folder(const std::string& checkpoint) const {
  check_checkpoint_name(checkpoint);
  return root_ + "/" + checkpoint;
}

std::string LocalStorage::open_folder(const std::string& checkpoint) const {
  check_checkpoint_name(checkpoint);
  return root_ + "/" + std::string(kOpenPrefix) + checkpoint;
}

std::string LocalStorage::gone_folder(const std::string& checkpoint) const {
  return root_ + "/" + std::string(kGonePrefix) + checkpoint;
}

bool LocalStorage::is_committed(const std::string& checkpoint) const {
  return is_there(folder(checkpoint) + kCommitted);
}

bool LocalStorage::is_leftover(const std::string& checkpoint) const {
  return is_there(folder(checkpoint) + kNotYet) && !is_committed(checkpoint);
}

void LocalStorage::check_committed(const std::string& checkpoint) const {
  if (!is_committed(checkpoint)) {
    throw Error("storage.not_found",
                "no finished checkpoint at " + folder(checkpoint) +
                    "; use a checkpoint that contains the file COMMITTED");
  }
}

void LocalStorage::open(const std::string& checkpoint, bool is_first) {
  const std::string path = open_folder(checkpoint);
  if (is_committed(checkpoint)) {
    throw Error("storage.exists",
                folder(checkpoint) + " already exists; remove it, or use another name");
  }
  if (!is_first) {
    if (!is_there(path)) {
      throw Error("storage.io",
                  "cannot find " + path +
                      ", which another rank created; put the run folder on storage that all "
                      "machines share");
    }
    return;
  }
  make_folders(root_);
  clear_leftovers();
  if (is_there(folder(checkpoint))) {
    throw Error("storage.exists",
                folder(checkpoint) + " exists and is not a checkpoint; move it away");
  }
  if (::mkdir(path.c_str(), 0777) != 0) {
    throw_disk_error("create the folder", path, errno);
  }
}

std::unique_ptr<CheckpointFile> LocalStorage::create_file(const std::string& checkpoint,
                                                          const std::string& file) {
  check_checkpoint_name(file);
  return std::make_unique<LocalFile>(open_folder(checkpoint) + "/" + file);
}

// The order of syncs ensures durability: the files (synced by close), the folder, the folder's name
// in its parent, and only then the file COMMITTED.
void LocalStorage::commit(const std::string& checkpoint) {
  const std::string open = open_folder(checkpoint);
  const std::string path = folder(checkpoint);
  if (!is_committed(checkpoint)) {  // otherwise an earlier attempt got this far
    if (is_there(open)) {
      uint64_t sequence = 0;
      for (const std::string& other : list()) {
        sequence = std::max(sequence, sequence_of(folder(other)));
      }
      remove_file(open + kNotYet);
      DurableFile record = DurableFile::create(open + kNotYet);
      const std::string text = formatted("{}\n", sequence + 1);
      record.write(std::as_bytes(std::span(text)));
      record.sync();
      sync_folder(open);
      rename_path(open, path);
    } else if (!is_leftover(checkpoint)) {
      throw Error("storage.not_found", "no checkpoint is open as " + open);
    }
    sync_folder(root_);
    rename_path(path + kNotYet, path + kCommitted);
  }
  try {
    sync_folder(path);
  } catch (const Error&) {
    // Undo: the checkpoint would be listed, but might not survive a crash.
    ::rename((path + kCommitted).c_str(), (path + kNotYet).c_str());
    throw;
  }
  try {
    point_latest("");
  } catch (const Error& error) {
    // The checkpoint is committed; only `latest` is outdated.
    log_warning(error.what());
  }
}

void LocalStorage::abort(const std::string& checkpoint) {
  remove_leftover(checkpoint);
}

std::vector<std::string> LocalStorage::list() {
  std::vector<std::pair<uint64_t, std::string>> found;
  for (const std::string& name : names_in(root_)) {
    if (name.front() != '.' && is_there(root_ + "/" + name + kCommitted)) {
      found.emplace_back(sequence_of(root_ + "/" + name), name);
    }
  }
  std::ranges::sort(found);
  std::vector<std::string> names;
  for (auto& [sequence, name] : found) {
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> LocalStorage::list_files(const std::string& checkpoint) {
  check_committed(checkpoint);
  std::vector<std::string> names = names_in(folder(checkpoint));
  std::erase(names, kCommitted + 1);
  std::ranges::sort(names);
  return names;
}

uint64_t LocalStorage::file_size(const std::string& checkpoint, const std::string& file) {
  check_committed(checkpoint);
  check_checkpoint_name(file);
  const std::string path = folder(checkpoint) + "/" + file;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) {
      throw Error("storage.not_found", "no such file: " + path);
    }
    throw_disk_error("access", path, errno);
  }
  return static_cast<uint64_t>(status.st_size);
}

void LocalStorage::read(const std::string& checkpoint,
                        const std::string& file,
                        uint64_t offset,
                        std::span<std::byte> out) {
  check_committed(checkpoint);
  check_checkpoint_name(file);
  const std::string path = folder(checkpoint) + "/" + file;
  // Opened for each read, because the name may refer to a new file after a removal.
  const OpenFile input(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!input.is_open()) {
    if (errno == ENOENT) {
      throw Error("storage.not_found", "no such file: " + path);
    }
    throw_disk_error("open", path, errno);
  }
  while (!out.empty()) {
    const ssize_t n = ::pread(input.get(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      throw_disk_error("read", path, errno);
    }
    if (n == 0) {
      throw Error("storage.io",
                  formatted("{} ends at byte {}, {} bytes too early: the file is truncated; use "
                            "another checkpoint",
                            path,
                            offset,
                            out.size()));
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
}

void LocalStorage::remove(const std::string& checkpoint) {
  if (is_committed(checkpoint)) {
    point_latest(checkpoint);
    const std::string path = folder(checkpoint);
    rename_path(path + kCommitted, path + kNotYet);
    sync_folder(path);
  }
  remove_leftover(checkpoint);
}

std::string LocalStorage::address(const std::string& checkpoint) const {
  return root_ + "/" + checkpoint;
}

void LocalStorage::clear_leftovers() {
  for (const std::string& name : names_in(root_)) {
    if (name.starts_with(kOpenPrefix) || name.starts_with(kGonePrefix)) {
      remove_folder(root_ + "/" + name);
    } else if (name.front() != '.' && is_there(root_ + "/" + name + kNotYet) &&
               !is_there(root_ + "/" + name + kCommitted)) {
      remove_leftover(name);
    }
  }
}

void LocalStorage::point_latest(const std::string& without) {
  std::vector<std::string> names = list();
  std::erase(names, without);
  const std::string path = root_ + kLatest;
  if (names.empty()) {
    remove_file(path);
    sync_folder(root_);
  } else if (small_text(path) != names.back() + "\n") {
    replace_file(path, names.back() + "\n");
  }
}

void LocalStorage::remove_leftover(const std::string& checkpoint) {
  remove_folder(open_folder(checkpoint));
  // Renamed first, because a partly removed folder would look like a folder of the user.
  if (is_leftover(checkpoint)) {
    remove_folder(gone_folder(checkpoint));
    rename_path(folder(checkpoint), gone_folder(checkpoint));
    sync_folder(root_);
  }
  remove_folder(gone_folder(checkpoint));
}

}  // namespace tenon
