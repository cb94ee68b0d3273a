// SPDX-License-Identifier: Apache-2.0
//
// tenon::embedding against libtorch's operator.
#include <tenon/torch/ops.hpp>

#include <cmath>

#include "tests/host/kernels/operator_run.hpp"

namespace tenon {
namespace {

Operator rows_of(const at::Tensor& ids) {
  return [ids](const Tensors& in) { return ops::embedding(in[0], ids); };
}

Operator rows_of_libtorch(const at::Tensor& ids) {
  return [ids](const Tensors& in) { return at::embedding(in[0], ids.to(at::kLong)); };
}

// Few ids many times, most of them never.
at::Tensor some_ids(const std::vector<int64_t>& shape, int64_t num_rows) {
  const at::Tensor u = made(5, shape).abs().clamp_max(2.99) / 3.0;
  return (u.pow(4) * static_cast<double>(num_rows)).to(at::kLong);
}

}  // namespace

TEST_CASE("embedding of any size is libtorch's, in value and gradient", "[parity]") {
  struct Sizes {
    int64_t rows;
    int64_t width;
    std::vector<int64_t> ids;
  };
  const auto s = GENERATE(values<Sizes>({{1, 1, {3}},
                                         {5, 7, {2, 4}},
                                         {1000, 33, {700}},
                                         {50, 130, {3, 5, 7}},
                                         {4000, 64, {2, 300}},
                                         {9, 3, {}}}));
  CAPTURE(s.rows, s.width, s.ids);
  const at::Tensor ids = some_ids(s.ids, s.rows);
  const Tensors in = {made(1, {s.rows, s.width})};
  const Tensors want = run(rows_of_libtorch(ids), in, at::kDouble);
  for (const at::ScalarType dtype : {at::kLong, at::kInt, at::kShort}) {
    check_near(run(rows_of(ids.to(dtype)), in, at::kFloat), want, 1e-6);
  }
  check_near(run_plain(rows_of(ids), in, at::kFloat), want, 1e-6);
  check_near(run(rows_of(ids), in, at::kDouble), want, 1e-14);
}

TEST_CASE("embedding's gradient sums each row in the order of its positions") {
  const at::Tensor ids = some_ids({300}, 20);
  const at::Tensor found = run(rows_of(ids), {made(1, {20, 37})}, at::kFloat)[1];
  const at::Tensor seed = made(99, {300, 37}).to(at::kFloat);
  at::Tensor want = at::zeros({20, 37});
  for (int64_t i = 0; i < 300; ++i) {
    want[ids[i].item<int64_t>()] += seed[i];
  }
  CHECK(at::equal(found, want));
}

TEST_CASE("embedding's gradients are those of its differences") {
  check_differences(rows_of(at::tensor({3, 0, 3, 1}, at::kLong)), {made(1, {5, 3})});
}

TEST_CASE("embedding takes any strides") {
  const at::Tensor ids = some_ids({6, 5}, 40).t();
  const Operator turned = [&](const Tensors& in) { return ops::embedding(in[0].t(), ids); };
  const Operator want = [&](const Tensors& in) { return at::embedding(in[0].t(), ids); };
  check_near(run(turned, {made(1, {9, 40})}, at::kFloat),
             run(want, {made(1, {9, 40})}, at::kDouble),
             2e-7);
}

TEST_CASE("embedding has the same bits for any number of threads") {
  check_threads(rows_of(some_ids({4, 500}, 3000)), {made(1, {3000, 61})});
}

TEST_CASE("embedding of no ids is empty, and has gradient 0") {
  const at::Tensor none = at::zeros({2, 0}, at::kLong);
  const Tensors out = run(rows_of(none), {made(1, {5, 3})}, at::kFloat);
  CHECK(out[0].sizes() == at::IntArrayRef({2, 0, 3}));
  CHECK(at::equal(out[1], at::zeros({5, 3})));
  CHECK(run(rows_of(at::zeros({2}, at::kLong)), {made(1, {5, 0})}, at::kFloat)[0].sizes() ==
        at::IntArrayRef({2, 0}));
}

TEST_CASE("embedding says what is wrong") {
  const at::Tensor weight = at::ones({5, 3});
  at::Tensor ids = at::zeros({2, 4}, at::kLong);
  ids[0][3] = 7;
  const auto look_up = [&] { ops::embedding(weight, ids); };
  register_operators();
  CHECK_THROWS_AS(look_up(), c10::IndexError);
  CHECK_THAT(message_of(look_up),
             contains_text("id 7 at position 3 of ids [2, 4] is not in [0, 5)"));
  ids[0][2] = -1;
  CHECK_THAT(message_of(look_up), contains_text("id -1 at position 2 of ids [2, 4]"));
  {
    const PolicyScope plain(all_kernels("plain"));
    CHECK_THAT(message_of(look_up), contains_text("id -1 at position 2"));
  }
  CHECK_THAT(message_of([&] { ops::embedding(at::ones({5}), ids); }),
             contains_text("weight [5] is not a matrix; expected [V, D]"));
  CHECK_THAT(message_of([&] { ops::embedding(weight, at::ones({2})); }),
             contains_text("ids are Float; expected integers"));
  CHECK_THAT(message_of([&] { ops::embedding(weight, at::ones({2}, at::kBool)); }),
             contains_text("ids are Bool; expected integers"));
  const at::Tensor zeros = at::zeros({2}, at::kLong);
  CHECK_THAT(second_derivative_of(rows_of(zeros), weight),
             contains_text("tenon::embedding: its gradient has no gradient"));
}

}  // namespace tenon
