// SPDX-License-Identifier: Apache-2.0
//
// tenon::layer_norm against libtorch's operator in fp64.
#include <tenon/torch/ops.hpp>

#include "tests/host/kernels/operator_run.hpp"

namespace tenon {
namespace {

constexpr double kEps = 1e-5;

at::Tensor own_norm(const Tensors& in) {
  return ops::layer_norm(in[0],
                         in[1].defined() ? std::optional(in[1]) : std::nullopt,
                         in[2].defined() ? std::optional(in[2]) : std::nullopt,
                         kEps);
}

at::Tensor layer_norm_of_libtorch(const Tensors& in) {
  return at::layer_norm(in[0], {in[0].size(-1)}, in[1], in[2], kEps);
}

}  // namespace

TEST_CASE("layer_norm of any size is libtorch's, in value and gradient", "[parity]") {
  const auto shape = GENERATE(values<std::vector<int64_t>>(
      {{1, 1}, {7}, {3, 5, 3}, {300, 8}, {129, 37}, {2, 64, 768}, {260, 131}}));
  const bool has_weight = GENERATE(true, false);
  const bool has_bias = GENERATE(true, false);
  CAPTURE(shape, has_weight, has_bias);
  const Tensors in = {made(1, shape).to(at::kFloat).to(at::kDouble),
                      has_weight ? made(2, {shape.back()}) : at::Tensor(),
                      has_bias ? made(3, {shape.back()}) : at::Tensor()};
  const Tensors want = run(layer_norm_of_libtorch, in, at::kDouble);
  // Few near numbers differ by much rounding.
  const bool is_narrow = shape.back() < 4;
  check_near(run(own_norm, in, at::kFloat), want, is_narrow ? 1e-4 : 3e-6);
  check_near(run(own_norm, in, at::kDouble), want, 1e-11);
  if (shape.back() > 1) {  // libtorch's kernel does not keep x - mean = 0
    check_near(run_plain(own_norm, in, at::kFloat), want, is_narrow ? 1e-4 : 3e-6);
  }
}

TEST_CASE("layer_norm's gradients are those of its differences") {
  check_differences(own_norm, {made(1, {3, 5}), made(2, {5}), made(3, {5})});
}

TEST_CASE("layer_norm of a large mean keeps the variance") {
  const at::Tensor x = made(1, {4, 64}) + 1000.0;
  const Tensors in = {x.to(at::kFloat).to(at::kDouble), {}, {}};
  check_near(
      {run(own_norm, in, at::kFloat)[0]}, {run(layer_norm_of_libtorch, in, at::kDouble)[0]}, 1e-4);
}

TEST_CASE("layer_norm takes any strides") {
  const Operator turned = [](const Tensors& in) {
    return own_norm({in[0].transpose(0, 2), in[1], {}});
  };
  const Operator want = [](const Tensors& in) {
    return layer_norm_of_libtorch({in[0].transpose(0, 2), in[1], {}});
  };
  const Tensors in = {made(1, {19, 4, 6}), made(2, {19})};
  check_near(run(turned, in, at::kFloat), run(want, in, at::kDouble), 2e-6);
}

TEST_CASE("layer_norm has the same bits for any number of threads") {
  check_threads(own_norm, {made(1, {1000, 61}), made(2, {61}), made(3, {61})});
}

TEST_CASE("layer_norm of nothing is nothing") {
  const Tensors out = run(own_norm, {made(1, {0, 5}), made(2, {5}), made(3, {5})}, at::kFloat);
  CHECK(out[0].sizes() == at::IntArrayRef({0, 5}));
  CHECK(out[2].abs().sum().item<double>() == 0.0);
}

TEST_CASE("layer_norm says what is wrong") {
  const at::Tensor x = at::ones({2, 3});
  CHECK_THAT(message_of([&] { ops::layer_norm(at::ones({}), {}, {}, kEps); }),
             contains_text("tenon::layer_norm: x has no axes; expected [..., D]"));
  CHECK_THAT(message_of([&] { ops::layer_norm(x, at::ones({4}), {}, kEps); }),
             contains_text("weight"));
  CHECK_THAT(message_of([&] { ops::layer_norm(x, {}, at::ones({4}), kEps); }),
             contains_text("bias"));
  CHECK_THAT(second_derivative_of(
                 [](const Tensors& in) {
                   return own_norm({in[0], {}, {}});
                 },
                 x),
             contains_text("tenon::layer_norm: its gradient has no gradient"));
}

}  // namespace tenon
