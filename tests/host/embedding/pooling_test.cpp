// SPDX-License-Identifier: Apache-2.0
//
// The oracle is libtorch's embedding_bag, and its gradients by autograd.
#include "host/embedding/pooling.hpp"

#include <tenon/model.h>

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <tuple>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr int64_t kPooledDim = 5;

LookupIds ragged(const std::vector<int64_t>& entries, const std::vector<int64_t>& offsets) {
  LookupIds ids;
  ids.ids = at::tensor(entries, at::kLong);
  ids.offsets = at::tensor(offsets, at::kLong);
  ids.num_samples = static_cast<int64_t>(offsets.size()) - 1;
  return ids;
}

std::vector<uint32_t> positions_of(const LookupIds& ids) {
  const auto* const entries = ids.ids.const_data_ptr<int64_t>();
  return {entries, entries + ids.num_entries()};
}

// Entries are rows themselves here.
at::Tensor bag(const at::Tensor& rows, const LookupIds& ids, int64_t mode, bool is_weighted) {
  std::optional<at::Tensor> weights;
  if (is_weighted) {
    weights = ids.weights;
  }
  return std::get<0>(
      at::embedding_bag(rows, ids.ids, ids.offsets, false, mode, false, weights, true));
}

struct Pooled {
  at::Tensor value;
  at::Tensor row_grads;
  std::vector<int64_t> used;
};

Pooled pooled(const Pooling& pooling,
              const LookupIds& ids,
              const at::Tensor& rows,
              const at::Tensor& grad) {
  const std::vector<uint32_t> positions = positions_of(ids);
  const std::vector<uint8_t> has_row(static_cast<size_t>(rows.size(0)), 1);
  std::vector<int32_t> chosen;
  Pooled result;
  result.value = pool(pooling, ids, positions, rows.const_data_ptr<float>(), &chosen);
  result.row_grads = at::zeros_like(rows);
  result.used.assign(static_cast<size_t>(rows.size(0)), 0);
  add_pooled_grad(pooling,
                  ids,
                  positions,
                  has_row,
                  grad,
                  chosen,
                  result.row_grads.data_ptr<float>(),
                  result.used.data());
  return result;
}

TEST_CASE("pooling and its gradient are those of embedding_bag", "[embedding]") {
  at::manual_seed(4);
  LookupIds ids = ragged({0, 2, 2, 5, 1, 1, 3}, {0, 3, 3, 4, 7});
  ids.weights = at::randn({7});
  const bool is_weighted = GENERATE(false, true);
  const auto [kind, mode] = is_weighted ? std::pair<uint32_t, int64_t>(TENON_POOL_WEIGHTED_SUM, 0)
                                        : GENERATE(std::pair<uint32_t, int64_t>(TENON_POOL_SUM, 0),
                                                   std::pair<uint32_t, int64_t>(TENON_POOL_MEAN, 1),
                                                   std::pair<uint32_t, int64_t>(TENON_POOL_MAX, 2));
  at::Tensor rows = at::randn({6, kPooledDim});
  const at::Tensor grad = at::randn({4, kPooledDim});
  at::Tensor leaf = rows.clone();
  leaf.set_requires_grad(true);
  const at::Tensor expected = bag(leaf, ids, mode, is_weighted);
  const at::Tensor expected_grad = torch::autograd::grad({expected}, {leaf}, {grad}).front();
  const Pooled result = pooled({.kind = kind, .dim = kPooledDim}, ids, rows, grad);
  CAPTURE(kind);
  CHECK(at::allclose(result.value, expected.detach(), 1e-6, 1e-6));
  CHECK(at::allclose(result.row_grads, expected_grad, 1e-6, 1e-6));
  CHECK(result.value[1].eq(0).all().item<bool>());  // no entries
  CHECK(result.used == std::vector<int64_t>{1, 2, 2, 1, 0, 1});
}

