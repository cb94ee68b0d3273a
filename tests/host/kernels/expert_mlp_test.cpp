// SPDX-License-Identifier: Apache-2.0
//
// tenon::expert_mlp against its formula in fp64: every expert for every token, weighted by a
// one-hot sum.
#include <tenon/torch/ops.hpp>

#include "tests/host/kernels/operator_run.hpp"

namespace tenon {
namespace {

struct ExpertSizes {
  int64_t N, D, F, D2, X, k;
};

// Distinct experts for each token. Experts past `used` have no tokens.
at::Tensor expert_choices(const ExpertSizes& s, int64_t used) {
  return (at::arange(s.N, at::kLong).unsqueeze(1) * 7 + at::arange(s.k, at::kLong)).remainder(used);
}

Tensors expert_operands(const ExpertSizes& s) {
  return {made(1, {s.N, s.D}),
          made(2, {s.X, s.F, s.D}) * 0.4,
          made(3, {s.X, s.F, s.D}) * 0.4,
          made(4, {s.X, s.D2, s.F}) * 0.4,
          made(5, {s.N, s.k})};
}

Operator experts_of(const at::Tensor& chosen, const char* activation = "silu") {
  return [chosen, activation](const Tensors& in) {
    return ops::expert_mlp(in[0], in[1], in[2], in[3], chosen, in[4], activation);
  };
}

Operator experts_by_formula(const at::Tensor& chosen, const char* activation = "silu") {
  return [chosen, activation](const Tensors& in) {
    at::Tensor y;
    for (int64_t i = 0; i < in[1].size(0); ++i) {
      const at::Tensor gate = at::matmul(in[0], in[1][i].t());
      const at::Tensor fed = (std::string(activation) == "silu" ? at::silu(gate) : at::gelu(gate)) *
                             at::matmul(in[0], in[2][i].t());
      const at::Tensor weight = (in[4] * chosen.eq(i).to(in[4].scalar_type())).sum(1).unsqueeze(1);
      const at::Tensor part = at::matmul(fed, in[3][i].t()) * weight;
      y = y.defined() ? y + part : part;
    }
    return y;
  };
}

}  // namespace

TEST_CASE("expert_mlp of any size is its formula, in value and gradient", "[parity]") {
  const ExpertSizes s = GENERATE(ExpertSizes{1, 1, 1, 1, 1, 1},
                                 ExpertSizes{5, 7, 3, 6, 4, 2},
                                 ExpertSizes{37, 17, 13, 17, 5, 3},
                                 ExpertSizes{130, 40, 33, 24, 8, 2},
                                 ExpertSizes{64, 16, 24, 16, 3, 3});
  CAPTURE(s.N, s.D, s.F, s.D2, s.X, s.k);
  const at::Tensor chosen = expert_choices(s, s.X);
  const Tensors want = run(experts_by_formula(chosen), expert_operands(s), at::kDouble);
  check_near(run(experts_of(chosen), expert_operands(s), at::kFloat), want, 2e-6);
  check_near(
      run_plain(experts_of(chosen.to(at::kInt)), expert_operands(s), at::kFloat), want, 2e-6);
  check_near(run(experts_of(chosen), expert_operands(s), at::kDouble), want, 1e-13);
}

TEST_CASE("expert_mlp gives experts without tokens no gradient", "[parity]") {
  const ExpertSizes s{11, 6, 5, 6, 7, 2};
  const at::Tensor chosen = expert_choices(s, 3);
  const Tensors want = run(experts_by_formula(chosen), expert_operands(s), at::kDouble);
  const Tensors found = run(experts_of(chosen), expert_operands(s), at::kFloat);
  check_near(found, want, 2e-6);
  CHECK(found[2].narrow(0, 3, 4).abs().max().item<double>() == 0.0);
}

TEST_CASE("expert_mlp has other activations, and a token may have an expert twice", "[parity]") {
  const ExpertSizes s{9, 6, 5, 4, 3, 2};
  at::Tensor chosen = expert_choices(s, 3);
  chosen.select(1, 1).copy_(chosen.select(1, 0));
  for (const char* const activation : {"silu", "gelu"}) {
    const Tensors want =
        run(experts_by_formula(chosen, activation), expert_operands(s), at::kDouble);
    check_near(run(experts_of(chosen, activation), expert_operands(s), at::kFloat), want, 2e-6);
  }
}

TEST_CASE("expert_mlp's gradients are those of its differences") {
  const ExpertSizes s{4, 3, 2, 3, 3, 2};
  check_differences(experts_of(expert_choices(s, 3)), expert_operands(s));
}

TEST_CASE("expert_mlp has the same bits for any number of threads") {
  const ExpertSizes s{300, 40, 24, 40, 6, 2};
  check_threads(experts_of(expert_choices(s, 6)), expert_operands(s));
}

TEST_CASE("expert_mlp of no tokens is nothing") {
  register_operators();
  const at::Tensor y = ops::expert_mlp(at::ones({0, 3}),
                                       at::ones({2, 4, 3}),
                                       at::ones({2, 4, 3}),
                                       at::ones({2, 5, 4}),
                                       at::zeros({0, 2}, at::kLong),
                                       at::ones({0, 2}));
  CHECK(y.sizes() == at::IntArrayRef({0, 5}));
}

TEST_CASE("expert_mlp says what is wrong") {
  const ExpertSizes s{4, 3, 2, 3, 3, 2};
  const auto text_for = [&](const at::Tensor& chosen, size_t which, const at::Tensor& wrong) {
    Tensors in = expert_operands(s);
    if (wrong.defined()) {
      in[which] = wrong;
    }
    return message_of([&] { experts_of(chosen)(in); });
  };
  const at::Tensor chosen = expert_choices(s, 3);
  CHECK_THAT(text_for(chosen, 0, at::ones({4, 5})),
             contains_text("tenon::expert_mlp: x [4, 5], gate [3, 2, 3]") &&
                 contains_text("must be [N, D], [X, F, D], [X, F, D] and [X, D2, F]"));
  CHECK_THAT(text_for(chosen, 4, at::ones({4, 3})),
             contains_text("experts [4, 2] of Long and weights [4, 3] must be [N, k]"));
  CHECK_THAT(text_for(at::ones({4, 2}), 0, {}), contains_text("with integers for experts"));
  at::Tensor wrong = chosen.clone();
  wrong[2][1] = 3;
  CHECK_THAT(text_for(wrong, 0, {}),
             contains_text("tenon::expert_mlp: expert 3 at [2, 1] is not in [0, 3)"));
  CHECK_THAT(message_of([&] { experts_of(chosen, "sine")(expert_operands(s)); }),
             contains_text("'sine' is not an activation"));
  const Operator of_x = [&](const Tensors& in) {
    const Tensors all = expert_operands(s);
    return ops::expert_mlp(in[0],
                           all[1].to(at::kFloat),
                           all[2].to(at::kFloat),
                           all[3].to(at::kFloat),
                           chosen,
                           all[4].to(at::kFloat));
  };
  CHECK_THAT(second_derivative_of(of_x, at::ones({4, 3})),
             contains_text("tenon::expert_mlp: its gradient has no gradient"));
}

}  // namespace tenon
