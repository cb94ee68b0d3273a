// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/flat_group.hpp"

#include <ATen/Functions.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

FlatGroup make_group() {
  return FlatGroup("block",
                   at::kFloat,
                   at::kCPU,
                   {{.id = 0, .partition = 1, .trainable = true, .shape = {3}},
                    {.id = 1, .partition = 0, .trainable = true, .shape = {2, 5}},
                    {.id = 2, .partition = 0, .trainable = false, .shape = {4}},
                    {.id = 3, .partition = 0, .trainable = true, .shape = {}}});
}

}  // namespace

TEST_CASE("parameters lie by partition on 64-byte boundaries, frozen ones last", "[tensor]") {
  const FlatGroup group = make_group();
  std::vector<uint32_t> order;
  for (const FlatEntry& entry : group.entries()) {
    order.push_back(entry.parameter.id);
    CHECK(entry.offset * 4 % 64 == 0);
  }
  CHECK(order == std::vector<uint32_t>{1, 3, 0, 2});
  CHECK(group.data().numel() == 64);
  CHECK(group.grad().numel() == 48);  // none for the frozen one
  const auto ranges = group.ranges();
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].partition == 0);
  CHECK(ranges[0].begin == 0);
  CHECK(ranges[0].end == 32);
  CHECK(ranges[1].partition == 1);
  CHECK(ranges[1].end == 48);
}

TEST_CASE("gradients add up, gaps stay zero, and clearing forgets what was touched", "[tensor]") {
  FlatGroup group = make_group();
  CHECK_FALSE(group.any_touched());
  group.add_grad(0, at::ones({2, 5}));
  group.add_grad(0, at::ones({2, 5}));
  CHECK(group.entries()[0].touched);
  CHECK_FALSE(group.entries()[1].touched);
  CHECK(at::equal(group.grad_view(0), at::full({2, 5}, 2.0)));
  CHECK(group.grad().sum().item<float>() == 20);
  group.clear_grads();
  CHECK_FALSE(group.any_touched());
  group.settle_grads();
  CHECK(group.grad().abs().sum().item<float>() == 0);
}

TEST_CASE("a gradient of an earlier step is overwritten, or gone where none came", "[tensor]") {
  FlatGroup group = make_group();
  group.add_grad(0, at::full({2, 5}, 3.0));
  group.add_grad(2, at::full({3}, 3.0));
  group.settle_grads();
  group.clear_grads();
  group.clear_grads();  // of a step without any gradient
  group.add_grad(2, at::ones({3}));
  group.settle_grads();
  CHECK(at::equal(group.grad_view(2), at::ones({3})));
  CHECK_FALSE(group.entries()[0].touched);
  CHECK(group.grad().sum().item<float>() == 3);
}

TEST_CASE("gradients of every layout, dtype and size are taken over alike", "[tensor]") {
  for (const int64_t rows : {3, 300}) {  // below and above what is copied at once
    FlatGroup group("block", at::kFloat, at::kCPU, {{.id = 0, .shape = {rows, 200}}});
    const at::Tensor grad = at::arange(rows * 200, at::kFloat).view({rows, 200});
    for (const at::Tensor& same :
         {grad, grad.t().contiguous().t(), grad.to(at::kDouble), grad.neg()._neg_view()}) {
      group.add_grad(0, same);
      CHECK(at::equal(group.grad_view(0), grad));
      group.clear_grads();
    }
  }
}

TEST_CASE("views share the buffer's memory", "[tensor]") {
  FlatGroup group = make_group();
  group.data_view(2).fill_(7);
  CHECK(group.data()[32].item<float>() == 7);
  CHECK(group.data().sum().item<float>() == 21);
}

TEST_CASE("what blocks see is a rounded copy where it is narrower than what is stored",
          "[tensor]") {
  FlatGroup group("block",
                  at::kFloat,
                  at::kCPU,
                  {{.id = 0, .shape = {3}}, {.id = 1, .shape = {40}}},
                  at::kBFloat16);
  REQUIRE(group.has_copy());
  CHECK(group.entries()[1].offset * 2 % 64 == 0);  // also in the narrow buffer
  const at::Tensor seen = group.seen_view(0);
  CHECK(seen.scalar_type() == at::kBFloat16);
  group.data_view(0).fill_(1.001);
  CHECK(seen[0].item<float>() == 0);
  group.publish();
  CHECK(seen[0].item<float>() == 1);  // 1.001, rounded
  CHECK(group.data_view(0)[0].item<float>() == 1.001F);
  group.add_grad(0, at::full({3}, 0.5, at::kBFloat16));
  CHECK(group.grad_view(0).scalar_type() == at::kFloat);

  FlatGroup same("block", at::kFloat, at::kCPU, {{.id = 0, .shape = {3}}}, at::kFloat);
  CHECK_FALSE(same.has_copy());
  CHECK(same.seen_view(0).is_alias_of(same.data()));
}

}  // namespace tenon
