// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/tensor_piece.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "tests/host/tensor/each_box.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const std::vector<std::vector<int64_t>>& shapes() {
  static const std::vector<std::vector<int64_t>> kShapes = {
      {3, 4, 2}, {2, 1, 3}, {1, 5}, {6}, {1, 1}, {}};
  return kShapes;
}

std::vector<int64_t> part_of(const std::vector<int64_t>& elements, int64_t first, int64_t numel) {
  return {elements.begin() + first, elements.begin() + first + numel};
}

// Calls take(const Box&) for each box, with one range or several.
template <class Take>
void each_kind_of_box(const std::vector<int64_t>& shape, Take take) {
  each_box(shape, take);
  each_box_of_ranges(shape, take);
}

// True if the last range of a box ends where the tensor does, and the first starts with it: runs of
// such a box may follow each other.
bool goes_round(const TensorPiece& piece) {
  if (!piece.box() || piece.box()->ranges.empty()) {
    return false;
  }
  const IndexRange& last = piece.box()->ranges.back();
  return piece.box()->ranges.front().start == 0 &&
         last.start + last.size == piece.shape()[piece.box()->axis];
}

// True if the runs have the elements of a piece, in order, and none continues the one before it.
bool has_runs(const TensorPiece& piece, const std::vector<int64_t>& elements) {
  std::vector<int64_t> seen;
  bool is_maximal = true;
  int64_t end = -1;
  for_each_run(piece, [&](const TensorPiece::Run& run) {
    is_maximal = is_maximal && run.numel > 0 && (run.in_tensor != end || goes_round(piece)) &&
                 run.in_piece == static_cast<int64_t>(seen.size());
    for (int64_t i = 0; i < run.numel; ++i) {
      seen.push_back(run.in_tensor + i);
    }
    end = run.end();
  });
  return is_maximal && seen == elements;
}

using Ranges = std::vector<std::tuple<int64_t, int64_t, int64_t>>;

// The elements that two lists share, one by one, joined where both lists go on.
Ranges shared(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  Ranges ranges;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto found = std::ranges::find(b, a[i]);
    if (found == b.end()) {
      continue;
    }
    const auto in_a = static_cast<int64_t>(i);
    const int64_t in_b = found - b.begin();
    if (!ranges.empty() && std::get<0>(ranges.back()) + std::get<2>(ranges.back()) == in_a &&
        std::get<1>(ranges.back()) + std::get<2>(ranges.back()) == in_b) {
      ++std::get<2>(ranges.back());
    } else {
      ranges.emplace_back(in_a, in_b, 1);
    }
  }
  return ranges;
}

Ranges shared(const TensorPiece& a, const TensorPiece& b) {
  Ranges ranges;
  for_each_shared_range(a, b, [&](int64_t in_a, int64_t in_b, int64_t numel) {
    ranges.emplace_back(in_a, in_b, numel);
  });
  return ranges;
}

}  // namespace

TEST_CASE("each flat range of each box has its elements in maximal runs", "[tensor]") {
  for (const std::vector<int64_t>& shape : shapes()) {
    each_kind_of_box(shape, [&](const Box& box) {
      const TensorPiece all(shape, box);
      const std::vector<int64_t> elements = elements_of(box, shape);
      const auto numel = static_cast<int64_t>(elements.size());
      INFO(all.text());
      CHECK(all.is_box());
      CHECK(all.is_whole() == (box.size == shape));
      CHECK(all.is_whole() == !all.box().has_value());
      CHECK(all.box_shape() == box.size);
      bool are_right = true;
      for (int64_t first = 0; first <= numel; ++first) {
        for (int64_t n = 0; first + n <= numel; ++n) {
          const TensorPiece piece = all.part(first, n);
          are_right = are_right && piece.first() == first && piece.numel() == n &&
                      has_runs(piece, part_of(elements, first, n)) &&
                      piece.first_in_tensor() == (n > 0 ? elements[static_cast<size_t>(first)] : 0);
        }
      }
      CHECK(are_right);
    });
  }
}

TEST_CASE("the run after a place is the first that ends behind it", "[tensor]") {
  each_kind_of_box({3, 4, 2}, [&](const Box& box) {
    const TensorPiece all({3, 4, 2}, box);
    for (const TensorPiece& piece : {all, all.part(all.numel() / 3, all.numel() / 2)}) {
      for (int64_t position = 0; position < 24; ++position) {
        int64_t after = 0;
        while (after < piece.num_runs() && piece.run(after).end() <= position) {
          ++after;
        }
        REQUIRE(piece.run_after(position) == after);
      }
    }
  });
}

