// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/initializer.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/tensor/philox.hpp"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <limits>
#include <vector>

#include "tests/host/tensor/each_box.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

at::Tensor filled(uint32_t kind, double a, double b, int64_t n, at::ScalarType type) {
  const at::Tensor whole = at::empty({n}, type);
  fill_init(kind, a, b, 42, "layers.0.weight", TensorPiece({n}), whole);
  return whole;
}

TEST_CASE("constant initialisers fill with their constant", "[tensor]") {
  CHECK(at::equal(filled(TENON_INIT_ZEROS, 9, 9, 5, at::kFloat), at::zeros({5})));
  CHECK(at::equal(filled(TENON_INIT_ONES, 9, 9, 5, at::kFloat), at::ones({5})));
  CHECK(at::equal(filled(TENON_INIT_CONSTANT, 0.25, 9, 5, at::kFloat), at::full({5}, 0.25)));
}

TEST_CASE("random initialisers are scaled numbers of the parameter's stream", "[tensor]") {
  std::vector<double> z(3);
  fill_normal(42, stream_of("layers.0.weight"), 0, z);
  const at::Tensor normal = filled(TENON_INIT_NORMAL, 0.5, 0.02, 3, at::kDouble);
  fill_uniform(42, stream_of("layers.0.weight"), 0, z);
  const at::Tensor uniform = filled(TENON_INIT_UNIFORM, -1.0, 3.0, 3, at::kDouble);
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(uniform[i].item<double>() == -1.0 + 4.0 * z[static_cast<size_t>(i)]);
  }
  fill_normal(42, stream_of("layers.0.weight"), 0, z);
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(normal[i].item<double>() == 0.5 + 0.02 * z[static_cast<size_t>(i)]);
  }
}

