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
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace at {
class Tensor;
}

namespace tenon {

// Along each dimension of a tensor, the `size` indices from `start` on.
struct Box {
  std::vector<int64_t> start;
  std::vector<int64_t> size;
  bool operator==(const Box&) const = default;
};

// "[0:2, 3:5]": starts and ends along each dimension.
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

  // A maximal sequence of elements that are consecutive in the tensor, in row-major order.
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
  // Returns the place of the piece's first element in the flattened tensor; 0 for an empty piece.
  int64_t first_in_tensor() const { return numel_ > 0 ? run(0).in_tensor : 0; }

  // For messages: "whole", "from element 2 of [2, 3]", "in the box [0:2, 1:3] of [4, 3]", or "from
  // element 2 of the box [0:2, 1:3] of [4, 3]".
  std::string text() const;

  // True if both describe the same elements in the same way.
  bool operator==(const TensorPiece&) const = default;

 private:
  std::vector<int64_t> shape_;
  std::optional<Box> box_;  // never the whole tensor
  int64_t box_numel_ = 1;
  int64_t run_numel_ = 1;  // elements of each run of the whole box
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

// Returns the values of a piece of `whole`: a view if they are consecutive there, else a copy.
// Shapes  whole: the piece's shape(), or flat; the result [numel()]
at::Tensor values_of(const TensorPiece& piece, const at::Tensor& whole);

}  // namespace tenon
