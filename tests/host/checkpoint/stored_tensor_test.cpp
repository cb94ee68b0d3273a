// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/stored_tensor.hpp"

#include <tenon/state.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "tests/host/tensor/each_box.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const std::vector<StoredFile>& files() {
  static const std::vector<StoredFile> kFiles = {
      {.name = "f", .bytes = uint64_t{1} << 62, .header_xxh3 = 0}};
  return kFiles;
}

int64_t numel_of(const std::vector<int64_t>& shape) {
  int64_t numel = 1;
  for (const int64_t size : shape) {
    numel *= size;
  }
  return numel;
}

StoredPiece piece(std::optional<Box> box, int64_t first, int64_t numel) {
  return {.file = "f",
          .begin = 0,
          .end = static_cast<uint64_t>(numel),
          .first = first,
          .numel = numel,
          .xxh3 = 0,
          .box = std::move(box)};
}

StoredTensor tensor(std::vector<int64_t> shape, std::vector<StoredPiece> pieces) {
  return {.dtype = "U8",
          .shape = std::move(shape),
          .scope = TENON_STATE_REPLICATED,
          .is_bytes = false,
          .pieces = std::move(pieces)};
}

// The answer of why_not_whole() to pieces that are boxes, none of them next to an equal one, found
// by counting how often each element occurs.
std::string counted(const std::vector<Box>& boxes, const std::vector<int64_t>& shape) {
  std::vector<int> counts(static_cast<size_t>(numel_of(shape)), 0);
  for (const Box& box : boxes) {
    for (const int64_t element : elements_of(box, shape)) {
      ++counts[static_cast<size_t>(element)];
    }
  }
  const auto wrong = std::ranges::find_if(counts, [](int count) { return count != 1; });
  return wrong == counts.end()
             ? ""
             : (*wrong == 0 ? "lacks the elements" : "has duplicate elements") +
                   std::string(" from ") + std::to_string(wrong - counts.begin()) + " on";
}

std::string refusal(const std::vector<Box>& boxes, const std::vector<int64_t>& shape) {
  std::vector<StoredPiece> pieces;
  for (const Box& box : boxes) {
    pieces.push_back(piece(box, 0, numel_of(box.size)));
  }
  return why_not_whole(tensor(shape, pieces), files());
}

bool has_equal_neighbors(const std::vector<Box>& boxes) {
  return std::ranges::adjacent_find(boxes) != boxes.end();
}

// Cuts a box in two again and again, at random.
void cut(const Box& box, std::mt19937& random, int times, std::vector<Box>& parts) {
  const size_t d = random() % box.size.size();
  if (times == 0 || box.size[d] < 2) {
    parts.push_back(box);
    return;
  }
  const int64_t first = 1 + static_cast<int64_t>(random() % (box.size[d] - 1));
  Box one = box;
  one.size[d] = first;
  Box other = box;
  other.start[d] += first;
  other.size[d] -= first;
  cut(one, random, times - 1, parts);
  cut(other, random, times - 1, parts);
}

}  // namespace

TEST_CASE("any three boxes of a matrix are a cover, or the first wrong element is named",
          "[checkpoint]") {
  const std::vector<int64_t> shape = {2, 3};
  std::vector<Box> all;
  each_box(shape, [&](const Box& box) { all.push_back(box); });
  each_box_of_ranges(shape, [&](const Box& box) { all.push_back(box); });
  REQUIRE(all.size() == 18 + 3);  // columns 0 and 2, of one row or both
  int num_covers = 0;
  const auto look = [&](const std::vector<Box>& boxes) {
    const std::string wanted = counted(boxes, shape);
    num_covers += wanted.empty() ? 1 : 0;
    if (has_equal_neighbors(boxes)) {
      REQUIRE(refusal(boxes, shape) != "");
    } else if (refusal(boxes, shape) != wanted) {
      REQUIRE(refusal(boxes, shape) == wanted);
    }
  };
  for (const Box& a : all) {
    look({a});
    for (const Box& b : all) {
      look({a, b});
      for (const Box& c : all) {
        look({a, b, c});
      }
    }
  }
  // The whole, 4 cuts in two and 13 in three, in each order.
  CHECK(num_covers == 1 + 4 * 2 + 13 * 6);
}

TEST_CASE("boxes that were cut from a tensor cover it, and no others do", "[checkpoint]") {
  std::mt19937 random(42);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{4, 3, 5}, {1, 7, 2, 3}, {2, 2, 2, 2, 2}}) {
    for (int round = 0; round < 200; ++round) {
      std::vector<Box> boxes;
      cut({std::vector<int64_t>(shape.size(), 0), shape}, random, 4, boxes);
      std::ranges::shuffle(boxes, random);
      REQUIRE(refusal(boxes, shape) == "");
      // One box moves, shrinks, is missing, or is there twice.
      Box& one = boxes[random() % boxes.size()];
      const size_t d = random() % shape.size();
      switch (random() % 4) {
        case 0:
          one.start[d] = static_cast<int64_t>(random() % (shape[d] - one.size[d] + 1));
          break;
        case 1:
          one.size[d] = 1 + static_cast<int64_t>(random() % one.size[d]);
          break;
        case 2:
          boxes.pop_back();
          break;
        default:
          boxes.push_back(boxes.front());
      }
      if (!has_equal_neighbors(boxes)) {
        REQUIRE(refusal(boxes, shape) == counted(boxes, shape));
      }
    }
  }
}