TEST_CASE("what two pieces share is found in as few ranges as possible", "[tensor]") {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{3, 4, 2}, {2, 1, 3}}) {
    std::vector<Box> boxes;
    each_box(shape, [&](const Box& box) { boxes.push_back(box); });
    size_t n = 0;  // every seventh box of several ranges
    each_box_of_ranges(shape, [&](const Box& box) {
      if (n++ % 7 == 0) {
        boxes.push_back(box);
      }
    });
    for (const Box& one : boxes) {
      const TensorPiece a(shape, one);
      const std::vector<int64_t> of_a = elements_of(one, shape);
      for (const Box& other : boxes) {
        const TensorPiece b(shape, other);
        const std::vector<int64_t> of_b = elements_of(other, shape);
        const int64_t first = b.numel() / 4;
        const int64_t numel = b.numel() - b.numel() / 2;
        const bool is_right =
            shared(a, b) == shared(of_a, of_b) &&
            shared(a, b.part(first, numel)) == shared(of_a, part_of(of_b, first, numel)) &&
            shared(b.part(first, numel), a) == shared(part_of(of_b, first, numel), of_a);
        if (!is_right) {
          FAIL(a.text() << " and " << b.text());
        }
      }
    }
  }
}

TEST_CASE("the values of a piece are those of its elements", "[tensor]") {
  for (const std::vector<int64_t>& shape : shapes()) {
    int64_t numel = 1;
    for (const int64_t size : shape) {
      numel *= size;
    }
    const at::Tensor flat = at::arange(numel, at::kLong);
    each_kind_of_box(shape, [&](const Box& box) {
      const TensorPiece all(shape, box);
      const TensorPiece piece = all.part(all.numel() / 3, all.numel() / 2);
      const at::Tensor elements = at::tensor(elements_of(box, shape), at::kLong);
      bool is_right = values_of(all, flat.view(shape)).equal(elements) &&
                      values_of(all, flat).equal(elements) &&
                      values_of(piece, flat.view(shape))
                          .equal(elements.narrow(0, all.numel() / 3, all.numel() / 2)) &&
                      part_of(flat.view(shape), box).equal(elements.view(box.size));
      at::Tensor whole = at::zeros(shape, at::kLong);
      put_part(whole, box, elements.view(box.size) + 1);
      add_part(whole, box, elements.view(box.size));
      const at::Tensor expected =
          at::zeros({numel}, at::kLong).index_put({elements}, 2 * elements + 1);
      is_right = is_right && whole.view(-1).equal(expected);
      if (!is_right) {
        FAIL(all.text());
      }
    });
  }
}

TEST_CASE("the blocks of a piece are those that its elements fill", "[tensor]") {
  const std::vector<int64_t> shape = {12, 3};
  int num_cut = 0;
  int num_kept = 0;
  const auto check = [&](const TensorPiece& piece, int64_t block) {
    std::vector<int64_t> elements;
    for_each_run(piece, [&](const TensorPiece::Run& run) {
      for (int64_t i = 0; i < run.numel; ++i) {
        elements.push_back(run.in_tensor + i);
      }
    });
    // Each block in turn: the first element, and all that follow.
    std::vector<int64_t> wanted;
    bool is_cut = false;
    for (size_t i = 0; i < elements.size() && !is_cut;) {
      const int64_t b = elements[i] / block;
      wanted.push_back(b);
      for (int64_t at = b * block; at < std::min<int64_t>((b + 1) * block, 36); ++at, ++i) {
        is_cut = is_cut || i >= elements.size() || elements[i] != at;
      }
    }
    const std::optional<TensorPiece> blocks = blocks_of(piece, block);
    const std::string text = piece.text() + ", block " + std::to_string(block);
    if (blocks.has_value() == is_cut) {
      FAIL(text);
    }
    num_cut += is_cut ? 1 : 0;
    if (is_cut) {
      return;
    }
    ++num_kept;
    const int64_t num_blocks = (36 + block - 1) / block;
    if (!values_of(*blocks, at::arange(num_blocks)).equal(at::tensor(wanted, at::kLong))) {
      FAIL(text);
    }
  };
  for (const int64_t block : {1, 3, 4, 5, 6, 36, 40}) {
    check(TensorPiece(shape), block);
    for (int64_t first = 0; first < 36; ++first) {
      check(TensorPiece(shape).part(first, 36 - first), block);
      check(TensorPiece(shape).part(0, first), block);
    }
    for (int64_t first = 0; first < 12; ++first) {
      for (int64_t end = first + 1; end <= 12; ++end) {
        const TensorPiece rows(shape, {.start = {first, 0}, .size = {end - first, 3}});
        check(rows, block);
        const std::vector<IndexRange> ranges = {{0, first / 2}, {first, end - first}};
        check(TensorPiece(shape, box_of_ranges(shape, 0, ranges)), block);
      }
    }
  }
  CHECK(num_cut > 100);
  CHECK(num_kept > 100);
  // A box of many runs is not described, although it cuts no block.
  CHECK_FALSE(blocks_of(TensorPiece({4, 8}, {.start = {0, 4}, .size = {4, 4}}), 4).has_value());
}

