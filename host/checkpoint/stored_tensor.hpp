// SPDX-License-Identifier: Apache-2.0
//
// How a checkpoint stores a tensor: in pieces, each in a file. The numbers come from a file and may
// be anything until why_not_whole() has verified them.
// Threads: any.
#pragma once

#include "host/tensor/tensor_piece.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t header_xxh3 = 0;  // XXH3-64 of the bytes before the tensors
};

// Elements [first, first + numel) of a box of a tensor, as bytes [begin, end) of a file.
struct StoredPiece {
  std::string file;
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t first = 0;
  int64_t numel = 0;
  uint64_t xxh3 = 0;            // XXH3-64 of the bytes
  std::optional<Box> box = {};  // absent: the whole tensor
};

struct StoredTensor {
  std::string dtype;           // name in safetensors: "F32"
  std::vector<int64_t> shape;  // of the whole
  uint32_t scope = 0;          // TENON_STATE_* or kStateByRow
  bool is_bytes = false;       // an entry of bytes, stored as U8
  std::vector<StoredPiece> pieces;
};

// Dimensions along which the boxes of one tensor may split it. The work to verify them doubles with
// each.
inline constexpr size_t kMostSplitDimensions = 6;

// Returns "" if the pieces cover the tensor exactly once and lie within the files; else the error.
// The pieces of one box must be adjacent, and cover the box in order. The work is bounded by the
// number of pieces, not by the size of the tensor.
std::string why_not_whole(const StoredTensor& tensor, const std::vector<StoredFile>& files);

// Returns the part of a verified tensor that a piece of it stores.
TensorPiece piece_of(const StoredTensor& tensor, const StoredPiece& piece);

}  // namespace tenon
