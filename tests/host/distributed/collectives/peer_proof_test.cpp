// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/peer_proof.hpp"

#include "host/distributed/collectives/gloo_backend.hpp"
#include "host/error/error.hpp"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/world_ranks.hpp"

namespace tenon {
namespace {

// What each rank of a group throws, whose ranks have these keys.
std::vector<std::string> proofs_with(const std::vector<uint8_t>& keys) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto size = static_cast<uint32_t>(keys.size());
  std::vector<uint32_t> ranks(size);
  for (uint32_t rank = 0; rank < size; ++rank) {
    ranks[rank] = rank;
  }
  return on_ranks(size, [&](uint32_t rank) {
    constexpr std::chrono::seconds kLimit{60};
    const auto device = open_gloo_device("", "127.0.0.1");
    const auto backend = make_gloo_backend(device, store, rank, size, kLimit);
    PeerExchange exchange(*backend, ranks);
    RunKey key{};
    key.fill(keys[rank]);
    prove_peers(exchange, key, "group", std::chrono::steady_clock::now() + kLimit);
  });
}

}  // namespace

TEST_CASE("ranks with one secret accept each other's connections", "[distributed][multi-rank]") {
  CHECK(proofs_with({1, 1, 1}) == std::vector<std::string>(3));
}

TEST_CASE("a program that connects in place of a rank is refused", "[distributed][multi-rank]") {
  const auto thrown = proofs_with({1, 1, 2});
  for (const uint32_t rank : {0u, 1u}) {
    CHECK_THAT(
        thrown[rank],
        Catch::Contains("[distributed.unauthenticated]") && Catch::Contains("connected as rank 2"));
  }
}

}  // namespace tenon
