// SPDX-License-Identifier: Apache-2.0
//
// Source: proc_meminfo(5), proc_pid_status(5), setrlimit(2).
#include "host/device/machine_memory.hpp"

#include "host/io/control_group.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string_view>
#include <sys/resource.h>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// Returns the number at the start of a text; nothing for "max" and for other texts.
std::optional<int64_t> number_in(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  int64_t value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc() && value >= 0 ? std::optional(value) : std::nullopt;
}

std::optional<int64_t> number_of_file(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  return std::getline(in, line) ? number_in(line) : std::nullopt;
}

// Returns the number after `key` in a file of lines "KEY NUMBER".
std::optional<int64_t> number_of_key(const fs::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) {
      return number_in(std::string_view(line).substr(key.size()));
    }
  }
  return std::nullopt;
}

// The numbers in /proc are in KiB.
std::optional<int64_t> bytes_of_key(const fs::path& file, std::string_view key) {
  const std::optional<int64_t> kib = number_of_key(file, key);
  return kib.has_value() && *kib <= kUnlimited / 1024 ? std::optional(*kib * 1024) : std::nullopt;
}

class Least {
 public:
  void add(int64_t bytes, const std::string& limit) {
    if (!least_.has_value() || bytes < least_->bytes) {
      least_ = {std::max<int64_t>(0, bytes), limit};
    }
  }
  const std::optional<AvailableMemory>& get() const { return least_; }

 private:
  std::optional<AvailableMemory> least_;
};

// The names of the files of a control group, which differ between the versions.
struct GroupFiles {
  const char* limit;
  const char* used;
  std::array<std::string_view, 3> reclaimable;  // keys in memory.stat
};
constexpr GroupFiles kVersion2 = {
    "memory.max", "memory.current", {"inactive_file ", "active_file ", "slab_reclaimable "}};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes",
                                  "memory.usage_in_bytes",
                                  {"total_inactive_file ", "total_active_file "}};

void add_control_groups(const std::string& root, int64_t swap, Least& least) {
  for (const ControlGroup& group : control_groups("memory", root)) {
    const GroupFiles& files = group.is_version_2 ? kVersion2 : kVersion1;
    const fs::path folder = group.folder;
    const std::optional<int64_t> limit = number_of_file(folder / files.limit);
    const std::optional<int64_t> used = number_of_file(folder / files.used);
    if (limit.has_value() && used.has_value()) {
      int64_t cache = 0;
      for (const std::string_view key : files.reclaimable) {
        cache += key.empty() ? 0 : number_of_key(folder / "memory.stat", key).value_or(0);
      }
      const int64_t free = *limit - std::max<int64_t>(0, *used - cache);
      least.add(free > kUnlimited - swap ? kUnlimited : free + swap,
                "the control group " + group.folder);
    }
  }
}

void add_limit(int resource, const char* name, std::optional<int64_t> used, Least& least) {
  rlimit limit{};
  if (!used.has_value() || getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur >= static_cast<rlim_t>(kUnlimited)) {
    return;
  }
  least.add(static_cast<int64_t>(limit.rlim_cur) - *used, name);
}

}  // namespace

std::optional<AvailableMemory> available_memory(const std::string& root) {
  const fs::path base(root);
  const fs::path memory = base / "proc/meminfo";
  const fs::path status = base / "proc/self/status";
  const int64_t swap = bytes_of_key(memory, "SwapFree:").value_or(0);
  Least least;
  if (const std::optional<int64_t> available = bytes_of_key(memory, "MemAvailable:")) {
    least.add(*available + swap, "the machine");
  }
  add_control_groups(root, swap, least);
  add_limit(RLIMIT_AS, "ulimit -v", bytes_of_key(status, "VmSize:"), least);
  add_limit(RLIMIT_DATA, "ulimit -d", bytes_of_key(status, "VmData:"), least);
  return least.get();
}

MemoryLimit::MemoryLimit() {
  constexpr int64_t kMargin = int64_t{1} << 30;  // for stacks of threads, which are hardly used
  const std::optional<AvailableMemory> available = available_memory();
  const std::optional<int64_t> used = bytes_of_key("/proc/self/status", "VmData:");
  rlimit limit{};
  if (!available.has_value() || !used.has_value() || getrlimit(RLIMIT_DATA, &limit) != 0) {
    return;
  }
  const rlim_t before = limit.rlim_cur;
  const auto wanted = static_cast<rlim_t>(*used) + static_cast<rlim_t>(available->bytes) +
                      static_cast<rlim_t>(kMargin);
  limit.rlim_cur = std::min(before, wanted);
  if (setrlimit(RLIMIT_DATA, &limit) == 0) {
    before_ = before;
  }
}

MemoryLimit::~MemoryLimit() {
  rlimit limit{};
  if (before_.has_value() && getrlimit(RLIMIT_DATA, &limit) == 0) {
    limit.rlim_cur = *before_;
    static_cast<void>(setrlimit(RLIMIT_DATA, &limit));
  }
}

}  // namespace tenon