TEST_CASE("a box of ranges joins what is adjacent, and has one range if it can", "[tensor]") {
  const std::vector<int64_t> shape = {2, 8};
  CHECK(box_of_ranges(shape, 1, {{1, 2}, {3, 1}, {4, 0}}) == Box{.start = {0, 1}, .size = {2, 3}});
  CHECK(box_of_ranges(shape, 1, {}) == Box{.start = {0, 0}, .size = {2, 0}});
  CHECK(box_of_ranges(shape, 1, {{0, 8}}) == Box{.start = {0, 0}, .size = {2, 8}});
  const Box fused = box_of_ranges(shape, 1, {{1, 1}, {2, 1}, {4, 1}, {6, 2}});
  CHECK(fused.start == std::vector<int64_t>{0, 1});
  CHECK(fused.size == std::vector<int64_t>{2, 5});
  CHECK((fused.ranges == std::vector<IndexRange>{{1, 2}, {4, 1}, {6, 2}}));
  CHECK(box_text(fused) == "[0:2, 1:3+4:5+6:8]");
  std::vector<int64_t> places;
  for (int64_t i = 0; i < fused.size[1]; ++i) {
    places.push_back(fused.place(1, i));
  }
  CHECK(places == std::vector<int64_t>{1, 2, 4, 6, 7});
  CHECK(fused.place(0, 1) == 1);
}

TEST_CASE("a box is of a tensor only if its ranges lie in it, ascending and apart", "[tensor]") {
  const std::vector<int64_t> shape = {2, 8};
  const Box good = box_of_ranges(shape, 1, {{1, 2}, {4, 1}});
  CHECK(is_box_of(good, shape));
  CHECK_FALSE(is_box_of(good, {2, 4}));
  CHECK_FALSE(is_box_of(good, {8, 8, 8}));
  const auto spoiled = [&](const auto& spoil) {
    Box box = good;
    spoil(box);
    return is_box_of(box, shape);
  };
  CHECK_FALSE(spoiled([](Box& box) { box.axis = 0; }));
  CHECK_FALSE(spoiled([](Box& box) { box.axis = 2; }));
  CHECK_FALSE(spoiled([](Box& box) { box.start[1] = 0; }));
  CHECK_FALSE(spoiled([](Box& box) { box.size[1] = 4; }));
  CHECK_FALSE(spoiled([](Box& box) { box.ranges = {{1, 3}}; }));
  CHECK_FALSE(spoiled([](Box& box) { box.ranges = {{1, 2}, {3, 1}}; }));
  CHECK_FALSE(spoiled([](Box& box) { box.ranges = {{1, 2}, {2, 1}}; }));
  CHECK_FALSE(spoiled([](Box& box) { box.ranges = {{1, 2}, {8, 1}}; }));
  CHECK_FALSE(spoiled([](Box& box) { box.ranges = {{1, 3}, {5, 0}}; }));
  CHECK_FALSE(spoiled([](Box& box) { box.ranges.clear(); }));
}

TEST_CASE("a part of a part is a part, and equal pieces compare equal", "[tensor]") {
  const TensorPiece box({4, 6}, {.start = {1, 2}, .size = {2, 3}});
  CHECK(box.part(1, 5).part(2, 2) == box.part(3, 2));
  CHECK_FALSE(box.part(1, 2) == box.part(1, 3));
  CHECK_FALSE(box == TensorPiece({4, 6}));
  CHECK_FALSE(box == TensorPiece({6, 4}, {.start = {1, 1}, .size = {2, 3}}));
  CHECK(TensorPiece({4, 6}, {.start = {0, 0}, .size = {4, 6}}) == TensorPiece({4, 6}));
  const TensorPiece fused({4, 6}, box_of_ranges({4, 6}, 1, {{2, 2}, {5, 1}}));
  CHECK(fused.part(1, 7).part(2, 3) == fused.part(3, 3));
  CHECK_FALSE(fused == TensorPiece({4, 6}, {.start = {0, 2}, .size = {4, 3}}));
}

TEST_CASE("a tensor without elements has a piece without runs", "[tensor]") {
  const TensorPiece empty({0, 3});
  CHECK(empty.is_whole());
  CHECK(empty.numel() == 0);
  CHECK(empty.num_runs() == 0);
  CHECK(empty.first_in_tensor() == 0);
  const TensorPiece thin({2, 3}, {.start = {1, 3}, .size = {1, 0}});
  CHECK(thin.num_runs() == 0);
  CHECK(shared(thin, TensorPiece({2, 3})).empty());
}

TEST_CASE("a piece says which one it is", "[tensor]") {
  const TensorPiece box({4, 3}, {.start = {0, 1}, .size = {2, 2}});
  CHECK(TensorPiece({4, 3}).text() == "whole");
  CHECK(TensorPiece({4, 3}).part(2, 1).text() == "from element 2 of [4, 3]");
  CHECK(box.text() == "in the box [0:2, 1:3] of [4, 3]");
  CHECK(box.part(2, 1).text() == "from element 2 of the box [0:2, 1:3] of [4, 3]");
  const TensorPiece fused({4, 3}, box_of_ranges({4, 3}, 0, {{0, 1}, {2, 2}}));
  CHECK(fused.text() == "in the box [0:1+2:4, 0:3] of [4, 3]");
}

}  // namespace tenon
