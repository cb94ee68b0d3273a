// SPDX-License-Identifier: Apache-2.0
//
// A piece of a tensor: what one rank holds, one file stores, or one load fills. It is a box of the
// tensor, or a flat range of the box's elements. The whole tensor and a flat range of it are pieces
// too: their box is the whole tensor. Only positions are kept here, no values.
// Invariant: the box lies in the tensor, the range lies in the box, and the number of elements of
// the tensor fits into 63 bits. Who reads these numbers from a file verifies them first.
// Threads: any.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace tenon {

// The `size` indices from `start` on.
struct IndexRange {
  int64_t start = 0;
  int64_t size = 0;
  auto operator<=>(const IndexRange&) const = default;
};

// Along each dimension of a tensor, the `size` indices from `start` on. Along `axis`, a box can
// have several ranges instead, as a rank has of a fused matrix: `start` is that of the first range,
// and `size` is the sum of their sizes. The elements of the ranges follow each other along `axis`.
struct Box {
  std::vector<int64_t> start;
  std::vector<int64_t> size;
  size_t axis = 0;                      // 0 if `ranges` is empty
  std::vector<IndexRange> ranges = {};  // ascending, with gaps between them; empty: one range
  bool operator==(const Box&) const = default;

  // Returns the place in the tensor of index `i` of the box along dimension `d`.
  int64_t place(size_t d, int64_t i) const;
};

// Returns the box of the given ranges along an axis, and of all indices along the other dimensions
// of a tensor. Ranges without indices are skipped, and adjacent ranges joined.
// Shapes  ranges: ascending, in the tensor, disjoint
Box box_of_ranges(const std::vector<int64_t>& shape, size_t axis, std::vector<IndexRange> ranges);

// True if the box lies in a tensor of this shape, and its ranges are as described above.
bool is_box_of(const Box& box, const std::vector<int64_t>& shape);

// Calls take(const Box& one, int64_t at) for each range of a box: `one` has that range alone, and
// its elements start at index `at` of the box along the axis.
template <class Take>
void for_each_range(const Box& box, Take take) {
  if (box.ranges.empty()) {
    take(box, int64_t{0});
    return;
  }
  Box one{.start = box.start, .size = box.size};
  int64_t at = 0;
  for (const IndexRange& range : box.ranges) {
    one.start[box.axis] = range.start;
    one.size[box.axis] = range.size;
    take(one, at);
    at += range.size;
  }
}

// "[0:2, 3:5]": starts and ends along each dimension; "[0:2+4:6, 3:5]" if there are two ranges.
std::string box_text(const Box& box);

class TensorPiece {
 public:
  // The whole tensor of this shape.
  explicit TensorPiece(std::vector<int64_t> shape);
  // All elements of a box.
  TensorPiece(std::vector<int64_t> shape, Box box);
  // Returns the elements [first, first + numel) of this piece.
  TensorPiece part(int64_t first, int64_t numel) const;

  // The shape of the whole tensor.
  const std::vector<int64_t>& shape() const { return shape_; }
  // Absent if the box is the whole tensor.
  const std::optional<Box>& box() const { return box_; }
  // The shape of the box.
  const std::vector<int64_t>& box_shape() const { return box_ ? box_->size : shape_; }
  // The piece has the elements [first, first + numel) of its box, in row-major order.
  int64_t first() const { return first_; }
  int64_t numel() const { return numel_; }
  bool is_whole() const { return !box_ && is_box(); }
  // True if the piece has all elements of its box.
  bool is_box() const { return numel_ == box_numel_; }

  // A sequence of elements that are consecutive in the tensor, in row-major order. It is maximal,
  // unless the box has several ranges, the last of which ends where the tensor does.
  struct Run {
    int64_t in_tensor = 0;  // index of its first element in the flattened tensor
    int64_t in_piece = 0;   // and in the piece
    int64_t numel = 0;
    int64_t end() const { return in_tensor + numel; }  // in the flattened tensor
  };
  // Runs are in ascending order, in the tensor and in the piece.
  int64_t num_runs() const;
  Run run(int64_t index) const;
  // Returns the index of the first run that ends after element `in_tensor` of the flattened tensor.
  // num_runs() if there is none.
  int64_t run_after(int64_t in_tensor) const;
  // Returns all elements of the piece's box.
  TensorPiece all_of_box() const { return box_ ? TensorPiece(shape_, *box_) : TensorPiece(shape_); }
  // Returns the place of the piece's first element in the flattened tensor; 0 for an empty piece.
  int64_t first_in_tensor() const { return numel_ > 0 ? run(0).in_tensor : 0; }

