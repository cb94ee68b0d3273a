// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/sealed_store.hpp"

#include "host/distributed/ranks/bounded_store.hpp"
#include "host/error/error.hpp"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Bytes = std::vector<uint8_t>;

RunKey seal_key(uint8_t byte) {
  RunKey key{};
  key.fill(byte);
  return key;
}

// A store that strangers see as it is, and a rank's view of it. Recent keys of c10d's HashStore
// cannot be listed, so this one keeps them.
class OpenStore final : public c10d::HashStore {
 public:
  using c10d::HashStore::set;
  void set(const std::string& key, const Bytes& value) override {
    keys.push_back(key);
    c10d::HashStore::set(key, value);
  }
  std::vector<std::string> keys;
};

struct Stores {
  c10::intrusive_ptr<OpenStore> open = c10::make_intrusive<OpenStore>();
  c10::intrusive_ptr<SealedStore> rank =
      c10::make_intrusive<SealedStore>(open, seal_key(1), seal_key(2));
  c10::intrusive_ptr<SealedStore> other =
      c10::make_intrusive<SealedStore>(open, seal_key(1), seal_key(2));
};

void check_unauthenticated(const std::function<void()>& call, const std::string& key) {
  try {
    call();
    FAIL("it was accepted");
  } catch (const Error& error) {
    CHECK(error.id() == "distributed.unauthenticated");
    CHECK_THAT(error.message(), Catch::Contains("\"" + key + "\""));
  }
}

}  // namespace

TEST_CASE("ranks read each other's sealed values, and strangers read none", "[distributed]") {
  Stores stores;
  stores.rank->set("run/folder", "runs/private");
  CHECK(stores.other->get_to_str("run/folder") == "runs/private");
  REQUIRE(stores.open->keys.size() == 1);
  const std::string name = stores.open->keys.front();
  CHECK(name.find("folder") == std::string::npos);
  CHECK(stores.open->get_to_str(name).find("private") == std::string::npos);
  CHECK_FALSE(stores.open->check({"run/folder"}));
  CHECK(stores.rank->check({"run/folder"}));
  CHECK_FALSE(stores.rank->check({"run/other"}));
  stores.rank->set("empty", "");
  CHECK(stores.other->get_to_str("empty").empty());
  stores.rank->set("long", std::string(1'000'000, 'x'));
  CHECK(stores.other->get_to_str("long") == std::string(1'000'000, 'x'));
  CHECK(stores.rank->deleteKey("run/folder"));
  CHECK_FALSE(stores.other->check({"run/folder"}));
}

TEST_CASE("sealed keys are counted and compared as those of c10d", "[distributed]") {
  Stores stores;
  CHECK(stores.rank->add("n", 2) == 2);
  CHECK(stores.other->add("n", 3) == 5);
  CHECK(stores.rank->add("n", 0) == 5);
  CHECK(stores.rank->add("new", 0) == 0);
  CHECK(stores.rank->compareSet("a", std::string(), std::string("1")) == "1");
  CHECK(stores.other->compareSet("a", std::string(), std::string("2")) == "1");
  CHECK(stores.other->compareSet("a", std::string("1"), std::string("2")) == "2");
  CHECK(stores.rank->compareSet("b", std::string("1"), std::string("2")) == "1");
  CHECK_FALSE(stores.rank->check({"b"}));
}

TEST_CASE("a value that a stranger wrote, changed or copied is never adopted", "[distributed]") {
  Stores stores;
  stores.rank->set("run/folder", "runs/a");
  stores.rank->set("failure/first", "{}");
  const std::string folder = stores.open->keys[0];
  const std::string first = stores.open->keys[1];
  const std::string good = stores.open->get_to_str(folder);
  const auto read = [&] { stores.other->get("run/folder"); };
  for (const std::string& bad : {std::string(),
                                 std::string("runs/victim"),
                                 std::string(1000, 'x'),
                                 good.substr(1),
                                 good + "x",
                                 stores.open->get_to_str(first)}) {
    stores.open->c10d::Store::set(folder, bad);
    check_unauthenticated(read, "run/folder");
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] ^= 1;
    stores.open->c10d::Store::set(folder, bad);
    check_unauthenticated(read, "run/folder");
  }
  check_unauthenticated([&] { stores.rank->add("run/folder", 1); }, "run/folder");
  SealedStore stranger(stores.open, seal_key(1), seal_key(3));
  stranger.set("run/folder", Bytes{'x'});
  check_unauthenticated(read, "run/folder");
  stores.open->c10d::Store::set(folder, good);
  CHECK(stores.other->get_to_str("run/folder") == "runs/a");
}

TEST_CASE("a value of a stranger is an error of its own, and the store stays usable",
          "[distributed]") {
  Stores stores;
  const auto bounded =
      make_bounded_store(stores.rank, [] { return std::chrono::milliseconds(60'000); });
  bounded->set("a", "1");
  const std::string name = stores.open->keys.front();
  stores.open->c10d::Store::set(name, std::string("x"));
  check_unauthenticated([&] { bounded->find("a"); }, "a");
  bounded->set("a", "2");
  CHECK(bounded->find("a") == "2");
}

}  // namespace tenon
