// SPDX-License-Identifier: Apache-2.0
#include "token_shard.hpp"

#define XXH_INLINE_ALL
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

namespace tenon {
namespace {

constexpr char kMagic[8] = {'T', 'N', 'C', 'H', 'A', 'T', '0', '1'};
constexpr char kMagicWithBytes[8] = {'T', 'N', 'C', 'H', 'A', 'T', 'B', '1'};

struct Header {
  char magic[8];
  uint64_t key[2];
  uint64_t num_rows;
  uint64_t num_tokens;
  uint64_t num_bytes_of_counts;
};

void append(std::string& out, const void* data, size_t size) {
  out.append(static_cast<const char*>(data), size);
}

void append_count(std::string& out, int64_t number, const std::string& place) {
  const uint64_t size = place.size();
  append(out, &number, sizeof(number));
  append(out, &size, sizeof(size));
  out += place;
}

bool take(const std::string& from, size_t& at, void* to, size_t size) {
  if (size > from.size() - at) {
    return false;
  }
  if (size > 0) {  // `to` may be the null of an empty vector
    std::memcpy(to, from.data() + at, size);
  }
  at += size;
  return true;
}

bool take_count(const std::string& from, size_t& at, int64_t& number, std::string& place) {
  uint64_t size = 0;
  if (!take(from, at, &number, sizeof(number)) || !take(from, at, &size, sizeof(size)) ||
      size > from.size() - at) {
    return false;
  }
  place = from.substr(at, size);
  at += size;
  return true;
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Returns what is wrong with the rows of a shard, also if its checksum is right; "" if nothing is.
std::string problem_of_rows(const TokenShard& shard) {
  const auto num_tokens = static_cast<int64_t>(shard.tokens.size());
  int64_t before = 0;
  for (size_t row = 0; row < shard.ends.size(); ++row) {
    const int64_t end = shard.ends[row];
    if (end < before || end > num_tokens) {
      return concat(
          "row ", row, " ends at token ", end, ", before its start or after the last one");
    }
    if (end - before < 2) {
      return concat("row ", row, " has ", end - before, " tokens (expected at least 2)");
    }
    const auto is_label = [](MarkedToken token) { return (token & kTrained) != 0; };
    if (std::none_of(shard.tokens.begin() + before + 1, shard.tokens.begin() + end, is_label)) {
      return concat("row ", row, " has no label");
    }
    before = end;
  }
  return before == num_tokens ? "" : "its rows do not end with its tokens";
}

[[noreturn]] void fail_write(const std::string& path) {
  const int reason = errno;
  TENON_FAIL(TENON_IO,
             "chat.cache",
             "cannot write ",
             path,
             ": ",
             std::strerror(reason),
             "; set `cache` to a folder with space, or to \"\" to keep tokens in memory");
}

}  // namespace

std::string hash_text(const ShardKey& key) {
  char text[33];
  std::snprintf(text,
                sizeof(text),
                "%016llx%016llx",
                static_cast<unsigned long long>(key[1]),
                static_cast<unsigned long long>(key[0]));
  return text;
}

void write_shard(const std::string& path, const ShardKey& key, const TokenShard& shard) {
  std::string counts;
  for (const SampleCount* const count : {&shard.counts.unlabeled,
                                         &shard.counts.dropped,
                                         &shard.counts.cut,
                                         &shard.counts.split,
                                         &shard.counts.bad}) {
    append_count(counts, count->samples, count->first);
  }
  for (const LargestCount* const count : {&shard.counts.length, &shard.counts.id}) {
    append_count(counts, count->number, count->place);
  }
  Header header{};
  std::memcpy(header.magic, shard.bytes.empty() ? kMagic : kMagicWithBytes, sizeof(kMagic));
  header.key[0] = key[0];
  header.key[1] = key[1];
  header.num_rows = shard.ends.size();
  header.num_tokens = shard.tokens.size();
  header.num_bytes_of_counts = counts.size();
  std::string bytes;
  bytes.reserve(sizeof(header) + counts.size() + shard.ends.size() * sizeof(int64_t) +
                shard.tokens.size() * sizeof(MarkedToken) + shard.bytes.size() * sizeof(uint32_t) +
                sizeof(uint64_t));
  append(bytes, &header, sizeof(header));
  bytes += counts;
  append(bytes, shard.ends.data(), shard.ends.size() * sizeof(int64_t));
  append(bytes, shard.tokens.data(), shard.tokens.size() * sizeof(MarkedToken));
  append(bytes, shard.bytes.data(), shard.bytes.size() * sizeof(uint32_t));
  const uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  append(bytes, &checksum, sizeof(checksum));

  const std::string part = path + ".part";
  {
    const Descriptor file(part, O_WRONLY | O_CREAT | O_TRUNC);
    if (file.get() < 0) {
      fail_write(part);
    }
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t written = ::write(file.get(), bytes.data() + at, bytes.size() - at);
      if (written < 0 && errno == EINTR) {
        continue;
      }
      if (written <= 0) {
        const int reason = errno;
        ::unlink(part.c_str());
        errno = reason;
        fail_write(part);
      }
      at += static_cast<size_t>(written);
    }
    if (::fsync(file.get()) != 0) {
      fail_write(part);
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    fail_write(path);
  }
}

std::optional<TokenShard> read_shard(const std::string& path,
                                     const ShardKey& key,
                                     std::string& why) {
  why.clear();
  const Descriptor file(path, O_RDONLY);
  if (file.get() < 0) {
    return std::nullopt;
  }
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      why = std::strerror(errno);
      return std::nullopt;
    }
    if (got == 0) {
      break;
    }
    bytes.append(buffer, static_cast<size_t>(got));
  }
  Header header{};
  size_t at = 0;
  uint64_t checksum = 0;
  if (bytes.size() < sizeof(header) + sizeof(checksum)) {
    why = "it is truncated";
    return std::nullopt;
  }
  std::memcpy(&checksum, bytes.data() + bytes.size() - sizeof(checksum), sizeof(checksum));
  bytes.resize(bytes.size() - sizeof(checksum));
  take(bytes, at, &header, sizeof(header));
  const bool has_bytes = std::memcmp(header.magic, kMagicWithBytes, sizeof(kMagic)) == 0;
  if (!has_bytes && std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    why = "it is not a shard of this release";
    return std::nullopt;
  }
  if (checksum != XXH3_64bits(bytes.data(), bytes.size())) {
    why = "its checksum does not match, or it is truncated";
    return std::nullopt;
  }
  if (header.key[0] != key[0] || header.key[1] != key[1]) {
    why = "it was made from other data, or with another template, tokenizer or options";
    return std::nullopt;
  }
  TokenShard shard;
  bool is_whole = true;
  for (SampleCount* const count : {&shard.counts.unlabeled,
                                   &shard.counts.dropped,
                                   &shard.counts.cut,
                                   &shard.counts.split,
                                   &shard.counts.bad}) {
    is_whole = is_whole && take_count(bytes, at, count->samples, count->first);
  }
  for (LargestCount* const count : {&shard.counts.length, &shard.counts.id}) {
    is_whole = is_whole && take_count(bytes, at, count->number, count->place);
  }
  const size_t rest = bytes.size() - at;
  const size_t token_bytes = sizeof(MarkedToken) + (has_bytes ? sizeof(uint32_t) : 0);
  is_whole = is_whole && header.num_rows <= rest / sizeof(int64_t) &&
             header.num_tokens <= rest / token_bytes &&
             header.num_rows * sizeof(int64_t) + header.num_tokens * token_bytes == rest;
  if (!is_whole) {
    why = "its parts do not fit its size";
    return std::nullopt;
  }
  shard.ends.resize(header.num_rows);
  shard.tokens.resize(header.num_tokens);
  take(bytes, at, shard.ends.data(), shard.ends.size() * sizeof(int64_t));
  shard.bytes.resize(has_bytes ? header.num_tokens : 0);
  take(bytes, at, shard.tokens.data(), shard.tokens.size() * sizeof(MarkedToken));
  take(bytes, at, shard.bytes.data(), shard.bytes.size() * sizeof(uint32_t));
  why = problem_of_rows(shard);
  return why.empty() ? std::optional(std::move(shard)) : std::nullopt;
}

}  // namespace tenon
