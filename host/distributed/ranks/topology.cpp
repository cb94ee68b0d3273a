// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/topology.hpp"

#include "host/io/control_group.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sched.h>
#include <system_error>
#include <tuple>
#include <unistd.h>

namespace tenon {
namespace {

// More than Linux can be built for: a list that goes beyond is invalid.
constexpr int kMaxProcessors = 1 << 16;

std::string first_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// The node of each processor.
std::map<int, int> read_nodes(const std::string& root) {
  std::map<int, int> nodes;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/node", failed)) {
    const std::string name = entry.path().filename().string();
    int node = 0;
    if (!name.starts_with("node") ||
        std::from_chars(name.data() + 4, name.data() + name.size(), node).ec != std::errc()) {
      continue;
    }
    for (const int processor : parse_processors(first_line(entry.path() / "cpulist"))) {
      nodes[processor] = node;
    }
  }
  return nodes;
}

Processors read_siblings(const std::string& root, int processor) {
  const std::string folder = formatted("{}/cpu/cpu{}/topology/", root, processor);
  for (const char* const name : {"core_cpus_list", "thread_siblings_list"}) {  // new and old name
    const Processors siblings = parse_processors(first_line(folder + name));
    if (std::ranges::find(siblings, processor) != siblings.end()) {
      return siblings;
    }
  }
  return {processor};
}

// The processors that a group allows: the quota of a period over its length.
std::optional<double> quota_of(const ControlGroup& group) {
  double quota = 0;
  double period = 0;
  if (group.is_version_2) {  // "200000 100000" or "max 100000"
    std::ifstream in(group.folder + "/cpu.max");
    if (!(in >> quota >> period)) {
      return std::nullopt;
    }
  } else {
    std::ifstream(group.folder + "/cpu.cfs_quota_us") >> quota;  // -1: no limit
    std::ifstream(group.folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? std::optional(quota / period) : std::nullopt;
}

}  // namespace

Processors parse_processors(std::string_view text) {
  Processors processors;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at < end) {
    int first = 0;
    auto [stop, error] = std::from_chars(at, end, first);
    int last = first;
    if (error == std::errc() && stop < end && *stop == '-') {
      std::tie(stop, error) = [&] {
        const auto result = std::from_chars(stop + 1, end, last);
        return std::tuple(result.ptr, result.ec);
      }();
    }
    const bool is_end = stop == end || *stop == ',' || *stop == '\n';
    if (error != std::errc() || !is_end || first < 0 || last < first || last >= kMaxProcessors) {
      return {};
    }
    for (int processor = first; processor <= last; ++processor) {
      processors.push_back(processor);
    }
    if (stop == end || *stop == '\n') {
      break;
    }
    at = stop + 1;
  }
  std::ranges::sort(processors);
  processors.erase(std::unique(processors.begin(), processors.end()), processors.end());
  return processors;
}

std::string processors_text(const Processors& processors) {
  std::string text;
  for (size_t i = 0; i < processors.size();) {
    size_t last = i;
    while (last + 1 < processors.size() && processors[last + 1] == processors[last] + 1) {
      ++last;
    }
    text += (text.empty() ? "" : ",") + std::to_string(processors[i]);
    text += last > i ? formatted("-{}", processors[last]) : "";
    i = last + 1;
  }
  return text;
}

std::vector<Core> read_topology(const Processors& allowed, const std::string& root) {
  const std::map<int, int> nodes = read_nodes(root);
  std::map<int, Core> cores;  // by their first processor, allowed or not
  for (const int processor : allowed) {
    Core& core = cores[read_siblings(root, processor).front()];
    const auto node = nodes.find(processor);
    core.node = node != nodes.end() ? node->second : 0;
    core.processors.push_back(processor);
  }
  std::vector<Core> sorted;
  sorted.reserve(cores.size());
  for (auto& [first, core] : cores) {
    sorted.push_back(std::move(core));
  }
  std::ranges::stable_sort(sorted, {}, &Core::node);
  return sorted;
}

Processors allowed_processors() {
  Processors processors;
  for (int capacity = 1024; capacity <= kMaxProcessors; capacity *= 2) {
    cpu_set_t* const set = CPU_ALLOC(capacity);
    if (set == nullptr) {
      break;
    }
    const size_t size = CPU_ALLOC_SIZE(capacity);
    const bool is_read = sched_getaffinity(0, size, set) == 0;
    const bool is_too_small = !is_read && errno == EINVAL;
    for (int processor = 0; is_read && processor < capacity; ++processor) {
      if (CPU_ISSET_S(static_cast<size_t>(processor), size, set)) {
        processors.push_back(processor);
      }
    }
    CPU_FREE(set);
    if (!is_too_small) {
      break;
    }
  }
  return processors;
}

int num_online_processors() {
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

std::optional<int> processor_quota(const std::string& root) {
  std::optional<double> least;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    if (const std::optional<double> quota = quota_of(group)) {
      least = std::min(*quota, least.value_or(*quota));
    }
  }
  return least ? std::optional(static_cast<int>(std::ceil(std::min(*least, 1e6)))) : std::nullopt;
}

}  // namespace tenon