TEST_CASE("random initialisers have the mean and deviation they are asked for", "[tensor]") {
  const at::Tensor normal = filled(TENON_INIT_NORMAL, 1.0, 0.02, 100'000, at::kFloat);
  CHECK(normal.mean().item<double>() == Approx(1.0).margin(0.0003));
  CHECK(normal.std().item<double>() == Approx(0.02).margin(0.0003));
  const at::Tensor cut = filled(TENON_INIT_TRUNC_NORMAL, 1.0, 0.02, 100'000, at::kFloat);
  CHECK(cut.mean().item<double>() == Approx(1.0).margin(0.0003));
  CHECK(cut.std().item<double>() == Approx(0.02 * 0.87962566).margin(0.0003));
  CHECK(cut.min().item<double>() >= 0.96 - 1e-7);
  CHECK(cut.max().item<double>() <= 1.04 + 1e-7);
}

TEST_CASE("any slice of a parameter has the bits of the whole", "[tensor]") {
  constexpr int64_t kN = 20'011;  // several chunks and threads, and an odd rest
  const TensorPiece whole_piece({kN});
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const uint32_t kind : {TENON_INIT_NORMAL, TENON_INIT_UNIFORM, TENON_INIT_TRUNC_NORMAL}) {
      const at::Tensor whole = filled(kind, -0.1, 0.3, kN, type);
      for (const int64_t cut : {int64_t{1}, int64_t{1023}, int64_t{1024}, int64_t{9'999}}) {
        const at::Tensor first = at::empty({cut}, type);
        const at::Tensor rest = at::empty({kN - cut}, type);
        fill_init(kind, -0.1, 0.3, 42, "layers.0.weight", whole_piece.part(0, cut), first);
        fill_init(kind, -0.1, 0.3, 42, "layers.0.weight", whole_piece.part(cut, kN - cut), rest);
        CHECK(at::equal(at::cat({first, rest}), whole));
      }
    }
  }
}

TEST_CASE("first values do not depend on the number of threads", "[tensor]") {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = filled(TENON_INIT_NORMAL, 0.0, 1.0, 50'000, at::kFloat);
  at::set_num_threads(3);
  const at::Tensor three = filled(TENON_INIT_NORMAL, 0.0, 1.0, 50'000, at::kFloat);
  at::set_num_threads(threads);
  CHECK(at::equal(one, three));
}

TEST_CASE("a low-precision parameter starts as the rounded fp32 one", "[tensor]") {
  const at::Tensor single = filled(TENON_INIT_NORMAL, 0.0, 1.0, 1000, at::kFloat);
  const at::Tensor brain = filled(TENON_INIT_NORMAL, 0.0, 1.0, 1000, at::kBFloat16);
  CHECK(at::equal(single.to(at::kBFloat16), brain));
}

TEST_CASE("parameters of other names and seeds start with other values", "[tensor]") {
  const at::Tensor a = at::empty({100});
  const at::Tensor b = at::empty({100});
  fill_init(TENON_INIT_NORMAL, 0, 1, 42, "a", TensorPiece({100}), a);
  fill_init(TENON_INIT_NORMAL, 0, 1, 42, "b", TensorPiece({100}), b);
  CHECK_FALSE(at::equal(a, b));
  fill_init(TENON_INIT_NORMAL, 0, 1, 43, "a", TensorPiece({100}), b);
  CHECK_FALSE(at::equal(a, b));
}

TEST_CASE("a leaf that wants gradients is filled without being recorded", "[tensor]") {
  at::Tensor leaf = at::zeros({2, 2}).requires_grad_(true);
  fill_init(TENON_INIT_ONES, 0, 0, 1, "w", TensorPiece({2, 2}), leaf);
  CHECK(at::equal(leaf, at::ones({2, 2})));
  CHECK(leaf.is_leaf());
}

TEST_CASE("initialisers that make no sense are refused", "[tensor]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(is_legal_init(TENON_INIT_MODULE, 0, 0));
  CHECK_FALSE(is_legal_init(99, 0, 0));
  CHECK_FALSE(is_legal_init(TENON_INIT_NORMAL, 0, -1));
  CHECK_FALSE(is_legal_init(TENON_INIT_TRUNC_NORMAL, nan, 1));
  CHECK_FALSE(is_legal_init(TENON_INIT_UNIFORM, 1, 0));
  CHECK_FALSE(is_legal_init(TENON_INIT_CONSTANT, nan, 0));
  CHECK(is_legal_init(TENON_INIT_ZEROS, nan, nan));

  const TensorPiece piece({4});
  const auto is_refused = [&](uint32_t kind, const at::Tensor& values) {
    CHECK_THROWS_AS(fill_init(kind, 0, 0, 1, "w", piece, values), Error);
  };
  is_refused(TENON_INIT_MODULE, at::empty({4}));
  is_refused(TENON_INIT_ONES, at::empty({3}));
  is_refused(TENON_INIT_ONES, at::empty({4, 4}).select(1, 0));
  is_refused(TENON_INIT_ONES, at::empty({4}, at::kLong));
}

TEST_CASE("any piece of a parameter has the bits of the whole", "[tensor]") {
  const auto check = [](const TensorPiece& piece, const at::Tensor& whole) {
    const at::Tensor values = at::empty({piece.numel()});
    fill_init(TENON_INIT_NORMAL, -0.1, 0.3, 42, "layers.0.weight", piece, values);
    return at::equal(values, values_of(piece, whole));
  };
  const at::Tensor small = filled(TENON_INIT_NORMAL, -0.1, 0.3, 24, at::kFloat);
  each_box({3, 4, 2}, [&](const Box& box) {
    const TensorPiece piece({3, 4, 2}, box);
    INFO(piece.text());
    CHECK(check(piece, small));
    CHECK(check(piece.part(piece.numel() / 3, piece.numel() / 2), small));
  });
  // Many chunks, in rows that end anywhere in a chunk.
  const at::Tensor large = filled(TENON_INIT_NORMAL, -0.1, 0.3, 60 * 700, at::kFloat);
  const TensorPiece columns({60, 700}, {.start = {3, 11}, .size = {50, 397}});
  CHECK(check(columns, large));
  CHECK(check(columns.part(1'000, 15'000), large));
}

}  // namespace
}  // namespace tenon
