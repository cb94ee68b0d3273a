// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/stored_tensor.hpp"

#include "host/checkpoint/safetensors.hpp"
#include "host/io/checked_size.hpp"
#include "host/text/formatted.hpp"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

namespace tenon {
namespace {

// Returns the elements of a box, or nothing if it is empty or not in the tensor.
std::optional<int64_t> numel_in(const Box& box, const std::vector<int64_t>& shape) {
  if (!is_box_of(box, shape) || std::ranges::any_of(box.size, [](int64_t n) { return n < 1; })) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*checked_bytes(box.size, 1));  // no more than those of the tensor
}

// The number of boxes that contain a place is the sum of the signs of their corners at or before
// it, along each dimension. A corner's sign is negative if it is at the end along an odd number of
// dimensions. So boxes cover a tensor once if the signs of all corners sum to those of the tensor.
class Corners {
 public:
  // `dimensions`: the others are spanned by all boxes.
  explicit Corners(std::vector<size_t> dimensions) : dimensions_(std::move(dimensions)) {}

  void add(const Box& box, int64_t count) {
    for (uint32_t ends = 0; ends < uint32_t{1} << dimensions_.size(); ++ends) {
      std::vector<int64_t> corner;
      for (size_t k = 0; k < dimensions_.size(); ++k) {
        const size_t d = dimensions_[k];
        corner.push_back(box.start[d] + ((ends >> k & 1) != 0 ? box.size[d] : 0));
      }
      signs_[corner] += std::popcount(ends) % 2 == 0 ? count : -count;
    }
  }

  // Returns "" if the signs cancel, else where the first element is that they do not cancel for.
  std::string why_not_zero(const std::vector<int64_t>& shape) const {
    const auto wrong = std::ranges::find_if(signs_, [](const auto& at) { return at.second != 0; });
    if (wrong == signs_.end()) {
      return "";
    }
    Box first{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1)};
    for (size_t k = 0; k < dimensions_.size(); ++k) {
      first.start[dimensions_[k]] = wrong->first[k];
    }
    return formatted("{} from {} on",
                     wrong->second < 0 ? "lacks the elements" : "has duplicate elements",
                     TensorPiece(shape, std::move(first)).first_in_tensor());
  }

 private:
  std::vector<size_t> dimensions_;
  std::map<std::vector<int64_t>, int64_t> signs_;
};

// Returns "" if the boxes, each in the tensor, cover it exactly once; else the error.
std::string why_not_tiled(const std::vector<Box>& boxes, const std::vector<int64_t>& shape) {
  std::vector<size_t> split;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::ranges::any_of(boxes, [&](const Box& box) { return box.size[d] != shape[d]; })) {
      split.push_back(d);
    }
  }
  if (split.size() > kMostSplitDimensions) {
    return formatted(
        "is split along {} dimensions (expected at most {})", split.size(), kMostSplitDimensions);
  }
  Corners corners(std::move(split));
  for (const Box& box : boxes) {
    for_each_range(box, [&](const Box& one, int64_t) { corners.add(one, 1); });
  }
  corners.add({std::vector<int64_t>(shape.size(), 0), shape}, -1);
  return corners.why_not_zero(shape);
}

// The pieces of one box, which cover it in order.
struct BoxPieces {
  const std::optional<Box>* box = nullptr;
  int64_t numel = 0;  // of the box
  int64_t end = 0;    // of the pieces so far

  std::string of_box() const { return *box ? " of the box " + box_text(**box) : ""; }
  std::string why_not_at_end() const {
    return end == numel ? "" : formatted("lacks the elements from {}{} on", end, of_box());
  }
};

}  // namespace

std::string why_not_whole(const StoredTensor& tensor, const std::vector<StoredFile>& files) {
  const auto dtype = scalar_type_of_safetensors(tensor.dtype);
  if (!dtype.has_value()) {
    return "is of the unknown type '" + tensor.dtype + "'";
  }
  if (std::ranges::any_of(tensor.shape, [](int64_t size) { return size < 0; })) {
    return "has a negative size";
  }
  const uint64_t element = c10::elementSize(*dtype);
  const auto bytes = checked_bytes(tensor.shape, element);
  if (!bytes.has_value()) {
    return "has a shape of more bytes than 63 bits can count";
  }
  const auto numel = static_cast<int64_t>(*bytes / element);
  const std::optional<Box> whole;
  BoxPieces at{.box = &whole, .numel = numel};
  std::vector<Box> boxes;
  for (const StoredPiece& piece : tensor.pieces) {
    if (boxes.empty() || piece.box != *at.box) {
      if (const std::string why = at.why_not_at_end(); !boxes.empty() && !why.empty()) {
        return why;
      }
      const auto in_box = piece.box ? numel_in(*piece.box, tensor.shape) : numel;
      if (!in_box.has_value()) {
        return "has a piece with an invalid box";
      }
      boxes.push_back(
          piece.box.value_or(Box{std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape}));
      at = {.box = &piece.box, .numel = *in_box};
    }
    if (piece.first != at.end) {
      return formatted("{} from {}{} on",
                       piece.first > at.end ? "lacks the elements" : "has duplicate elements",
                       std::min(at.end, piece.first),
                       at.of_box());
    }
    if (piece.numel < 0 || piece.numel > at.numel - at.end || piece.end < piece.begin ||
        checked_product(static_cast<uint64_t>(piece.numel), element) != piece.end - piece.begin) {
      return "has a piece at an invalid position";
    }
    const auto file = std::ranges::find(files, piece.file, &StoredFile::name);
    if (file == files.end() || piece.end > file->bytes) {
      return "has a piece in a file that the checkpoint does not have";
    }
    at.end += piece.numel;
  }
  if (const std::string why = at.why_not_at_end(); !why.empty()) {
    return why;
  }
  return boxes.empty() ? "" : why_not_tiled(boxes, tensor.shape);
}

TensorPiece piece_of(const StoredTensor& tensor, const StoredPiece& piece) {
  const TensorPiece all =
      piece.box ? TensorPiece(tensor.shape, *piece.box) : TensorPiece(tensor.shape);
  return all.part(piece.first, piece.numel);
}

}  // namespace tenon
