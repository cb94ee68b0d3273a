// SPDX-License-Identifier: Apache-2.0
//
// Ranks whose store a torchrun agent holds, which strangers can read and write.
#include "tests/support/agent_store.hpp"

#include "host/distributed/collectives/world.hpp"
#include "host/error/error.hpp"

#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/world_ranks.hpp"

namespace tenon {

TEST_CASE("a stranger finds no name and no value of a run in an agent's store", "[distributed]") {
  const AgentStore agent;
  const auto world = World::join(agent.rank_of(0, 1), short_limits());
  world->open_store()->set("run/folder", "runs/private");
  CHECK(world->open_store()->find("run/folder") == "runs/private");
  const std::vector<std::string> keys = agent.keys().listKeys();
  CHECK_FALSE(keys.empty());
  for (const std::string& key : keys) {
    CHECK(key.find("folder") == std::string::npos);
    if (key.find("tenon/") != std::string::npos) {
      CHECK(agent.keys().get_to_str(key).find("private") == std::string::npos);
    }
  }
}

TEST_CASE("a run folder that a stranger names is never adopted", "[distributed]") {
  const AgentStore agent;
  for (const char* const key : {"run/folder", "tenon//0/run/folder", "tenon/run/folder"}) {
    agent.keys().set(key, std::string("runs/victim"));
  }
  const auto world = World::join(agent.rank_of(0, 1), short_limits());
  CHECK(world->open_store()->find("run/folder") == std::nullopt);
  world->open_store()->set("run/folder", "runs/own");
  // Whatever a stranger writes over it is an error.
  for (const std::string& key : agent.keys().listKeys()) {
    agent.keys().set(key, std::string("runs/victim"));
  }
  try {
    world->open_store()->find("run/folder");
    FAIL("it was adopted");
  } catch (const Error& error) {
    CHECK(error.id() == "distributed.unauthenticated");
    CHECK_THAT(error.message(), Catch::Contains("run/folder"));
  }
}

TEST_CASE("ranks with different secrets do not meet in an agent's store", "[distributed]") {
  const AgentStore agent;
  WorldOptions hasty = short_limits();
  hasty.start_timeout = std::chrono::milliseconds(1000);
  const std::vector<std::string> thrown = on_ranks(2, [&](uint32_t rank) {
    World::join(agent.rank_of(rank, 2, std::string(64, rank == 0 ? 'a' : 'b')), hasty);
  });
  for (const std::string& text : thrown) {
    CHECK_THAT(text, Catch::Contains("distributed.unreachable"));
  }
}

}  // namespace tenon
