// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/local_storage.hpp"

#include "host/checkpoint/commit_record.hpp"
#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <tuple>
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
// Added to the largest known number if some COMMITTED cannot be read: more than a run commits, so
// that the next number is larger than the unknown one.
constexpr uint64_t kNumbersLeftOut = 1'000'000;

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

// True if a folder of the root has this file. False also if the folder cannot be searched: it is
// then not the host's. One folder must not stop the listing of all others.
bool has_file(const std::string& folder, const char* file) {
  struct stat status {};
  return ::stat((folder + file).c_str(), &status) == 0 ||
         (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != ELOOP);
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

// True if the folder has nothing but files that NFS keeps while a process has them open.
bool has_only_open_files(const std::string& path) {
  std::error_code failed;
  for (fs::directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed)) {
    if (!at->path().filename().string().starts_with(".nfs")) {
      return false;
    }
  }
  return !failed;
}

// A folder whose files are still open over NFS stays until a later save.
void remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  const bool may_be_open = error.value() == ENOTEMPTY || error.value() == EBUSY;
  if (error && error.value() != ENOENT && !(may_be_open && has_only_open_files(path))) {
    throw_disk_error("remove", path, error.value());
  }
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw_disk_error("remove", path, errno);
  }
}

[[noreturn]] void throw_unreadable(const std::string& path, const std::string& problem) {
  struct stat status {};
  const bool is_special = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  throw Error(is_special ? "checkpoint.damaged" : "storage.io",
              "cannot read " + path + ": " + problem);
}

