// SPDX-License-Identifier: Apache-2.0
#include "token_store.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <type_traits>
#include <unistd.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

// A name that no other process has which uses the folder, on this machine or another.
std::string process_name() {
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) {
    host[0] = '\0';
  }
  return host + ("-" + std::to_string(::getpid()));
}

std::string shard_path(const std::string& folder, size_t i) {
  char name[32];
  std::snprintf(name, sizeof(name), "shard-%05zu.bin", i);
  return folder + "/" + name;
}

void make_folder(const std::string& folder) {
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem) {
    TENON_FAIL(
        TENON_IO,
        "chat.cache",
        "cannot create the folder ",
        folder,
        ": ",
        problem.message(),
        "; set `cache` to a folder that can be written, or to \"\" to keep tokens in memory");
  }
}

// Read and write access for those who may change the folder, and so could replace the file. Others
// could lock a file that they may only read.
mode_t mode_in(const std::string& folder) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0 || (status.st_mode & S_ISVTX) != 0) {
    return S_IRUSR | S_IWUSR;
  }
  const mode_t writers = status.st_mode & (S_IWGRP | S_IWOTH);
  return S_IRUSR | S_IWUSR | writers | (writers << 1);
}

// Holds a lock of the file while it lives. The system ends the lock with its process. On a file
// system without locks, nobody holds one.
class FileLock {
 public:
  FileLock(const Host& host, const std::string& folder, const std::string& path) {
    const mode_t mode = mode_in(folder);
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
    struct stat status {};
    if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
      TENON_FAIL(TENON_IO, "chat.cache", "cannot lock ", path, ": ", std::strerror(errno));
    }
    if (status.st_uid == ::geteuid() && (status.st_mode & ALLPERMS) != mode) {
      (void)!::fchmod(fd_, mode);  // of an earlier release
    }
    int error = 0;
    for (bool is_reported = false; (error = try_lock()) == EAGAIN; is_reported = true) {
      if (!is_reported) {
        host.log_info("another process processes the chats; waiting for it (", path, ")");
      }
      constexpr std::chrono::milliseconds kPause{50};
      std::this_thread::sleep_for(kPause);
    }
    is_held_ = error == 0;
    if (!is_held_) {
      host.log_warn("this file system has no locks (",
                    std::strerror(error),
                    "): other processes may process the same chats, too (",
                    path,
                    ")");
    }
  }
  ~FileLock() { ::close(fd_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  bool is_held() const { return is_held_; }

 private:
  // Returns 0, EAGAIN if another process holds the lock, or why there is none.
  int try_lock() const {
    struct flock whole {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (::fcntl(fd_, F_OFD_SETLK, &whole) == 0) {
      return 0;
    }
    const bool is_busy = errno == EAGAIN || errno == EACCES;
    if (is_busy || ::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      return is_busy ? EAGAIN : 0;
    }
    return errno == EWOULDBLOCK ? EAGAIN : errno;
  }

  int fd_ = -1;
  bool is_held_ = false;
};

// Returns the rule that a shard breaks; "" if there is none. A shard with another number of rows
// would pair the rows of later shards wrongly.
std::string broken_rule(const TokenShard& shard, const ShardRules& rules) {
  if (shard.ends.size() % rules.rows_of_sample != 0) {
    return concat(
        "it has ", shard.ends.size(), " rows (expected a multiple of ", rules.rows_of_sample, ")");
  }
  for (const MarkedToken token : shard.tokens) {
    if (static_cast<int64_t>(token & ~kTrained) >= rules.vocab_size) {
      return concat("it has the id ",
                    token & ~kTrained,
                    " (expected ids below ",
                    rules.vocab_size,
                    ", the size of the vocabulary)");
    }
  }
  return {};
}

void build(const Host& host,
           const std::string& folder,
           const std::string& building,
           const ShardKey& key,
           const ShardSource& source) {
  make_folder(building);
  source.begin(building);
  size_t kept = 0;
  for (size_t i = 0; i < source.num_shards; ++i) {
    const std::string path = shard_path(building, i);
    std::string why;
    if (read_shard(path, key, why)) {
      ++kept;
      continue;
    }
    const TokenShard shard = source.make(i);
    if (shard.problems.is_empty()) {
      write_shard(path, key, shard);
    }
  }
  source.end();
  if (kept > 0) {
    host.log_info("continued an interrupted build of chats: ",
                  kept,
                  " of ",
                  source.num_shards,
                  " shards existed in ",
                  building);
  }
  std::error_code problem;
  fs::rename(building, folder, problem);
  std::error_code ignored;
  if (problem && fs::is_directory(folder, ignored)) {  // of a process that did not see our lock
    fs::remove_all(building, ignored);
    return;
  }
  if (problem) {
    TENON_FAIL(TENON_IO, "chat.cache", "cannot rename ", building, ": ", problem.message());
  }
}

}  // namespace

TokenStore TokenStore::in_memory(const ShardSource& source) {
  TokenStore store;
  for (size_t i = 0; i < source.num_shards; ++i) {
    store.add(source.make(i), nullptr);
  }
  source.end();
  return store;
}

TokenStore TokenStore::in_folder(const Host& host,
                                 const std::string& folder,
                                 const ShardKey& key,
                                 const ShardRules& rules,
                                 const ShardSource& source) {
  const std::string own = folder + "/" + hash_text(key);
  std::error_code ignored;
  if (!fs::is_directory(own, ignored)) {
    make_folder(folder);
    const FileLock lock(host, folder, own + ".lock");
    if (!fs::is_directory(own, ignored)) {  // nobody built it in the meantime
      const std::string suffix = lock.is_held() ? "" : "-" + process_name();
      build(host, own, own + ".incomplete" + suffix, key, source);
    }
  }
  TokenStore store;
  store.folder_ = own;
  for (size_t i = 0; i < source.num_shards; ++i) {
    const std::string path = shard_path(own, i);
    auto file = std::make_unique<StableFile>(path, "chat");
    std::string why;
    std::optional<TokenShard> shard = read_shard(path, key, why);
    if (shard) {
      why = broken_rule(*shard, rules);
    }
    if (!shard || !why.empty()) {
      TENON_FAIL(TENON_DATA_LOSS,
                 "chat.bad_shard",
                 path,
                 " is invalid: ",
                 why,
                 "; remove the folder ",
                 own,
                 " to process the chats again");
    }
    store.add(std::move(*shard), std::move(file));
  }
  return store;
}

void TokenStore::add(TokenShard shard, std::unique_ptr<StableFile> file) {
  Stored stored;
  stored.first_row = num_rows_;
  num_rows_ += shard.ends.size();
  if (file != nullptr) {
    stored.bytes_offset = file->size() - static_cast<int64_t>(sizeof(uint64_t)) -
                          static_cast<int64_t>(shard.bytes.size() * sizeof(uint32_t));
    stored.offset =
        stored.bytes_offset - static_cast<int64_t>(shard.tokens.size() * sizeof(MarkedToken));
    shard.tokens = std::vector<MarkedToken>();
    shard.bytes = std::vector<uint32_t>();
  }
  stored.shard = std::move(shard);
  stored.file = std::move(file);
  shards_.push_back(std::move(stored));
}

const TokenStore::Stored& TokenStore::shard_of(size_t row) const {
  const auto after =
      std::upper_bound(shards_.begin(), shards_.end(), row, [](size_t at, const Stored& stored) {
        return at < stored.first_row;
      });
  return *(after - 1);
}

size_t TokenStore::size_of(size_t row) const {
  const Stored& stored = shard_of(row);
  const size_t i = row - stored.first_row;
  const auto& ends = stored.shard.ends;
  return static_cast<size_t>(ends[i] - (i == 0 ? 0 : ends[i - 1]));
}

void TokenStore::read(size_t row,
                      std::vector<MarkedToken>& out,
                      std::vector<uint32_t>* bytes) const {
  const Stored& stored = shard_of(row);
  const size_t i = row - stored.first_row;
  const auto& ends = stored.shard.ends;
  const int64_t begin = i == 0 ? 0 : ends[i - 1];
  const auto size = static_cast<size_t>(ends[i] - begin);
  // Appends the elements of the row, of a vector in memory or at an offset of the file.
  const auto append = [&](const std::vector<uint32_t>& kept, int64_t offset, auto& to) {
    if (stored.file == nullptr) {
      const auto first = kept.begin() + begin;
      to.insert(to.end(), first, first + static_cast<ptrdiff_t>(size));
      return;
    }
    offset += begin * static_cast<int64_t>(sizeof(uint32_t));
    const size_t at = to.size();
    to.resize(at + size);
    stored.file->read(offset, size * sizeof(uint32_t), reinterpret_cast<char*>(to.data() + at));
    stored.file->check_unchanged(offset);
  };
  static_assert(std::is_same_v<MarkedToken, uint32_t>);
  append(stored.shard.tokens, stored.offset, out);
  if (bytes != nullptr) {
    append(stored.shard.bytes, stored.bytes_offset, *bytes);
  }
}

std::string default_cache_folder() {
  if (const char* const folder = std::getenv("TENON_CACHE")) {
    return std::string(folder) + "/chats";
  }
  if (const char* const folder = std::getenv("XDG_CACHE_HOME");
      folder != nullptr && *folder == '/') {
    return std::string(folder) + "/tenon/chats";
  }
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home != '/' ? std::string()
                                         : std::string(home) + "/.cache/tenon/chats";
}

}  // namespace tenon
