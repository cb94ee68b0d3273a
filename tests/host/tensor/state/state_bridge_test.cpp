// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/state/state_bridge.hpp"

#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const auto* const kHost = reinterpret_cast<const tenon_host*>(0x40);

TEST_CASE("what a plugin writes it reads back, below its prefix alone", "[tensor]") {
  StateTree tree;
  StateWriter writer(tree, "hooks/0", 7, kHost);
  tenon_state_writer* const w = writer.abi();
  const at::Tensor tensor = at::arange(3);
  CHECK(take(w->put_int(w, "count", 5, TENON_STATE_REPLICATED)).ok());
  CHECK(take(w->put_double(w, "best/loss", 0.5, TENON_STATE_PER_RANK)).ok());
  CHECK(take(w->put_bytes(w, "cursor", "xyz", 3, TENON_STATE_PER_SHARD)).ok());
  CHECK(take(w->put_bytes(w, "nothing", nullptr, 0, TENON_STATE_REPLICATED)).ok());
  CHECK(take(w->put_tensor(w, "mean", borrow(tensor), TENON_STATE_REPLICATED, 0)).ok());
  CHECK(tree.get_int("hooks/0/count") == 5);
  CHECK(tree.find("hooks/0/cursor")->scope == TENON_STATE_PER_SHARD);

  StateReader reader(tree, "hooks/0", kHost);
  tenon_state_reader* const r = reader.abi();
  CHECK(r->version == 7);
  int64_t count = 0;
  CHECK(take(r->get_int(r, "count", &count)).ok());
  CHECK(count == 5);
  double loss = 0.0;
  CHECK(take(r->get_double(r, "best/loss", &loss)).ok());
  CHECK(loss == 0.5);
  const void* bytes = nullptr;
  size_t size = 0;
  CHECK(take(r->get_bytes(r, "cursor", &bytes, &size)).ok());
  CHECK(std::string(static_cast<const char*>(bytes), size) == "xyz");
  CHECK(take(r->get_bytes(r, "nothing", &bytes, &size)).ok());
  CHECK(size == 0);
  const tenon_tensor* mean = nullptr;
  CHECK(take(r->get_tensor(r, "mean", &mean)).ok());
  CHECK(at::equal(tensor_of(mean), tensor));

  StateReader other(tree, "hooks/1", kHost);
  CHECK(other.abi()->version == 0);
  CHECK(take(other.abi()->get_int(other.abi(), "count", &count)).code == TENON_NOT_FOUND);
}

TEST_CASE("a tensor marked for copying is copied at once", "[tensor]") {
  StateTree tree;
  StateWriter writer(tree, "x", 1, nullptr);
  tenon_state_writer* const w = writer.abi();
  at::Tensor live = at::zeros({2});
  CHECK(take(w->put_tensor(w, "copy", borrow(live), 0, TENON_STATE_COPY)).ok());
  CHECK(take(w->put_tensor(w, "alias", borrow(live), 0, 0)).ok());
  live.fill_(1.0);
  CHECK(at::equal(tree.get_tensor("x/copy"), at::zeros({2})));
  CHECK(at::equal(tree.get_tensor("x/alias"), at::ones({2})));
}

TEST_CASE("a writer refuses what the rules of state forbid", "[tensor]") {
  StateTree tree;
  StateWriter writer(tree, "x", 1, kHost);
  tenon_state_writer* const w = writer.abi();
  CHECK(take(w->put_int(w, "a", 1, 0)).ok());
  const StatusText twice = take(w->put_int(w, "a", 2, 0));
  CHECK(twice.code == TENON_INVALID);
  CHECK(twice.id == "state.bad_entry");
  CHECK(twice.host == kHost);
  CHECK_THAT(twice.message, contains_text("'x/a' is written twice"));
  CHECK(tree.get_int("x/a") == 1);

  for (const char* const name : {"", "../y/a", "Upper", "a b", "/a"}) {
    CHECK(take(w->put_int(w, name, 1, 0)).id == "state.bad_entry");
  }
  const std::string large(kMaxStateBytes + 1, 'x');
  CHECK(take(w->put_bytes(w, "large", large.data(), large.size(), 0)).code == TENON_INVALID);
  CHECK(take(w->put_int(w, "scope", 1, 9)).code == TENON_INVALID);
  const at::Tensor tensor = at::zeros({1});
  CHECK(take(w->put_tensor(w, "flags", borrow(tensor), 0, 8)).code == TENON_INVALID);
  CHECK(tree.entries().size() == 1);
}

