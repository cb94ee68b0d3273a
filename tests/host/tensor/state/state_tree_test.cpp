// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/state/state_tree.hpp"

#include "host/error/error.hpp"

#include <ATen/ATen.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

template <class Body>
std::string id_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return error.id();
  }
  return "";
}

TEST_CASE("a state tree gives back what was put into it", "[tensor]") {
  StateTree tree;
  const at::Tensor tensor = at::arange(6);
  tree.put_int("run/step", -7);
  tree.put_double("run/best", 0.1, TENON_STATE_PER_RANK);
  tree.put_bytes("data/shard", std::string_view("a\0b", 3), TENON_STATE_PER_SHARD);
  tree.put_tensor("opt/moment", tensor, StateTree::Copy::kNo);
  CHECK(tree.get_int("run/step") == -7);
  CHECK(tree.get_double("run/best") == 0.1);
  CHECK(tree.get_bytes("data/shard") == std::string("a\0b", 3));
  CHECK(at::equal(tree.get_tensor("opt/moment"), tensor));
  CHECK(tree.find("data/shard")->scope == TENON_STATE_PER_SHARD);
  CHECK(tree.entries().size() == 4);
  CHECK(tree.entries().begin()->first == "data/shard");
}

TEST_CASE("what is not in a state tree, or is of another type, is an error", "[tensor]") {
  StateTree tree;
  tree.put_int("a", 1);
  CHECK(tree.find("b") == nullptr);
  CHECK(id_of([&] { static_cast<void>(tree.get_int("b")); }) == "state.missing_entry");
  CHECK(id_of([&] { static_cast<void>(tree.get_double("a")); }) == "state.wrong_type");
  CHECK_THROWS_WITH(tree.get_tensor("a"), contains_text("'a' is an integer, not a tensor"));
}

TEST_CASE("entries that break the rules of a state tree are refused", "[tensor]") {
  StateTree tree;
  tree.put_int("a", 1);
  CHECK(id_of([&] { tree.put_double("a", 2.0); }) == "state.bad_entry");
  CHECK(tree.get_int("a") == 1);
  for (const char* const name : {"", "/", "a/", "/a", "a//b"}) {
    CHECK(id_of([&] { tree.put_int(name, 1); }) == "state.bad_entry");
  }
  CHECK(id_of([&] { tree.put_int("b", 1, 4); }) == "state.bad_entry");
  tree.put_bytes("full", std::string(kMaxStateBytes, 'x'));
  CHECK(id_of([&] { tree.put_bytes("b", std::string(kMaxStateBytes + 1, 'x')); }) ==
        "state.bad_entry");
  CHECK(id_of([&] { tree.put_tensor("b", at::Tensor(), StateTree::Copy::kNo); }) ==
        "state.bad_entry");
}

TEST_CASE("a tensor is copied into a state tree only where that is asked for", "[tensor]") {
  StateTree tree;
  at::Tensor live = at::zeros({3}).requires_grad_(true);
  tree.put_tensor("alias", live, StateTree::Copy::kNo);
  tree.put_tensor("copy", live, StateTree::Copy::kYes);
  live.detach().fill_(5.0);
  CHECK(at::equal(tree.get_tensor("alias"), at::full({3}, 5.0)));
  CHECK(at::equal(tree.get_tensor("copy"), at::zeros({3})));
  CHECK_FALSE(tree.get_tensor("alias").requires_grad());
  CHECK_FALSE(tree.get_tensor("copy").requires_grad());
}

TEST_CASE("subtrees have versions of their own", "[tensor]") {
  StateTree tree;
  CHECK_FALSE(tree.has_subtree(""));
  tree.set_version("hooks/0", 3);
  tree.put_int("data/epoch", 1);
  CHECK(tree.version("hooks/0") == 3);
  CHECK(tree.version("hooks/1") == 0);
  CHECK(tree.has_subtree(""));
  CHECK(tree.has_subtree("hooks"));
  CHECK(tree.has_subtree("hooks/0"));
  CHECK(tree.has_subtree("data"));
  CHECK_FALSE(tree.has_subtree("dat"));
  CHECK_FALSE(tree.has_subtree("hooks/00"));
}