  // For messages: "whole", "from element 2 of [2, 3]", "in the box [0:2, 1:3] of [4, 3]", or "from
  // element 2 of the box [0:2, 1:3] of [4, 3]".
  std::string text() const;

  // True if both describe the same elements in the same way.
  bool operator==(const TensorPiece&) const = default;

 private:
  // Returns the end of run `index` of the whole box, in the box; 0 for -1.
  int64_t end_of_run(int64_t index) const;
  // Returns the number of runs of the whole box that end at or before element `in_box`.
  int64_t runs_before(int64_t in_box) const;

  std::vector<int64_t> shape_;
  std::optional<Box> box_;  // never the whole tensor
  int64_t box_numel_ = 1;
  // The ends of the first runs of the whole box, in the box. The next runs have the same lengths
  // in turn.
  std::vector<int64_t> run_ends_;
  int64_t first_ = 0;
  int64_t numel_ = 1;
};

// Calls take(const TensorPiece::Run&) for each run of a piece, in order.
template <class Take>
void for_each_run(const TensorPiece& piece, Take take) {
  for (int64_t r = 0; r < piece.num_runs(); ++r) {
    take(piece.run(r));
  }
}

// Calls take(in_a, in_b, numel) for the elements that two pieces of one tensor share, in order:
// `numel` elements are consecutive in both pieces, and start at these positions of the pieces. The
// calls are as few as possible.
template <class Take>
void for_each_shared_range(const TensorPiece& a, const TensorPiece& b, Take take) {
  int64_t in_a = 0;
  int64_t in_b = 0;
  int64_t numel = 0;
  const auto add = [&](int64_t next_in_a, int64_t next_in_b, int64_t more) {
    if (in_a + numel != next_in_a || in_b + numel != next_in_b) {
      if (numel > 0) {
        take(in_a, in_b, numel);
      }
      in_a = next_in_a;
      in_b = next_in_b;
      numel = 0;
    }
    numel += more;
  };
  int64_t i = 0;
  int64_t j = 0;
  while (i < a.num_runs() && j < b.num_runs()) {
    const TensorPiece::Run x = a.run(i);
    const TensorPiece::Run y = b.run(j);
    const int64_t begin = std::max(x.in_tensor, y.in_tensor);
    const int64_t end = std::min(x.end(), y.end());
    if (begin >= end) {
      if (x.in_tensor < y.in_tensor) {
        i = a.run_after(y.in_tensor);
      } else {
        j = b.run_after(x.in_tensor);
      }
      continue;
    }
    add(x.in_piece + begin - x.in_tensor, y.in_piece + begin - y.in_tensor, end - begin);
    i += x.end() == end ? 1 : 0;
    j += y.end() == end ? 1 : 0;
  }
  if (numel > 0) {
    take(in_a, in_b, numel);
  }
}

// Returns the piece of a tensor that has one element for each `block` elements of the piece's
// flattened tensor, the last block being shorter if need be. Nothing if the piece cuts a block, or
// if its box has more runs than ranges.
// Shapes  the result: of a tensor of one dimension
std::optional<TensorPiece> blocks_of(const TensorPiece& piece, int64_t block);

// Returns the values of a piece of `whole`: a view if they are consecutive there, else a copy.
// Shapes  whole: the piece's shape(), or flat; the result [numel()]
at::Tensor values_of(const TensorPiece& piece, const at::Tensor& whole);

// Returns the elements of a box of `whole`: a view if the box has one range, else a copy.
// Shapes  the result: box.size
at::Tensor part_of(const at::Tensor& whole, const Box& box);

// Copies `part` into the elements of a box of `whole`, or adds it to them.
// Shapes  part: box.size; any dtype
void put_part(const at::Tensor& whole, const Box& box, const at::Tensor& part);
void add_part(const at::Tensor& whole, const Box& box, const at::Tensor& part);

}  // namespace tenon
