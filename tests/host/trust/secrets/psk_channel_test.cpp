// SPDX-License-Identifier: Apache-2.0
#include "host/trust/secrets/psk_channel.hpp"

#include <stdexcept>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

RunKey key_of(uint8_t byte) {
  RunKey key{};
  key.fill(byte);
  return key;
}

// Moves bytes until both sides are silent.
void carry(PskChannel& a, PskChannel& b) {
  for (;;) {
    const std::string to_b = a.take_outgoing();
    const std::string to_a = b.take_outgoing();
    if (to_a.empty() && to_b.empty()) {
      return;
    }
    b.take(to_b);
    a.take(to_a);
  }
}

}  // namespace

TEST_CASE("two sides with one key have an encrypted connection", "[distributed]") {
  const RunKey key = key_of(1);
  PskChannel client(PskChannel::Role::kClient, key);
  PskChannel server(PskChannel::Role::kServer, key);
  client.start();
  carry(client, server);
  REQUIRE(client.is_open());
  REQUIRE(server.is_open());
  const std::string text(100'000, 'x');
  client.send(text);
  const std::string bytes = client.take_outgoing();
  CHECK(bytes.find("xxxx") == std::string::npos);
  server.take(bytes);
  CHECK(server.take_received() == text);
  CHECK(server.take_received().empty());
  server.send("yes");
  carry(client, server);
  CHECK(client.take_received() == "yes");
}

TEST_CASE("a side with another key is refused by both", "[distributed]") {
  const RunKey key = key_of(1);
  const RunKey other = key_of(2);
  PskChannel client(PskChannel::Role::kClient, other);
  PskChannel server(PskChannel::Role::kServer, key);
  client.start();
  CHECK_THROWS_AS(server.take(client.take_outgoing()), WrongKey);
  CHECK_FALSE(server.is_open());
  CHECK_THROWS_AS(client.take(server.take_outgoing()), WrongKey);
  CHECK_FALSE(client.is_open());
}

TEST_CASE("what is no TLS is refused at once", "[distributed]") {
  const RunKey key = key_of(1);
  for (const std::string& text :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(5, '\xff'), std::string(100, '\0')}) {
    PskChannel server(PskChannel::Role::kServer, key);
    CHECK_THROWS_AS(server.take(text), std::runtime_error);
    PskChannel client(PskChannel::Role::kClient, key);
    client.start();
    CHECK_THROWS_WITH(client.take(text), "the other side does not use TLS");
  }
}

TEST_CASE("a changed byte ends the connection", "[distributed]") {
  const RunKey key = key_of(1);
  PskChannel client(PskChannel::Role::kClient, key);
  PskChannel server(PskChannel::Role::kServer, key);
  client.start();
  carry(client, server);
  client.send("a value");
  std::string bytes = client.take_outgoing();
  bytes[bytes.size() / 2] ^= 1;
  CHECK_THROWS_AS(server.take(bytes), std::runtime_error);
  CHECK(server.take_received().empty());
}

}  // namespace tenon
