// SPDX-License-Identifier: Apache-2.0
//
// Codes of adamw_8bit_blocks against a search among all values of the map. Updates are compared
// with torchao's in tests/plugins/lm_optimizers_test.cpp.
#include "host/kernels/adamw_8bit_blocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr int64_t kBlockOfCodes = 256;

// State of one piece, updated without a change of its parameters.
struct CodedPiece {
  explicit CodedPiece(std::vector<float> given)
      : values(std::move(given)),
        parameters(values.size()),
        mean_codes(values.size()),
        square_codes(values.size()),
        mean_scales((values.size() + kBlockOfCodes - 1) / kBlockOfCodes),
        square_scales(mean_scales.size()) {}

  // `share` 1: the state becomes the gradient and its square; 0: it stays.
  void update(float share) {
    const Adam8Piece piece{.parameter = parameters.data(),
                           .grad = values.data(),
                           .mean_codes = mean_codes.data(),
                           .mean_scales = mean_scales.data(),
                           .square_codes = square_codes.data(),
                           .square_scales = square_scales.data(),
                           .n = static_cast<int64_t>(values.size()),
                           .block = kBlockOfCodes};
    const Adam8Numbers numbers{
        .mean_share = share, .square_share = share, .keep = 1, .rate = 0, .root = 1, .eps = 1};
    adamw_8bit_blocks(piece, numbers, 0, static_cast<int64_t>(mean_scales.size()));
  }

  std::vector<float> values;
  std::vector<float> parameters;
  std::vector<uint8_t> mean_codes;
  std::vector<uint8_t> square_codes;
  std::vector<float> mean_scales;
  std::vector<float> square_scales;
};

std::vector<float> values_of_all_decades(size_t n) {
  std::mt19937_64 generator(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<float> values;
  for (size_t i = 0; i < n; ++i) {
    const double size = i % 97 == 5 ? 0 : std::pow(10.0, -8 * uniform(generator));
    values.push_back(static_cast<float>(uniform(generator) < 0.5 ? -size : size));
  }
  values[7] = 1;
  values[9] = -1;
  return values;
}

double distance_to_nearest(Codes codes, double scale, double value) {
  double least = 1e300;
  for (int code = 0; code < 256; ++code) {
    least = std::min(least, std::abs(dynamic_value(codes, code) * scale - value));
  }
  return least;
}

}  // namespace

TEST_CASE("each mean is rounded to the nearest value of its map", "[kernels]") {
  CodedPiece piece(values_of_all_decades(20 * kBlockOfCodes + 37));
  piece.update(1);
  int64_t num_wrong = 0;
  for (size_t i = 0; i < piece.values.size(); ++i) {
    const auto check = [&](Codes codes, uint8_t code, double scale, double value) {
      const double away = std::abs(dynamic_value(codes, code) * scale - value);
      num_wrong += away > distance_to_nearest(codes, scale, value) * (1 + 1e-5) + 1e-12 ? 1 : 0;
    };
    const double value = piece.values[i];
    const size_t block = i / kBlockOfCodes;
    check(Codes::kSigned, piece.mean_codes[i], piece.mean_scales[block], value);
    check(Codes::kUnsigned, piece.square_codes[i], piece.square_scales[block], value * value);
  }
  CHECK(num_wrong == 0);
}

TEST_CASE("codes that are read and written again stay", "[kernels]") {
  CodedPiece piece(values_of_all_decades(20 * kBlockOfCodes + 37));
  piece.update(1);
  const CodedPiece before = piece;
  piece.update(0);
  CHECK(piece.mean_codes == before.mean_codes);
  CHECK(piece.square_codes == before.square_codes);
}

TEST_CASE("the maps are increasing, from -0.993 or 0 to 1", "[kernels]") {
  for (const Codes codes : {Codes::kSigned, Codes::kUnsigned}) {
    for (int code = 1; code < 256; ++code) {
      REQUIRE(dynamic_value(codes, code) > dynamic_value(codes, code - 1));
    }
    CHECK(dynamic_value(codes, 255) == 1);
  }
  CHECK(dynamic_value(Codes::kSigned, 0) == Approx(-(0.1 + 0.9 * 63.5 / 64)));
  CHECK(dynamic_value(Codes::kSigned, 127) == 0);
  CHECK(dynamic_value(Codes::kUnsigned, 0) == 0);
}

}  // namespace tenon
