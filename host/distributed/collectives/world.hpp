// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a run, connected: the small collectives that all of them decide by, groups of them
// for tensors, a store for texts, and what is known of the collectives so far. Who the ranks are is
// rank_environment.hpp's, how they are arranged mesh.hpp's.
// Invariants: a world of one rank opens no connection, but to a store that its launcher keeps; the
// engines' own headers are seen by one source file alone.
// Threads: [main], unless a function says otherwise.
#pragma once

#include "host/distributed/collectives/collective.hpp"
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
  // How long a collective may take: until `end_start`, and from then on.
  std::chrono::milliseconds start_timeout{300'000};
  std::chrono::milliseconds timeout{100'000};
  std::string interface =
      {};  // of the network, "eth0"; "" for the one that the master is reached by
  bool check_collectives = false;  // ranks compare each collective before they begin it
  bool share_memory = true;        // what ranks of one machine send each other, on the CPU
};

class World {
 public:
  // Connects to the other ranks; a world of one rank where nobody started any.
  // Errors  distributed.unreachable if the master does not answer, or not all ranks come within
  //         `start_timeout`: which were missing; distributed.port_taken; distributed.no_interface
  static std::unique_ptr<World> join(const RankEnvironment& environment,
                                     const WorldOptions& options);
  virtual ~World() = default;

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  virtual Collective& control() = 0;
  // How often the ranks of this run were started before; the same on all of them.
  virtual uint32_t restart() const = 0;

  // The group of `ranks`, this one among them, in their order; several of the same ranks may work
  // side by side. All ranks of the world make their groups in the same order. A group of one rank
  // sends nothing.
  // `name` is for reports: "shard".
  // Errors  distributed.unreachable; device.unavailable if the device needs NCCL, and there is none
  // Owner   the caller's; the world outlives it
  virtual std::unique_ptr<Group> make_group(std::span<const uint32_t> ranks,
                                            std::string_view name,
                                            c10::Device device) = 0;

  // A separate connection to the store: for one thread, whatever others do. A call may take as
  // long as a collective. Null in a world of one rank, unless the launcher keeps the store.
  // Owner: the caller's; the world outlives it.
  virtual std::unique_ptr<Store> open_store() = 0;
  // What was in the store before the launcher started the ranks again: of restart number `restart`,
  // 0 for the first start. Empty if the launcher does not keep the store; null in a world of one
  // rank then.
  virtual std::unique_ptr<Store> open_earlier_store(uint32_t restart) = 0;

  // From here on `timeout` counts.
  virtual void end_start() = 0;

  // Makes all collectives under way fail, now and from here on.
  // Threads: any.
  virtual void abort(const std::string& reason) = 0;

  virtual Traffic traffic() const = 0;
  // The last ones, oldest first.
  // Threads: any.
  virtual std::vector<CollectiveRecord> last_collectives() const = 0;

  // Waits for the others and closes all connections; to be called where a run ends in order. What
  // goes wrong with that closes them too, and is thrown then.
  // Errors  distributed.failed if another rank is gone
  virtual void leave() = 0;
};

}  // namespace tenon
