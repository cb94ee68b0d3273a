// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/early_failure.hpp"

#include "host/distributed/failures/failed_run.hpp"
#include "host/log/log.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace tenon {
namespace {

// For the others to come: whoever reads the error is not to wait for long.
constexpr std::chrono::seconds kPatience{20};

// Whoever cannot reach the others cannot tell them so either.
bool is_about_meeting(const std::string& id) {
  return id == "distributed.unreachable" || id == "distributed.port_taken" ||
         id == "distributed.no_interface" || id == "distributed.no_open_files" ||
         id == "distributed.bad_environment";
}

}  // namespace

void fail_with_others(const RankEnvironment& environment, const Error& error) {
  if (environment.world_size == 1 || is_about_meeting(error.id())) {
    return;
  }
  std::unique_ptr<World> world;
  try {
    world = World::join(environment, {.start_timeout = kPatience});
  } catch (const Error&) {  // then it is reported by each rank that has it
    return;
  }
  try {
    together(world->control(), "errors so far", [&] { throw error; });
  } catch (const SharedFailure& failure) {
    note_lone_failure(*world, failure);
    try {
      world->leave();
    } catch (const Error& late) {  // already reported
      log_to_file(late.what());
    }
    throw;
  }
}

void note_lone_failure(World& world, const SharedFailure& failure) {
  if (world.rank() != 0 || world.size() == 1 || !failure.lone_rank().has_value()) {
    return;
  }
  try {
    const std::unique_ptr<Store> store = world.open_store();
    FailedRunStore(*store).set_early_failure(*failure.lone_rank());
  } catch (const Error& lost) {  // then nobody knows whose error it was
    log_to_file(lost.what());
  }
}

}  // namespace tenon
