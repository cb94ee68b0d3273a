// SPDX-License-Identifier: Apache-2.0
#include "host/train/weights/resized_source.hpp"

#include <ATen/Functions.h>

#include <memory>
#include <utility>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

class RowsInMemory final : public TensorSource {
 public:
  explicit RowsInMemory(at::Tensor values)
      : TensorSource(values.scalar_type(), values.sizes().vec()), values_(std::move(values)) {}
  void read(int64_t first, const at::Tensor& out) const override {
    out.view(-1).copy_(values_.reshape(-1).narrow(0, first, out.numel()));
  }

 private:
  at::Tensor values_;
};

// 40 rows of 3 with correlated columns.
at::Tensor old_rows() {
  const at::Tensor t = at::arange(40, at::dtype(at::kDouble));
  return at::stack({t.sin(), t.sin() * 2 + t.cos(), t * 0.1}, 1);
}

}  // namespace

TEST_CASE("old rows stay, and new rows have their mean and a billionth of their covariance",
          "[train]") {
  const at::Tensor old = old_rows();
  constexpr int64_t kNew = 4000;
  const ResizedSource resized(std::make_shared<RowsInMemory>(old), 40 + kNew, "embed");
  CHECK(resized.shape() == std::vector<int64_t>{40 + kNew, 3});
  const at::Tensor all = resized.whole();
  CHECK(at::equal(all.narrow(0, 0, 40), old));
  const at::Tensor added = all.narrow(0, 40, kNew);
  const at::Tensor mean = old.mean(0);
  CHECK((added.mean(0) - mean).abs().max().item<double>() < 1e-5);
  // torch.cov(old.T, correction=0), as resize_token_embeddings computes it
  const at::Tensor centered = old - mean;
  const at::Tensor covariance = at::matmul(centered.t(), centered) / 40.0;
  const at::Tensor of_added = added - added.mean(0);
  const at::Tensor found = at::matmul(of_added.t(), of_added) / double{kNew} * 1e9;
  CHECK((found - covariance).abs().max().item<double>() <
        0.1 * covariance.abs().max().item<double>());
  CHECK_FALSE(at::equal(added[0], added[1]));
}

TEST_CASE("parts of a resized tensor are those of the whole, in its dtype", "[train]") {
  const auto old = std::make_shared<RowsInMemory>(old_rows().to(at::kBFloat16));
  const at::Tensor whole = ResizedSource(old, 43, "embed").whole();
  CHECK(whole.scalar_type() == at::kBFloat16);
  for (const auto& [first, size] :
       {std::pair<int64_t, int64_t>{0, 7}, {110, 15}, {118, 5}, {121, 8}}) {
    const at::Tensor part = at::empty({size}, at::kBFloat16);
    ResizedSource(old, 43, "embed").read(first, part);
    CHECK(at::equal(part, whole.view(-1).narrow(0, first, size)));
  }
  CHECK_FALSE(
      at::equal(ResizedSource(std::make_shared<RowsInMemory>(old_rows()), 43, "a").whole(),
                ResizedSource(std::make_shared<RowsInMemory>(old_rows()), 43, "b").whole()));
}

TEST_CASE("a bias gets the mean of its elements", "[train]") {
  const at::Tensor bias = at::arange(5, at::dtype(at::kFloat));
  const at::Tensor all =
      ResizedSource(std::make_shared<RowsInMemory>(bias), 7, "lm_head.bias").whole();
  CHECK(at::equal(all.narrow(0, 0, 5), bias));
  CHECK((all.narrow(0, 5, 2) - 2.0).abs().max().item<double>() < 1e-6);
}

}  // namespace tenon