TEST_CASE("state trees are equal only to the bit", "[tensor]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto make = [&](double number, const at::Tensor& tensor, uint32_t version) {
    StateTree tree;
    tree.put_int("i", 1);
    tree.put_double("d", number);
    tree.put_bytes("b", "x");
    tree.put_tensor("t", tensor, StateTree::Copy::kYes);
    tree.set_version("", version);
    return tree;
  };
  const at::Tensor t = at::tensor({1.0, nan});
  CHECK(make(nan, t, 1) == make(nan, t, 1));
  CHECK_FALSE(make(0.0, t, 1) == make(-0.0, t, 1));
  CHECK_FALSE(make(nan, t, 1) == make(nan, t, 2));
  CHECK_FALSE(make(nan, t, 1) == make(nan, at::tensor({1.0, 2.0}), 1));
  CHECK_FALSE(make(nan, t, 1) == make(nan, t.to(at::kFloat), 1));
  CHECK_FALSE(make(nan, t, 1) == make(nan, t.reshape({2, 1}), 1));
  // Strides are no part of a value.
  const at::Tensor wide = at::arange(4.0).reshape({2, 2});
  CHECK(make(0.0, wide, 1) == make(0.0, wide.t().contiguous().t(), 1));
  StateTree more = make(nan, t, 1);
  more.put_int("z", 1);
  CHECK_FALSE(make(nan, t, 1) == more);
  StateTree other_scope;
  other_scope.put_int("i", 1, TENON_STATE_PER_RANK);
  StateTree scope;
  scope.put_int("i", 1);
  CHECK_FALSE(scope == other_scope);
}

TEST_CASE("what ranks share knows which part of the whole it is", "[tensor]") {
  StateTree tree;
  const at::Tensor values = at::arange(4, at::kFloat);
  const TensorPiece piece = TensorPiece({2, 3}).part(2, 4);
  tree.put_part("a", values, {piece}, StateTree::Copy::kYes);
  tree.put_part("whole", at::arange(6, at::kFloat), {TensorPiece({2, 3})}, StateTree::Copy::kNo);
  CHECK(tree.find("a")->piece == piece);
  CHECK_FALSE(tree.find("whole")->piece.has_value());
  CHECK(tree.get_tensor("whole").sizes() == at::IntArrayRef({2, 3}));
  CHECK(tree.tensor_bytes() == 40);

  at::Tensor to = at::zeros({4});
  tree.copy_tensor("a", to, piece);
  CHECK(to.equal(values));
  at::Tensor whole = at::zeros({2, 3});
  tree.copy_tensor("whole", whole, TensorPiece({2, 3}));
  CHECK(whole.equal(tree.get_tensor("whole")));
  tree.copy_tensor("whole", whole);

  const TensorPiece other_piece = TensorPiece({2, 3}).part(1, 4);
  CHECK(id_of([&] { tree.copy_tensor("a", to, other_piece); }) == "state.wrong_shape");
  CHECK(id_of([&] { tree.copy_tensor("a", to); }) == "state.wrong_shape");
  CHECK(id_of([&] { tree.copy_tensor("whole", at::zeros({3, 2})); }) == "state.wrong_shape");
  CHECK(id_of([&] {
          tree.copy_tensor("whole", at::zeros({2, 3}, at::kDouble));
        }) == "state.wrong_shape");
  CHECK_THROWS_WITH(tree.copy_tensor("a", to, other_piece),
                    contains_text("[4] of Float from element 2 of [2, 3]"));

  StateTree other;
  other.put_entry("a", *tree.find("a"));
  StateTree moved;
  moved.put_part("a", values, {other_piece}, StateTree::Copy::kYes);
  CHECK_FALSE(other == moved);
}