TEST_CASE("the pieces of a box cover it in order", "[checkpoint]") {
  const Box left{.start = {0, 0}, .size = {2, 2}};
  const Box right{.start = {0, 2}, .size = {2, 1}};
  const auto refused = [&](const std::vector<StoredPiece>& pieces) {
    return why_not_whole(tensor({2, 3}, pieces), files());
  };
  CHECK(refused({piece(left, 0, 1), piece(left, 1, 3), piece(right, 0, 2)}) == "");
  CHECK(refused({piece(right, 0, 2), piece(left, 0, 4)}) == "");
  CHECK(refused({piece(left, 0, 1), piece(right, 0, 2), piece(left, 1, 3)}) ==
        "lacks the elements from 1 of the box [0:2, 0:2] on");
  CHECK(refused({piece(left, 0, 1), piece(left, 2, 2), piece(right, 0, 2)}) ==
        "lacks the elements from 1 of the box [0:2, 0:2] on");
  CHECK(refused({piece(left, 0, 3), piece(left, 2, 2), piece(right, 0, 2)}) ==
        "has duplicate elements from 2 of the box [0:2, 0:2] on");
  CHECK(refused({piece(left, 0, 4), piece(right, 0, 1)}) ==
        "lacks the elements from 1 of the box [0:2, 2:3] on");
  CHECK(refused({piece(left, 0, 5), piece(right, 0, 2)}) == "has a piece at an invalid position");
  CHECK(refused({piece(left, 0, 4), piece({}, 0, 6)}) == "has duplicate elements from 0 on");
}

TEST_CASE("boxes that are none are refused", "[checkpoint]") {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto refused = [](const Box& box) {
    return why_not_whole(tensor({2, 3}, {piece(box, 0, 0)}), files());
  };
  const std::string invalid = "has a piece with an invalid box";
  CHECK(refused({.start = {0, -1}, .size = {2, 1}}) == invalid);
  CHECK(refused({.start = {0, 0}, .size = {2, -1}}) == invalid);
  CHECK(refused({.start = {0, 0}, .size = {2, 0}}) == invalid);
  CHECK(refused({.start = {0, 0}, .size = {2, 4}}) == invalid);
  CHECK(refused({.start = {1, 0}, .size = {2, 3}}) == invalid);
  CHECK(refused({.start = {kMost, 0}, .size = {1, 1}}) == invalid);
  CHECK(refused({.start = {kMost, 0}, .size = {kMost, 1}}) == invalid);
  CHECK(refused({.start = {0}, .size = {2}}) == invalid);
  CHECK(refused({.start = {0, 0}, .size = {2}}) == invalid);
  CHECK(refused({.start = {0, 0, 0}, .size = {2, 3, 1}}) == invalid);
  CHECK(why_not_whole(tensor({0, 3}, {piece(Box{{0, 0}, {0, 3}}, 0, 0)}), files()) == invalid);
  const auto with_ranges = [&](size_t axis, int64_t size, std::vector<IndexRange> ranges) {
    return refused({.start = {0, 0}, .size = {2, size}, .axis = axis, .ranges = std::move(ranges)});
  };
  CHECK(with_ranges(1, 2, {{0, 1}, {2, 1}}) != invalid);
  CHECK(with_ranges(1, 3, {{0, 1}, {2, 1}}) == invalid);
  CHECK(with_ranges(0, 2, {{0, 1}, {2, 1}}) == invalid);
  CHECK(with_ranges(2, 2, {{0, 1}, {2, 1}}) == invalid);
  CHECK(with_ranges(kMost, 2, {{0, 1}, {2, 1}}) == invalid);
  CHECK(with_ranges(1, 2, {{0, 1}, {kMost, 1}}) == invalid);
  CHECK(with_ranges(1, 2, {{0, 1}, {2, kMost}}) == invalid);
  CHECK(with_ranges(1, 2, {{2, 1}, {0, 1}}) == invalid);
  CHECK(with_ranges(1, 2, {{0, 2}}) == invalid);
}

TEST_CASE("the work for a cover does not depend on the size of the tensor", "[checkpoint]") {
  const int64_t large = int64_t{1} << 30;
  const auto halves = [&](int64_t at) {
    return std::vector<StoredPiece>{piece(Box{{0, 0}, {large, at}}, 0, large * at),
                                    piece(Box{{0, at}, {large, 2 - at}}, 0, large * (2 - at))};
  };
  CHECK(why_not_whole(tensor({large, 2}, halves(1)), files()) == "");
  // 2^60 corners.
  const std::vector<int64_t> deep(60, 2);
  std::vector<int64_t> start(60, 0);
  const Box corner{start, std::vector<int64_t>(60, 1)};
  CHECK(why_not_whole(tensor(deep, {piece(corner, 0, 1)}), files()) ==
        "is split along 60 dimensions (expected at most 6)");
  // Dimensions that no box splits do not count.
  Box lower{start, deep};
  lower.size[7] = 1;
  Box upper = lower;
  upper.start[7] = 1;
  const int64_t half = int64_t{1} << 59;
  CHECK(why_not_whole(tensor(deep, {piece(lower, 0, half), piece(upper, 0, half)}), files()) == "");
}

TEST_CASE("the piece of a tensor that is stored has its box and its range", "[checkpoint]") {
  const StoredTensor of = tensor({2, 3}, {});
  const Box box{.start = {0, 1}, .size = {2, 2}};
  CHECK(piece_of(of, piece({}, 2, 3)) == TensorPiece({2, 3}).part(2, 3));
  CHECK(piece_of(of, piece(box, 1, 2)) == TensorPiece({2, 3}, box).part(1, 2));
  const Box fused = box_of_ranges({2, 3}, 1, {{0, 1}, {2, 1}});
  CHECK(piece_of(of, piece(fused, 1, 2)) == TensorPiece({2, 3}, fused).part(1, 2));
}

}  // namespace tenon