TEST_CASE("a weighted mean divides by the number of entries", "[embedding]") {
  LookupIds ids = ragged({0, 1, 1}, {0, 1, 3});
  ids.weights = at::tensor(std::vector<float>{2, 3, 4});
  const at::Tensor rows = at::tensor(std::vector<float>{1, 10}).view({2, 1});
  const at::Tensor grad = at::tensor(std::vector<float>{1, 8}).view({2, 1});
  const Pooled result = pooled({.kind = TENON_POOL_WEIGHTED_MEAN, .dim = 1}, ids, rows, grad);
  CHECK(result.value.flatten().equal(at::tensor(std::vector<float>{2, 35})));
  CHECK(result.row_grads.flatten().equal(at::tensor(std::vector<float>{2, 28})));
}

TEST_CASE("without a pooling each entry is its row", "[embedding]") {
  LookupIds ids;
  ids.ids = at::tensor(std::vector<int64_t>{1, 0, 1, 2}, at::kLong);
  ids.num_samples = 2;
  ids.per_sample = 2;
  ids.is_matrix = true;
  const at::Tensor rows = at::randn({3, kPooledDim});
  const at::Tensor grad = at::randn({2, 2, kPooledDim});
  const Pooled result = pooled({.kind = TENON_POOL_NONE, .dim = kPooledDim}, ids, rows, grad);
  CHECK(result.value.equal(rows.index_select(0, ids.ids).view({2, 2, kPooledDim})));
  CHECK(result.row_grads.equal(
      at::zeros_like(rows).index_add(0, ids.ids, grad.view({4, kPooledDim}))));
}

TEST_CASE("the first n rows are kept in order, and zeros fill what is short", "[embedding]") {
  const LookupIds ids = ragged({4, 1, 3, 2}, {0, 3, 3, 4});
  const at::Tensor rows = at::randn({5, kPooledDim});
  const at::Tensor grad = at::randn({3, 2, kPooledDim});
  const Pooled result =
      pooled({.kind = TENON_POOL_FIRST_N, .length = 2, .dim = kPooledDim}, ids, rows, grad);
  at::Tensor expected = at::zeros({3, 2, kPooledDim});
  expected[0][0] = rows[4];
  expected[0][1] = rows[1];
  expected[2][0] = rows[2];
  CHECK(result.value.equal(expected));
  at::Tensor expected_grad = at::zeros_like(rows);
  expected_grad[4] = grad[0][0];
  expected_grad[1] = grad[0][1];
  expected_grad[2] = grad[2][0];
  CHECK(result.row_grads.equal(expected_grad));
  CHECK(result.used == std::vector<int64_t>{0, 1, 1, 0, 1});  // 3 was left out
}

TEST_CASE("what has no row gets no gradient", "[embedding]") {
  const uint32_t kind =
      GENERATE(uint32_t{TENON_POOL_SUM}, uint32_t{TENON_POOL_MAX}, uint32_t{TENON_POOL_FIRST_N});
  const LookupIds ids = ragged({0, 1}, {0, 2});
  const std::vector<uint32_t> positions = positions_of(ids);
  const std::vector<uint8_t> has_row = {1, 0};
  const at::Tensor rows = at::ones({2, kPooledDim});
  std::vector<int32_t> chosen;
  const Pooling pooling{.kind = kind, .length = 2, .dim = kPooledDim};
  const at::Tensor value = pool(pooling, ids, positions, rows.const_data_ptr<float>(), &chosen);
  at::Tensor grads = at::zeros({2, kPooledDim});
  std::vector<int64_t> used(2, 0);
  add_pooled_grad(pooling,
                  ids,
                  positions,
                  has_row,
                  at::ones_like(value),
                  chosen,
                  grads.data_ptr<float>(),
                  used.data());
  CHECK(grads[1].eq(0).all().item<bool>());
  CHECK(used == std::vector<int64_t>{1, 0});
}

}  // namespace
}  // namespace tenon