TEST_CASE("a box is stored in its shape, and a flat range of it flat", "[tensor]") {
  StateTree tree;
  const TensorPiece box({4, 3}, {.start = {1, 1}, .size = {2, 2}});
  const TensorPiece range = box.part(1, 2);
  tree.put_part("box", at::arange(4, at::kFloat), {box, true}, StateTree::Copy::kYes);
  tree.put_part("range", at::arange(2, at::kFloat), {range, true}, StateTree::Copy::kYes);
  CHECK(tree.get_tensor("box").sizes() == at::IntArrayRef({2, 2}));
  CHECK(tree.find("box")->piece == box);
  CHECK(tree.find("range")->is_sliced);

  const at::Tensor to = at::zeros({4});
  tree.copy_tensor("box", to, box);
  CHECK(to.equal(at::arange(4, at::kFloat)));
  const TensorPiece other({4, 3}, {.start = {0, 1}, .size = {2, 2}});
  CHECK_THROWS_WITH(tree.copy_tensor("box", to, other),
                    contains_text("[2, 2] of Float in the box [1:3, 1:3] of [4, 3], expected [2, "
                                  "2] of Float in the box [0:2, 1:3] of [4, 3]"));
  CHECK_THROWS_WITH(
      tree.copy_tensor("range", at::zeros({2}), box.part(0, 2)),
      contains_text("[2] of Float from element 1 of the box [1:3, 1:3] of [4, 3], expected"));
}

// The numbers 0, 1, 2, ...
class CountingSource final : public TensorSource {
 public:
  explicit CountingSource(const std::vector<int64_t>& shape) : TensorSource(at::kLong, shape) {}
  void read(int64_t first, const at::Tensor& out) const override {
    out.copy_(at::arange(first, first + out.numel(), at::kLong).view(out.sizes()));
  }
};

TEST_CASE("a source fills any piece, run by run", "[tensor]") {
  StateTree tree;
  tree.put_source("s", std::make_shared<CountingSource>(std::vector<int64_t>{4, 3}));
  const TensorPiece box({4, 3}, {.start = {1, 0}, .size = {3, 2}});
  at::Tensor to = at::zeros({3, 2}, at::kLong);
  tree.copy_tensor("s", to, box);
  CHECK(to.equal(at::tensor({3, 4, 6, 7, 9, 10}, at::kLong).view({3, 2})));
  to = at::zeros({2, 3}, at::kLong).t();  // no memory in this order
  tree.copy_tensor("s", to, box);
  CHECK(to.equal(at::tensor({3, 4, 6, 7, 9, 10}, at::kLong).view({3, 2})));
  to = at::zeros({3}, at::kLong);
  tree.copy_tensor("s", to, box.part(1, 3));
  CHECK(to.equal(at::tensor({4, 6, 7}, at::kLong)));
  CHECK_THROWS_WITH(tree.copy_tensor("s", to, TensorPiece({3, 4}).part(0, 3)),
                    contains_text("'s' of the saved state is [4, 3] of Long, expected [3, 4]"));
}

TEST_CASE("names that plugins may use are lower-case paths", "[tensor]") {
  for (const char* const name : {"a", "a/b/c", "best_loss", "0/x-1.y", "..."}) {
    CHECK(is_legal_state_name(name));
  }
  for (const char* const name : {"", "/a", "a/", "a//b", "A", "a b", "../a", "a/./b", "ä"}) {
    CHECK_FALSE(is_legal_state_name(name));
  }
  CHECK(state_path("hooks/0", "best") == "hooks/0/best");
  CHECK(state_path("", "best") == "best");
}

// A component of the host that keeps its state in a tree.
class Counter : public Stateful {
 public:
  void snapshot(StateTree& tree, const std::string& prefix) const override {
    tree.put_int(state_path(prefix, "count"), count);
  }
  void load(const StateTree& tree, const std::string& prefix) override {
    count = tree.get_int(state_path(prefix, "count"));
  }
  int64_t count = 0;
};

TEST_CASE("stateful components share one tree below their prefixes", "[tensor]") {
  Counter a;
  Counter b;
  a.count = 3;
  b.count = 4;
  StateTree tree;
  a.snapshot(tree, "a");
  b.snapshot(tree, "b");
  Counter loaded;
  loaded.load(tree, "b");
  CHECK(loaded.count == 4);
}

}  // namespace
}  // namespace tenon
