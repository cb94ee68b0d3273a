// SPDX-License-Identifier: Apache-2.0
//
// Groups of ranks on devices with streams, over a backend of c10d that has the collectives itself
// (NCCL). What is begun goes in stream order: a wait makes the compute stream wait, not the thread.
// So a record counts as done once it was waited for, and a rank that is lost is reported by the
// backend's own watchdog, which ends the process.
#pragma once

#include "host/distributed/collectives/collective_check.hpp"
#include "host/distributed/collectives/collective_log.hpp"
#include "host/distributed/collectives/group.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <string>

namespace tenon {

// `log` and `backend` must outlive the group, and the group its works. Collectives are compared
// before they begin where `check` is not null.
std::unique_ptr<Group> make_stream_group(CollectiveLog& log,
                                         c10d::Backend& backend,
                                         std::unique_ptr<CollectiveCheck> check,
                                         std::string name);

}  // namespace tenon
