// SPDX-License-Identifier: Apache-2.0
//
// The connected ranks of a run: groups of them, a store for texts, and records of recent
// collectives. rank_environment.hpp identifies the ranks, and mesh.hpp
// arranges them.
// Invariants: a world of one rank opens no connection, except to a store that its launcher holds;
// the headers of each engine are included by one source file only.
// Threads: [main], unless a function says otherwise.
#pragma once

#include "host/distributed/collectives/collective_record.hpp"
#include "host/distributed/collectives/group.hpp"
#include "host/distributed/collectives/traffic.hpp"
#include "host/distributed/ranks/rank_environment.hpp"
#include "host/distributed/ranks/store.hpp"

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct WorldOptions {
  // Time limit of a collective: `start_timeout` until `end_start`, `timeout` after it.
  std::chrono::milliseconds start_timeout{300'000};
  std::chrono::milliseconds timeout{100'000};
  std::string interface = {};      // network interface, "eth0"; "": the one towards the master
  bool check_collectives = false;  // ranks compare each collective before starting it
  bool share_memory = true;        // between CPU ranks of one machine
};

class World {
 public:
  // Connects to the other ranks. Returns a world of one rank if no launcher started ranks.
  // Errors  distributed.unreachable if the master does not answer, or if not all ranks arrive
  //         within `start_timeout` (names the missing ranks); distributed.port_taken;
  //         distributed.no_interface; distributed.no_open_files
  static std::unique_ptr<World> join(const RankEnvironment& environment,
                                     const WorldOptions& options);
  virtual ~World() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  // The group of all ranks for small values. It exists as long as the world.
  virtual Group& control() = 0;
  // Returns how often the ranks of this run were started before; equal on all ranks.
  virtual uint32_t restart() const = 0;

  // Creates the group of `ranks`, in their order; this rank must be one of them. Several groups of
  // the same ranks may run concurrently. All ranks of the world create their groups in the same
  // order. A group of one rank sends nothing. `name` is for reports: "shard".
  // Errors  distributed.unreachable; device.unavailable if the device needs NCCL, which is
  //         unavailable
  // Owner   the caller's; the world outlives it
  virtual std::unique_ptr<Group> make_group(std::span<const uint32_t> ranks,
                                            std::string_view name,
                                            c10::Device device) = 0;

  // Opens a separate connection to the store, for one thread, independent of all others. A call may
  // take as long as a collective. Returns null in a world of one rank, unless the launcher holds
  // the store.
  // Owner: the caller's; the world outlives it.
  virtual std::unique_ptr<Store> open_store() = 0;
  // Opens the store as the ranks of restart number `restart` used it; 0 is the first start. If the
  // launcher does not hold the store, the result is empty, or null in a world of one rank.
  virtual std::unique_ptr<Store> open_earlier_store(uint32_t restart) = 0;

  // Makes the world usable again after a collective failed or was aborted, with the same ranks. All
  // ranks call it, and all must be alive. Call it after all groups of the world have been
  // destroyed.
  // Errors  distributed.unreachable if not all ranks arrive within the time limit
  virtual void reconnect() = 0;

  // Ends the start phase: from here on, `timeout` applies.
  virtual void end_start() = 0;

  // Fails all current and future collectives.
  // Threads: any.
  virtual void abort(const std::string& reason) = 0;

  virtual Traffic traffic() const = 0;
  // Returns the last collectives, oldest first.
  // Threads: any.
  virtual std::vector<CollectiveRecord> last_collectives() const = 0;

  // Waits for the other ranks, and closes all connections; called when a run ends normally. An
  // error also closes the connections, and is then thrown.
  // Errors  distributed.failed if another rank is lost
  virtual void leave() = 0;
};

}  // namespace tenon
