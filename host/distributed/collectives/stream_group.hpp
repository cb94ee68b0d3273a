// SPDX-License-Identifier: Apache-2.0
//
// Groups of ranks on devices with streams, over a c10d backend that implements the collectives
// itself (NCCL). Collectives run in stream order: a wait makes the compute stream wait, not the
// thread. Therefore a record counts as done once its collective was waited for. The backend's own
// watchdog reports a lost rank, and ends the process.
#pragma once

#include "host/distributed/collectives/collective_check.hpp"
#include "host/distributed/collectives/collective_log.hpp"
#include "host/distributed/collectives/group.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tenon {

// `log` and `backend` must outlive the group, and the group its works. If `check` is not null, it
// compares collectives before they start. `ranks` are the group's ranks in the world.
std::unique_ptr<Group> make_stream_group(CollectiveLog& log,
                                         c10d::Backend& backend,
                                         std::unique_ptr<CollectiveCheck> check,
                                         std::span<const uint32_t> ranks,
                                         std::string name,
                                         c10::Device device);

}  // namespace tenon
