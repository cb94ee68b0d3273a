// SPDX-License-Identifier: Apache-2.0
//
// tenon::rope against its formula in fp64.
#include <tenon/torch/ops.hpp>

#include "tests/host/kernels/operator_run.hpp"

namespace tenon {
namespace {

at::Tensor table_of(int64_t positions, int64_t half) {
  const at::Tensor angles = made(7, {positions, half}) * 3.0;
  return at::stack({angles.cos(), angles.sin()});
}

Operator rotation(const at::Tensor& table) {
  return [table](const Tensors& in) { return ops::rope(in[0], table.to(in[0].scalar_type())); };
}

// With complex numbers: another way to the same.
Operator rotation_by_formula(const at::Tensor& table) {
  return [table](const Tensors& in) {
    const at::Tensor turn =
        at::complex(table[0], table[1]).narrow(0, 0, in[0].size(1)).unsqueeze(1);
    const std::vector<at::Tensor> half = in[0].chunk(2, -1);
    const at::Tensor turned = at::complex(half[0], half[1]) * turn;
    return at::cat({at::real(turned), at::imag(turned)}, -1);
  };
}

}  // namespace

TEST_CASE("rope of any size is its formula, in value and gradient", "[parity]") {
  const auto shape = GENERATE(values<std::vector<int64_t>>(
      {{1, 1, 1, 2}, {2, 5, 3, 6}, {1, 33, 2, 40}, {3, 17, 4, 64}, {2, 130, 5, 26}}));
  CAPTURE(shape);
  const at::Tensor table = table_of(shape[1] + 3, shape[3] / 2);
  const Tensors want = run(rotation_by_formula(table), {made(1, shape)}, at::kDouble);
  check_near(run(rotation(table), {made(1, shape)}, at::kFloat), want, 3e-7);
  check_near(run_plain(rotation(table), {made(1, shape)}, at::kFloat), want, 3e-7);
}

TEST_CASE("rope takes any strides of its tensors and gradients") {
  const at::Tensor table = table_of(9, 5);
  for (const std::vector<int64_t>& order :
       std::vector<std::vector<int64_t>>{{0, 2, 1, 3}, {2, 1, 0, 3}, {3, 1, 2, 0}, {1, 0, 3, 2}}) {
    CAPTURE(order);
    std::vector<int64_t> shape = {0, 0, 0, 0};
    const std::vector<int64_t> of_x = {2, 9, 3, 10};
    for (size_t i = 0; i < 4; ++i) {
      shape[static_cast<size_t>(order[i])] = of_x[i];
    }
    // The gradient comes back in the order of the input, through another permutation.
    const auto through = [&](const Operator& op) {
      return [&order, op](const Tensors& in) {
        return op({in[0].permute(order)}).permute({3, 2, 0, 1});
      };
    };
    const Tensors want = run(through(rotation_by_formula(table)), {made(1, shape)}, at::kDouble);
    check_near(run(through(rotation(table)), {made(1, shape)}, at::kFloat), want, 3e-7);
  }
  const at::Tensor strided = table_of(9, 5).to(at::kFloat).transpose(1, 2).contiguous();
  const Tensors x = {made(1, {2, 9, 3, 10})};
  check_equal(run(rotation(strided.transpose(1, 2)), x, at::kFloat),
              run(rotation(table), x, at::kFloat));
}

TEST_CASE("rope's gradients are those of its differences") {
  const Operator both = [](const Tensors& in) { return ops::rope(in[0], in[1]); };
  check_differences(both, {made(1, {1, 2, 2, 4}), table_of(3, 2)});
}

TEST_CASE("rope of a part of heads at given positions is its formula") {
  const at::Tensor table = table_of(50, 5);
  const at::Tensor positions = (at::arange(34, at::kLong) * 7).remainder(50).view({2, 17});
  const Tensors x = {made(1, {2, 17, 3, 23})};
  const Operator by_formula = [&](const Tensors& in) {
    Tensors samples;
    for (int64_t b = 0; b < 2; ++b) {
      const at::Tensor rows = table.index_select(1, positions[b]);
      const at::Tensor turned = rotation_by_formula(rows)({in[0][b].unsqueeze(0).narrow(3, 0, 10)});
      samples.push_back(at::cat({turned, in[0][b].unsqueeze(0).narrow(3, 10, 13)}, 3));
    }
    return at::cat(samples);
  };
  const Operator rotate = [&](const Tensors& in) {
    return ops::rope(in[0], table.to(in[0].scalar_type()), positions.to(at::kInt));
  };
  const Tensors want = run(by_formula, x, at::kDouble);
  check_near(run(rotate, x, at::kDouble), want, 1e-14);
  check_near(run(rotate, x, at::kFloat), want, 3e-7);
  check_near(run_plain(rotate, x, at::kFloat), want, 3e-7);
}

TEST_CASE("rope gives a table its gradient") {
  const Operator both = [](const Tensors& in) { return ops::rope(in[0], in[1]); };
  const Tensors in = {made(1, {2, 3, 2, 4}), table_of(3, 2)};
  check_near(run(both, in, at::kFloat), run(both, in, at::kDouble), 1e-6);
}

TEST_CASE("rope has the same bits for any number of threads") {
  check_threads(rotation(table_of(300, 13)), {made(1, {3, 300, 5, 26})});
}

TEST_CASE("rope of nothing is nothing") {
  const Tensors out = run(rotation(table_of(3, 2)), {made(1, {0, 3, 2, 4})}, at::kFloat);
  CHECK(out[0].sizes() == at::IntArrayRef({0, 3, 2, 4}));
}

TEST_CASE("rope says what is wrong") {
  const at::Tensor x = at::ones({1, 4, 2, 6});
  const auto text_for = [&](const at::Tensor& of, const std::vector<int64_t>& table) {
    return message_of([&] { ops::rope(of, at::ones(table)); });
  };
  CHECK_THAT(text_for(x, {2, 3, 3}),
             contains_text("tenon::rope: x is [1, 4, 2, 6] and the table [2, 3, 3]; expected"));
  CHECK_THAT(text_for(x, {2, 4, 4}), contains_text("at most E/2"));
  CHECK_THAT(text_for(x, {3, 4, 3}), contains_text("at most E/2"));
  CHECK_THAT(text_for(at::ones({1, 4, 2, 5}), {2, 4, 3}), contains_text("at most E/2"));
  CHECK_THAT(text_for(at::ones({4, 2, 6}), {2, 4, 3}), contains_text("at most E/2"));
  const auto text_at = [&](const at::Tensor& positions) {
    return message_of([&] { ops::rope(x, at::ones({2, 4, 3}), positions); });
  };
  CHECK_THAT(text_at(at::full({1, 4}, 4, at::kLong)),
             contains_text("tenon::rope: position 4 at [0, 0] is not in [0, 4)"));
  CHECK_THAT(text_at(at::tensor({0, 1, -1, 2}, at::kLong).view({1, 4})),
             contains_text("position -1 at [0, 2]"));
  CHECK_THAT(text_at(at::zeros({1, 4})), contains_text("integers"));
  const Operator rotate = [](const Tensors& in) { return ops::rope(in[0], at::ones({2, 4, 3})); };
  CHECK_THAT(second_derivative_of(rotate, x), contains_text("tenon::rope: its gradient has no"));
}

}  // namespace tenon
