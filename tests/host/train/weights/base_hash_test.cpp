// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/base_hash.hpp"

#include <ATen/Functions.h>

#include "tests/host/tensor/each_box.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("the hash of a base is that of earlier releases", "[train]") {
  const at::Tensor values = at::arange(24, at::kFloat);
  // From the definition in another language.
  CHECK(base_hash_text(base_hash_of("w", TensorPiece({3, 4, 2}), values)) == "7263fa910a7be2f2");
}

TEST_CASE("the hashes of a base's boxes and ranges add up to that of the whole", "[train]") {
  const std::vector<int64_t> shape = {3, 4, 2};
  const at::Tensor values = at::arange(24, at::kFloat).view(shape).to(at::kBFloat16);
  const auto hash = [&](const TensorPiece& piece) {
    return base_hash_of("w", piece, values_of(piece, values));
  };
  const uint64_t whole = base_hash_of("w", TensorPiece(shape), values);
  std::vector<uint64_t> elements;
  for (int64_t i = 0; i < 24; ++i) {
    elements.push_back(hash(TensorPiece(shape).part(i, 1)));
  }
  each_box(shape, [&](const Box& box) {
    const TensorPiece piece(shape, box);
    INFO(piece.text());
    uint64_t sum = 0;
    for (const int64_t element : elements_of(box, shape)) {
      sum += elements[static_cast<size_t>(element)];
    }
    CHECK(hash(piece) == sum);
    const int64_t half = piece.numel() / 2;
    CHECK(hash(piece.part(0, half)) + hash(piece.part(half, piece.numel() - half)) == sum);
    CHECK((sum == whole) == piece.is_whole());
  });
}

}  // namespace tenon