// Returns the text of COMMITTED or `latest`; none if the file does not exist, "" if it is too long.
std::optional<std::string> small_text(const std::string& path) {
  constexpr uint64_t kMostBytes = 512;
  FileText file = read_file_text(path, kMostBytes);
  if (file.is_missing) {
    return std::nullopt;
  }
  if (!file.problem.empty()) {
    throw_unreadable(path, file.problem);
  }
  return std::move(file.text);
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

CommitRecord LocalStorage::record_of(const std::string& checkpoint) const {
  check_committed(checkpoint);
  const std::string path = folder(checkpoint) + kCommitted;
  const auto record = commit_record_of(small_text(path).value_or(""));
  if (!record.has_value()) {
    throw Error("checkpoint.damaged",
                path + " is corrupt: it has no valid number, name and checksum");
  }
  return *record;
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
  if (!is_root_synced_) {
    sync_name(root_);
    is_root_synced_ = true;
  }
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
      const std::string text = commit_record_text(next_sequence(), checkpoint);
      remove_file(open + kNotYet);
      DurableFile record = DurableFile::create(open + kNotYet);
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

std::vector<LocalStorage::Committed> LocalStorage::committed() {
  std::vector<Committed> found;
  for (const std::string& name : names_in(root_)) {
    if (!is_checkpoint_name(name) || !has_file(root_ + "/" + name, kCommitted)) {
      continue;
    }
    Committed& one = found.emplace_back(Committed{.name = name});
    try {
      one.record = record_of(name);
      highest_ = std::max(highest_, one.record->sequence);
    } catch (const Error&) {
      // Listed as corrupt. Whoever opens the checkpoint reports the error.
    }
  }
  // A copy of a checkpoint has its number; it comes before the checkpoint, which then is the newer.
  const auto key = [](const Committed& one) {
    const uint64_t sequence = one.record.has_value() ? one.record->sequence : kMaxSequence + 1;
    const bool is_original = one.record.has_value() && one.record->name == one.name;
    return std::tuple(sequence, is_original, -static_cast<int64_t>(one.name.size()), one.name);
  };
  std::ranges::sort(found, {}, key);
  return found;
}

std::vector<std::string> LocalStorage::list() {
  std::vector<std::string> names;
  for (Committed& one : committed()) {
    names.push_back(std::move(one.name));
  }
  return names;
}

std::optional<CommitRecord> LocalStorage::commit_record(const std::string& checkpoint) {
  return record_of(checkpoint);
}

std::optional<std::string> LocalStorage::latest() {
  return small_text(root_ + kLatest);
}

std::vector<std::string> LocalStorage::skipped() {
  std::vector<std::string> names = names_in(root_);
  std::erase_if(names, [this](const std::string& name) {
    return name.starts_with('.') || is_checkpoint_name(name) ||
           !has_file(root_ + "/" + name, kCommitted);
  });
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> LocalStorage::list_files(const std::string& checkpoint) {
  record_of(checkpoint);
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
  if (!S_ISREG(status.st_mode)) {
    throw Error("checkpoint.damaged",
                formatted("{} is {} (expected a regular file)", path, file_kind(status.st_mode)));
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
  const RegularFile input = open_regular_file(path);
  if (input.is_missing) {
    throw Error("storage.not_found", "no such file: " + path);
  }
  if (!input.problem.empty()) {
    throw_unreadable(path, input.problem);
  }
  size_t num_read = 0;
  if (const std::string problem = read_at(input.file, offset, out, num_read); !problem.empty()) {
    throw_unreadable(path, problem);
  }
  if (num_read < out.size()) {
    throw Error("storage.io",
                formatted("{} ends at byte {}, {} bytes too early: the file is truncated; use "
                          "another checkpoint",
                          path,
                          offset + num_read,
                          out.size() - num_read));
  }
}

void LocalStorage::remove(const std::string& checkpoint) {
  if (is_committed(checkpoint)) {
    leave_latest(checkpoint);
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
    const std::string path = root_ + "/" + name;
    try {
      if (name.starts_with(kOpenPrefix) || name.starts_with(kGonePrefix)) {
        remove_folder(path);
      } else if (is_checkpoint_name(name) && has_file(path, kNotYet) && is_own_leftover(name)) {
        remove_leftover(name);
      }
    } catch (const Error& error) {
      // Only a save under that name fails.
      log_warning(error.what());
    }
  }
}

// A copy of a leftover belongs to whoever made it.
bool LocalStorage::is_own_leftover(const std::string& checkpoint) const {
  if (!is_leftover(checkpoint)) {
    return false;
  }
  const auto record = commit_record_of(small_text(folder(checkpoint) + kNotYet).value_or(""));
  return record.has_value() && (record->name == checkpoint || !record->has_checksum());
}

uint64_t LocalStorage::next_sequence() {
  const std::vector<Committed> found = committed();
  const bool are_known =
      std::ranges::all_of(found, [](const Committed& one) { return one.record.has_value(); });
  const uint64_t step = are_known ? 1 : kNumbersLeftOut;
  if (highest_ > kMaxSequence - step) {
    throw Error("storage.io",
                formatted("a checkpoint in {} has the number {} in COMMITTED, and no larger number "
                          "is left; move that checkpoint away",
                          root_,
                          highest_));
  }
  return highest_ + step;
}

void LocalStorage::point_latest(const std::string& without) {
  std::vector<Committed> found = committed();
  std::erase_if(
      found, [&](const Committed& one) { return one.name == without || !one.record.has_value(); });
  const std::string path = root_ + kLatest;
  if (found.empty()) {
    remove_file(path);
    sync_folder(root_);
    return;
  }
  std::optional<std::string> text;
  try {
    text = small_text(path);
  } catch (const Error&) {
    // Replaced below, if it can be.
  }
  if (text != found.back().name + "\n") {
    replace_file(path, found.back().name + "\n");
  }
}

void LocalStorage::leave_latest(const std::string& checkpoint) {
  try {
    point_latest(checkpoint);
  } catch (const Error& error) {
    std::optional<std::string> text;
    try {
      text = small_text(root_ + kLatest);
    } catch (const Error&) {
      // A directory, for example: it names no checkpoint.
    }
    if (text == checkpoint + "\n") {
      throw;
    }
    log_warning(error.what());
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
