// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/own_product.hpp"

#include "host/device/block_cache.hpp"

#include <ATen/Parallel.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A factor with this layout, in fp32.
at::Tensor factor(uint64_t seed, int64_t rows, int64_t columns, const std::string& layout) {
  if (layout == "transposed") {
    return made(seed, {columns, rows}).to(at::kFloat).t();
  }
  if (layout == "strided") {
    return made(seed, {2 * rows, 3 * columns}).to(at::kFloat).slice(0, 1, {}, 2).slice(1, 0, {}, 3);
  }
  return made(seed, {rows, columns}).to(at::kFloat);
}

bool is_near(const at::Tensor& found, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor want = at::mm(a.to(at::kDouble), b.to(at::kDouble));
  // Each element separately, in units of its sum of absolute products.
  const at::Tensor scale = at::mm(a.to(at::kDouble).abs(), b.to(at::kDouble).abs());
  return found.sizes() == want.sizes() && found.is_contiguous() &&
         ((found.to(at::kDouble) - want).abs() <= 3e-6 * scale).all().item<bool>();
}

}  // namespace

TEST_CASE("an own product of any size and layout is that of fp64", "[kernels]") {
  struct Sizes {
    int64_t M;
    int64_t K;
    int64_t N;
  };
  const auto s = GENERATE(values<Sizes>({{1, 1, 1},
                                         {5, 3, 7},
                                         {6, 16, 16},
                                         {13, 50, 33},
                                         {120, 385, 64},
                                         {241, 1000, 100},
                                         {3, 2000, 200}}));
  const std::string left = GENERATE("dense", "transposed", "strided");
  const std::string right = GENERATE("dense", "transposed", "strided");
  CAPTURE(s.M, s.K, s.N, left, right);
  const at::Tensor a = factor(1, s.M, s.K, left);
  const at::Tensor b = factor(2, s.K, s.N, right);
  CHECK(is_near(own_product(a, b, std::nullopt), a, b));
  const at::Tensor bias = made(3, {s.N}).to(at::kFloat);
  const at::Tensor with_bias = own_product(a, b, bias);
  const at::Tensor want = at::mm(a.to(at::kDouble), b.to(at::kDouble)) + bias;
  CHECK(at::allclose(with_bias.to(at::kDouble), want, 1e-4, 1e-3));
}

TEST_CASE("an own product packs what is said of it", "[kernels]") {
  use_block_cache();
  const at::Tensor a = factor(1, 500, 400, "dense");
  const at::Tensor b = factor(2, 400, 300, "dense");
  const int64_t before = cpu_tensor_memory().peak_bytes;
  if (before == 0) {
    TENON_SKIP("built with a sanitizer, which has its own allocator");
  }
  // Beyond any peak before, so that the product makes a new one.
  const int64_t room = before - cpu_tensor_memory().bytes + 1000;
  const at::Tensor fill = at::empty({room}, at::kByte);
  const at::Tensor c = own_product(a, b, std::nullopt);
  const int64_t packed = cpu_tensor_memory().peak_bytes - cpu_tensor_memory().bytes;
  const int64_t said = own_product_bytes(500, 300, 400, at::get_num_threads());
  CHECK(packed >= said);
  CHECK(packed <= said + said / 4 + 10'000);  // rounded up by the allocator
}

TEST_CASE("an own product has the same bits on any number of threads", "[kernels]") {
  const at::Tensor a = factor(1, 500, 400, "dense");
  const at::Tensor b = factor(2, 400, 300, "transposed");
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = own_product(a, b, std::nullopt);
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    CHECK(at::equal(own_product(a, b, std::nullopt), one));
  }
  at::set_num_threads(before);
}

TEST_CASE("an infinite element of a factor stays in its row and column", "[kernels]") {
  at::Tensor a = factor(1, 20, 30, "dense");
  const at::Tensor b = factor(2, 30, 40, "dense");
  const at::Tensor clean = own_product(a, b, std::nullopt);
  a[7][3] = std::numeric_limits<float>::infinity();
  const at::Tensor found = own_product(a, b, std::nullopt);
  for (int64_t i = 0; i < 20; ++i) {
    CHECK(at::equal(found[i], clean[i]) == (i != 7));
  }
  CHECK(found[7].isinf().all().item<bool>());
}

}  // namespace tenon
