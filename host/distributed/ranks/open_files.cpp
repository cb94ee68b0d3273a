// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/open_files.hpp"

#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <system_error>

namespace tenon {
namespace {

// A rank connects to each other rank in at most four groups: the small collectives, all ranks,
// shards and replicas. The last three use two connections each.
constexpr rlim_t kConnectionsToARank = 7;
// Two connections to the store, the engine's own files, logs, data and plugins.
constexpr rlim_t kOthers = 16;

rlim_t num_open_files() {
  std::error_code failed;
  rlim_t count = 0;
  for (std::filesystem::directory_iterator file("/proc/self/fd", failed), end;
       !failed && file != end;
       file.increment(failed)) {
    ++count;
  }
  return count;
}

}  // namespace

void allow_connections(uint32_t rank, uint32_t world_size) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return;
  }
  const rlim_t open = num_open_files();
  const rlim_t needed = open + kConnectionsToARank * (world_size - 1) + kOthers;
  if (limit.rlim_cur < needed && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::min(needed, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur < needed) {
    throw Error("distributed.no_open_files",
                formatted("rank {} has {} of at most {} open, but needs {} to connect to {}; raise "
                          "the limit (ulimit -n, or the limit of the service)",
                          rank,
                          counted(open, "file"),
                          limit.rlim_cur,
                          needed,
                          counted(world_size - 1, "other rank")));
  }
}

}  // namespace tenon
