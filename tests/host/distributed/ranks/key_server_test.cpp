// SPDX-License-Identifier: Apache-2.0
//
// The store that the host serves itself: as its ranks see it, and as a stranger does.
#include "host/distributed/ranks/key_server.hpp"

#include "host/distributed/ranks/rank_store.hpp"
#include "host/distributed/ranks/store_client.hpp"
#include "host/distributed/ranks/store_server.hpp"
#include "host/error/error.hpp"
#include "host/trust/secrets/psk_channel.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/raw_connection.hpp"

namespace tenon {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{60'000};

RunKey key_of(uint8_t byte) {
  RunKey key{};
  key.fill(byte);
  return key;
}

struct Server {
  RunKey key = key_of(1);
  KeyServer keys{listen_at("127.0.0.1", 0), key};

  c10::intrusive_ptr<StoreClient> client(milliseconds timeout = kLong) const {
    return client_with(key, timeout);
  }
  c10::intrusive_ptr<StoreClient> client_with(const RunKey& used, milliseconds timeout) const {
    return c10::make_intrusive<StoreClient>(
        "127.0.0.1", keys.port(), used, std::chrono::steady_clock::now() + kLong, timeout);
  }
};

}  // namespace

TEST_CASE("clients of a key server set, get, count and wait", "[distributed]") {
  const Server server;
  const auto a = server.client();
  const auto b = server.client();
  a->set("key", std::string("value"));
  CHECK(b->get_to_str("key") == "value");
  CHECK(a->add("n", 2) == 2);
  CHECK(b->add("n", 3) == 5);
  CHECK(b->check({"key", "n"}));
  CHECK_FALSE(b->check({"key", "other"}));
  CHECK(a->compareSet("key", std::string("value"), std::string("new")) == "new");
  CHECK(b->clone()->get_to_str("key") == "new");
  CHECK(a->getNumKeys() == 2);
  CHECK(a->deleteKey("n"));
  const std::string large(3'000'000, 'x');
  a->set("large", large);
  CHECK(b->get_to_str("large") == large);
}

TEST_CASE("a client of a key server waits for keys, and not longer than it says", "[distributed]") {
  const Server server;
  const auto a = server.client();
  const auto b = server.client();
  std::jthread setter([&] {
    a->set("one", std::string("1"));
    a->set("two", std::string("2"));
  });
  b->wait({"one", "two"});
  CHECK(b->get_to_str("two") == "2");
  CHECK_THROWS_WITH(b->wait({"one", "three"}, milliseconds(20)), Catch::Contains("three"));
  CHECK_THROWS_WITH(server.client(milliseconds(20))->get("four"), Catch::Contains("four"));
  CHECK(b->get_to_str("one") == "1");  // its connection is in order
  setter.join();
  std::jthread getter([&] { CHECK(b->get_to_str("late") == "x"); });
  a->set("late", std::string("x"));
}

TEST_CASE("a client notices at once that its server ends", "[distributed]") {
  auto server = std::make_unique<Server>();
  const auto client = server->client();
  std::jthread end([&] { server.reset(); });
  CHECK_THROWS_WITH(client->get("never"), Catch::Contains("closed"));
  CHECK_THROWS(client->set("a", std::string("b")));
}

TEST_CASE("a stranger gets no answer from a store, and disturbs no rank", "[distributed]") {
  const Server server;
  const auto client = server.client();
  client->set("run/folder", std::string("runs/private"));
  const std::string list_keys("\x0f", 1);  // the request with which a store of c10d lists its keys
  for (const std::string& text :
       {std::string("GET / HTTP/1.0\r\n\r\n"),
        std::string("\x3c\x85\xf7\x3c", 4) + list_keys,
        std::string(1'000'000, '\xff'),
        std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'x')}) {
    const std::string answer = RawConnection(server.keys.port()).answer_to(text);
    CHECK(answer.size() < 16);  // at most an alert of TLS
    CHECK(answer.find("private") == std::string::npos);
  }
  CHECK_THROWS_AS(server.client_with(key_of(2), kLong), WrongKey);
  CHECK(client->get_to_str("run/folder") == "runs/private");
}

TEST_CASE("strangers who connect and say nothing keep no rank out", "[distributed]") {
  const Server server;
  std::vector<std::unique_ptr<RawConnection>> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(std::make_unique<RawConnection>(server.keys.port()));
  }
  const auto client = server.client();
  client->set("a", std::string("b"));
  CHECK(client->get_to_str("a") == "b");
  // Beyond a number, the oldest one is dropped.
  CHECK(strangers.front()->answer_to("").empty());
}

TEST_CASE("a store listens at the address of its master only", "[distributed]") {
  RankEnvironment environment;
  environment.launcher = "environment";
  environment.world_size = 2;
  environment.master_addr = "127.0.0.1";
  environment.master_port = free_loopback_port();
  const auto store = open_rank_store(environment, StoreRole::kServer, kLong);
  CHECK(RawConnection(environment.master_port).is_connected());
  CHECK_FALSE(RawConnection(environment.master_port, kLong, "127.0.0.2").is_connected());
  const StoreServer launcher;
  CHECK(RawConnection(launcher.port()).is_connected());
  CHECK_FALSE(RawConnection(launcher.port(), kLong, "127.0.0.2").is_connected());
}

TEST_CASE("a rank with another secret ends with an error", "[distributed]") {
  RankEnvironment environment;
  environment.launcher = "environment";
  environment.world_size = 2;
  environment.master_addr = "127.0.0.1";
  environment.master_port = free_loopback_port();
  environment.secret = std::string(64, 'a');
  const auto store = open_rank_store(environment, StoreRole::kServer, kLong);
  for (const std::string& other : {std::string(64, 'b'), std::string()}) {
    environment.secret = other;
    try {
      open_rank_store(environment, StoreRole::kClient, kLong);
      FAIL("it was let in");
    } catch (const Error& error) {
      CHECK(error.id() == "distributed.unauthenticated");
      CHECK_THAT(error.message(), Catch::Contains("different secrets"));
    }
  }
}

}  // namespace tenon