TEST_CASE("a reader tells a missing entry from one of another type", "[tensor]") {
  StateTree tree;
  tree.put_int("x/a", 1);
  StateReader reader(tree, "x", nullptr);
  tenon_state_reader* const r = reader.abi();
  double number = 4.0;
  CHECK(take(r->get_double(r, "b", &number)).code == TENON_NOT_FOUND);
  const StatusText text = take(r->get_double(r, "a", &number));
  CHECK(text.code == TENON_INVALID);
  CHECK(text.id == "state.wrong_type");
  CHECK(number == 4.0);
}

TEST_CASE("a reader lists its entries by name and type", "[tensor]") {
  StateTree tree;
  tree.put_int("x/i", 1);
  tree.put_double("x/a/d", 1.0);
  tree.put_bytes("x/b", "1");
  tree.put_tensor("x/t", at::zeros({1}), StateTree::Copy::kNo);
  tree.put_int("xy/other", 1);
  StateReader reader(tree, "x", nullptr);
  tenon_state_reader* const r = reader.abi();
  size_t count = 0;
  CHECK(take(r->get_num_entries(r, &count)).ok());
  REQUIRE(count == 4);
  const std::pair<std::string, uint32_t> wanted[] = {{"a/d", TENON_STATE_DOUBLE},
                                                     {"b", TENON_STATE_BYTES},
                                                     {"i", TENON_STATE_INT},
                                                     {"t", TENON_STATE_TENSOR}};
  for (size_t i = 0; i < count; ++i) {
    const char* name = nullptr;
    uint32_t type = 0;
    CHECK(take(r->get_entry(r, i, &name, &type)).ok());
    CHECK(name == wanted[i].first);
    CHECK(type == wanted[i].second);
  }
  const char* name = nullptr;
  uint32_t type = 0;
  CHECK(take(r->get_entry(r, 4, &name, &type)).code == TENON_NOT_FOUND);
  CHECK(take(r->get_entry(r, 0, nullptr, &type)).code == TENON_INVALID);
}

TEST_CASE("null arguments of state functions are errors", "[tensor]") {
  StateTree tree;
  tree.put_int("x/i", 1);
  tree.put_double("x/d", 1.0);
  tree.put_bytes("x/b", "1");
  tree.put_tensor("x/t", at::zeros({1}), StateTree::Copy::kNo);
  StateWriter writer(tree, "x", 1, nullptr);
  StateReader reader(tree, "x", nullptr);
  tenon_state_writer* const w = writer.abi();
  tenon_state_reader* const r = reader.abi();
  size_t size = 0;
  const void* bytes = nullptr;
  const auto is_refused = [](tenon_status* status) { return take(status).code == TENON_INVALID; };
  CHECK(is_refused(w->put_int(nullptr, "a", 1, 0)));
  CHECK(is_refused(w->put_int(w, nullptr, 1, 0)));
  CHECK(is_refused(w->put_bytes(w, "a", nullptr, 1, 0)));
  CHECK(is_refused(w->put_tensor(w, "a", nullptr, 0, 0)));
  CHECK(is_refused(r->get_int(nullptr, "i", nullptr)));
  CHECK(is_refused(r->get_int(r, "i", nullptr)));
  CHECK(is_refused(r->get_double(r, "d", nullptr)));
  CHECK(is_refused(r->get_bytes(r, "b", nullptr, &size)));
  CHECK(is_refused(r->get_bytes(r, "b", &bytes, nullptr)));
  CHECK(is_refused(r->get_tensor(r, "t", nullptr)));
  CHECK(is_refused(r->get_int(r, nullptr, nullptr)));
}

}  // namespace
}  // namespace tenon
