// SPDX-License-Identifier: Apache-2.0
#include "host/model/tensor_group.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// Runs a check on the ranks of a tensor group. Returns the results by rank: Catch asserts on one
// thread.
std::vector<int> on_ranks(uint32_t num_ranks, const std::function<bool(TensorGroup&)>& is_right) {
  std::vector<int> results(num_ranks);
  run_ranks({.shard = 1, .tensor = num_ranks}, num_ranks, [&](RankGroups& ranks) {
    TensorGroup group(ranks.tensor());
    results[group.rank()] = is_right(group);
  });
  return results;
}

// The indices of an axis that a rank has, for whole units only.
std::vector<int64_t> indices_of(const ModelSplit& split, int64_t rank, int64_t num_ranks) {
  std::vector<int64_t> indices;
  int64_t first = 0;
  for (size_t i = 0; i < split.parts.size(); ++i) {
    const int64_t length = split.parts[i] / split.units[i];
    for (int64_t unit = 0; unit < split.units[i]; ++unit) {
      const bool has_it = split.units[i] >= num_ranks ? unit / (split.units[i] / num_ranks) == rank
                                                      : rank / (num_ranks / split.units[i]) == unit;
      for (int64_t k = 0; has_it && k < length; ++k) {
        indices.push_back(first + unit * length + k);
      }
    }
    first += split.parts[i];
  }
  return indices;
}

}  // namespace

TEST_CASE("ranks of a tensor group add, gather and scatter tensors", "[model]") {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
    for (const int64_t rows : {0, 1, 3}) {
      const auto of_rank = [&](int64_t rank) {
        return (at::arange(rows * 2).view({rows, 2}) + 10 * rank).to(dtype);
      };
      CHECK(on_ranks(3, [&](TensorGroup& group) {
              at::Tensor sum = of_rank(group.rank());
              group.sum(sum, "a test");
              at::Tensor largest = -of_rank(group.rank());
              group.max(largest, "a test");
              const std::vector<at::Tensor> all = group.gather(of_rank(group.rank()), "a test");
              const at::Tensor own =
                  group.sum_scatter({of_rank(0), of_rank(1), of_rank(2)}, "a test");
              return sum.equal((3 * of_rank(0) + 30).to(dtype)) && largest.equal(-of_rank(0)) &&
                     all.size() == 3 && all[2].equal(of_rank(2)) &&
                     own.equal(3 * of_rank(group.rank()));
            }) == std::vector<int>{1, 1, 1});
    }
  }
}

TEST_CASE("narrow elements are added in fp32 and rounded once", "[model]") {
  CHECK(on_ranks(4, [](TensorGroup& group) {
          // In bf16, 256 + 1 is 256.
          at::Tensor sum = at::full({3}, group.rank() == 0 ? 256 : 1, at::kBFloat16);
          group.sum(sum, "a test");
          return sum.equal(at::full({3}, 260, at::kBFloat16));  // 259 is not a bf16 number
        }) == std::vector<int>(4, 1));
}

TEST_CASE("a value with a split is joined and cut", "[model]") {
  const ModelSplit splits[] = {{.axis = 2, .parts = {12}, .units = {12}},
                               {.axis = 1, .parts = {8}, .units = {4}},
                               {.axis = 2, .parts = {6}, .units = {2}},
                               {.axis = 0, .parts = {8, 4, 2}, .units = {4, 2, 1}}};
  for (const uint32_t num_ranks : {1, 2, 4}) {
    for (const ModelSplit& split : splits) {
      std::vector<int64_t> shape = {3, 2, 5};
      shape[split.axis] = 0;
      for (const int64_t part : split.parts) {
        shape[split.axis] += part;
      }
      const auto axis = static_cast<int64_t>(split.axis);
      const at::Tensor whole =
          at::arange(shape[0] * shape[1] * shape[2], at::kDouble).view(shape) + 1;
      std::vector<at::Tensor> shares(num_ranks);  // of a gradient
      CHECK(on_ranks(num_ranks, [&](TensorGroup& group) {
              const at::Tensor part = group.part(whole, split);
              const at::Tensor indices =
                  at::tensor(indices_of(split, group.rank(), group.size()), at::kLong);
              at::Tensor share = at::zeros(shape, at::kDouble);
              share.index_copy_(axis, indices, group.part_of_gradient(whole, split));
              shares[group.rank()] = share;
              return part.equal(whole.index_select(axis, indices)) &&
                     group.whole(part, split, "a test").equal(whole);
            }) == std::vector<int>(num_ranks, 1));
      CHECK(at::stack(shares).sum(0).equal(whole));
    }
  }
}

TEST_CASE("a new region has the ranks and the name of its block", "[model]") {
  CHECK(on_ranks(2, [](TensorGroup& group) {
          const TensorRegionPtr region = group.new_region("layers.3");
          return region->ranks == &group && region->block == "layers.3" && !region->has_pieces();
        }) == std::vector<int>{1, 1});
}

}  // namespace tenon
