// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/failures/early_failure.hpp"

#include "host/distributed/failures/failed_run.hpp"
#include "host/log/log.hpp"

#include <chrono>
#include <memory>
#include <string>

namespace tenon {
namespace {

// How long to wait for the other ranks to connect before printing the error.
constexpr std::chrono::seconds kPatience{20};

// A rank that cannot reach the others cannot report the error to them.
bool is_about_meeting(const std::string& id) {
  return id == "distributed.unreachable" || id == "distributed.port_taken" ||
         id == "distributed.no_interface" || id == "distributed.no_open_files" ||
         id == "distributed.unauthenticated" || id == "distributed.bad_environment";
}

}  // namespace

void fail_with_others(const RankEnvironment& environment, const Error& error) {
  if (environment.world_size == 1 || is_about_meeting(error.id())) {
    return;
  }
  std::unique_ptr<World> world;
  try {
    world = World::join(environment, {.start_timeout = kPatience});
  } catch (const Error&) {  // then each rank prints its own error
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
    throw printed_by(environment, failure);
  }
}

SharedFailure printed_by(const RankEnvironment& environment, const SharedFailure& failure) {
  SharedFailure printed(
      failure, failure.is_printed_here() || has_own_terminal(environment), failure.code());
  if (failure.lone_rank().has_value()) {
    printed.set_lone_rank(*failure.lone_rank());
  }
  return printed;
}

void note_lone_failure(World& world, const SharedFailure& failure) {
  if (world.rank() != 0 || world.size() == 1 || !failure.lone_rank().has_value()) {
    return;
  }
  try {
    const std::unique_ptr<Store> store = world.open_store();
    FailedRunStore(*store).set_early_failure(*failure.lone_rank());
  } catch (const Error& lost) {  // then the launcher does not know whose error it was
    log_to_file(lost.what());
  }
}

}  // namespace tenon
