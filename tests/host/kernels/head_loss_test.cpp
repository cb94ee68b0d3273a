// SPDX-License-Identifier: Apache-2.0
//
// tenon::cross_entropy and tenon::token_logps against the formula on all logits in fp64.
#include <tenon/torch/ops.hpp>

#include <ATen/autocast_mode.h>

#include <limits>

#include "tests/host/kernels/operator_run.hpp"

namespace tenon {
namespace {

using ops::CrossEntropy;

std::optional<at::Tensor> optional(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

// Inputs: x, weight, bias.
Operator loss(const at::Tensor& labels, const CrossEntropy& o) {
  return [labels, o](const Tensors& in) {
    return ops::cross_entropy(in[0], in[1], labels, optional(in[2]), o);
  };
}

Operator loss_by_formula(const at::Tensor& labels, const CrossEntropy& o) {
  return [labels, o](const Tensors& in) {
    const at::Tensor logits = at::linear(in[0], in[1], optional(in[2]));
    const at::Tensor counted = labels.ne(o.ignore_index);
    const at::Tensor z = logits.logsumexp(-1);
    const at::Tensor at_label = logits.gather(-1, (labels * counted).unsqueeze(-1)).squeeze(-1);
    const double s = o.label_smoothing;
    return (z - (1.0 - s) * at_label - s * logits.mean(-1) + o.z_loss * z.square()) * counted;
  };
}

Operator logps(const at::Tensor& labels, double temperature) {
  return [labels, temperature](const Tensors& in) {
    return ops::token_logps(in[0], in[1], labels, optional(in[2]), -100, temperature);
  };
}

Operator logps_by_formula(const at::Tensor& labels, double temperature) {
  return [labels, temperature](const Tensors& in) {
    const at::Tensor logits = at::linear(in[0], in[1], optional(in[2])) / temperature;
    const at::Tensor counted = labels.ne(-100);
    return logits.log_softmax(-1).gather(-1, (labels * counted).unsqueeze(-1)).squeeze(-1) *
           counted;
  };
}

// Each seventh label is `ignored`.
at::Tensor some_labels(const std::vector<int64_t>& shape, int64_t num_classes, int64_t ignored) {
  const at::Tensor any =
      at::randint(num_classes, shape, at::detail::createCPUGenerator(4), at::dtype(at::kLong));
  const at::Tensor index = at::arange(any.numel(), at::kLong).view(any.sizes());
  return any.masked_fill(index.remainder(7).eq(3), ignored);
}

struct Sizes {
  std::vector<int64_t> labels;
  int64_t width;
  int64_t classes;

  Tensors inputs(bool has_bias) const {
    std::vector<int64_t> shape = labels;
    shape.push_back(width);
    return {
        made(1, shape), made(2, {classes, width}), has_bias ? made(3, {classes}) : at::Tensor()};
  }
};

// One tile; tiles of classes; tiles of rows and classes.
const std::vector<Sizes>& all_sizes() {
  static const std::vector<Sizes> kSizes = {
      {{3}, 5, 2}, {{2, 9}, 13, 37}, {{}, 4, 6}, {{40}, 9, 30011}, {{3, 700}, 17, 1100}};
  return kSizes;
}

const std::vector<CrossEntropy>& all_options() {
  static const std::vector<CrossEntropy> kOptions = {
      {}, {-1, 0.1, 0.0}, {-100, 0.0, 1e-2}, {0, 0.3, 1e-3}, {-100, 1.0, 0.0}};
  return kOptions;
}

}  // namespace

TEST_CASE("cross_entropy of any size is the formula's, in value and gradient", "[parity]") {
  const Sizes s = GENERATE(from_range(all_sizes()));
  const CrossEntropy o = GENERATE(from_range(all_options()));
  const bool has_bias = o.z_loss == 0.0;
  CAPTURE(s.labels, s.width, s.classes, o.ignore_index, o.label_smoothing, o.z_loss);
  const at::Tensor labels = some_labels(s.labels, s.classes, o.ignore_index);
  const Tensors in = s.inputs(has_bias);
  const Tensors want = run(loss_by_formula(labels, o), in, at::kDouble);
  check_near(run(loss(labels, o), in, at::kFloat), want, 1e-5);
  check_near(run_plain(loss(labels, o), in, at::kFloat), want, 1e-5);
  check_near(run(loss(labels, o), in, at::kDouble), want, 1e-12);
}

TEST_CASE("token_logps of any size is the formula's, in value and gradient", "[parity]") {
  const Sizes s = GENERATE(from_range(all_sizes()));
  const double temperature = GENERATE(1.0, 0.7, 2.0);
  CAPTURE(s.labels, s.width, s.classes, temperature);
  const at::Tensor labels = some_labels(s.labels, s.classes, -100);
  const Tensors in = s.inputs(temperature != 2.0);
  const Tensors want = run(logps_by_formula(labels, temperature), in, at::kDouble);
  check_near(run(logps(labels, temperature), in, at::kFloat), want, 1e-5);
  check_near(run_plain(logps(labels, temperature), in, at::kFloat), want, 1e-5);
  check_near(run(logps(labels, temperature), in, at::kDouble), want, 1e-12);
}

TEST_CASE("rows without a label may be left out of a head loss", "[parity]") {
  const Sizes s = GENERATE(from_range(all_sizes()));
  const int64_t period = GENERATE(2, 3, 100);  // of labels that count
  CAPTURE(s.labels, s.width, s.classes, period);
  const at::Tensor all = some_labels(s.labels, s.classes, -100);
  const at::Tensor index = at::arange(all.numel(), at::kLong).view(all.sizes());
  const at::Tensor labels = all.masked_fill(index.remainder(period).ne(1), -100);
  const Tensors in = s.inputs(period == 2);
  const Tensors want = run(loss_by_formula(labels, {-100, 0.2, 1e-2}), in, at::kDouble);
  check_near(run(loss(labels, {-100, 0.2, 1e-2}), in, at::kFloat), want, 1e-5);
  check_near(run_plain(loss(labels, {-100, 0.2, 1e-2}), in, at::kFloat), want, 1e-5);
  check_near(run(loss(labels, {-100, 0.2, 1e-2}), in, at::kDouble), want, 1e-12);
  check_near(run(logps(labels, 0.7), in, at::kDouble),
             run(logps_by_formula(labels, 0.7), in, at::kDouble),
             1e-12);
}

TEST_CASE("what a row without a label holds has no part in the gradients of others") {
  const int64_t N = 200;  // only the first rows are computed
  const at::Tensor labels = at::full({N}, -100, at::kLong);
  labels.narrow(0, 0, 20).fill_(3);
  const at::Tensor x = at::ones({N, 4}).requires_grad_();
  const at::Tensor weight = at::ones({5, 4}).requires_grad_();
  {
    const at::AutoGradMode no_grad(false);
    x.narrow(0, 100, 100).fill_(std::numeric_limits<float>::quiet_NaN());
  }
  register_operators();
  for (const KernelPolicy& kernels : {KernelPolicy(), all_kernels("plain")}) {
    const PolicyScope policy(kernels);
    const auto grads =
        torch::autograd::grad({ops::cross_entropy(x, weight, labels).sum()}, {x, weight});
    CHECK(grads[0].isfinite().all().item<bool>());
    CHECK(grads[0].narrow(0, 20, N - 20).count_nonzero().item<int64_t>() == 0);
    CHECK(grads[1].isfinite().all().item<bool>());
  }
}

TEST_CASE("gradients of head losses are those of their differences") {
  const Sizes s{{2, 3}, 4, 5};
  const at::Tensor labels = some_labels(s.labels, s.classes, -100);
  check_differences(loss(labels, {-100, 0.2, 1e-2}), s.inputs(true));
  check_differences(logps(labels, 0.6), s.inputs(true));
}

TEST_CASE("head losses of bf16 are near those of fp32, in fp32") {
  const Sizes s{{2, 300}, 16, 4000};
  const at::Tensor labels = some_labels(s.labels, s.classes, -100);
  Tensors in = s.inputs(true);
  for (at::Tensor& x : in) {
    x = x.to(at::kBFloat16).to(at::kDouble);
  }
  const Tensors want = run(loss_by_formula(labels, {}), in, at::kDouble);
  const Tensors found = run(loss(labels, {}), in, at::kBFloat16);
  CHECK(found[0].scalar_type() == at::kFloat);
  CHECK(found[1].scalar_type() == at::kBFloat16);
  check_near(found, want, 1e-2);
}

TEST_CASE("head losses under autocast compute narrow logits and wide losses") {
  const Sizes s{{60}, 16, 500};
  const at::Tensor labels = some_labels(s.labels, s.classes, -100);
  const Tensors want = run(loss_by_formula(labels, {}), s.inputs(true), at::kDouble);
  const Operator narrow = [&](const Tensors& in) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    const at::Tensor y = loss(labels, {})(in);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
    return y;
  };
  const Tensors found = run(narrow, s.inputs(true), at::kFloat);
  CHECK(found[0].scalar_type() == at::kFloat);
  CHECK(found[2].scalar_type() == at::kFloat);
  check_near(found, want, 2e-2);
}

TEST_CASE("head losses take any strides and integers") {
  const at::Tensor labels = some_labels({6, 5}, 9, -100).t().to(at::kInt);
  const Operator turned = [&](const Tensors& in) {
    return ops::cross_entropy(in[0].transpose(0, 2), in[1].t(), labels).t();
  };
  const Operator want = [&](const Tensors& in) {
    return loss_by_formula(labels.to(at::kLong), {})({in[0].transpose(0, 2), in[1].t(), {}}).t();
  };
  const Tensors in = {made(1, {7, 6, 5}), made(2, {7, 9})};
  check_near(run(turned, in, at::kFloat), run(want, in, at::kDouble), 3e-6);
}

TEST_CASE("a head's gradients can be asked for one by one") {
  const Sizes s{{70}, 9, 200};
  const at::Tensor labels = some_labels(s.labels, s.classes, -100);
  const Tensors in = s.inputs(true);
  const Tensors all = run(loss(labels, {}), in, at::kFloat);
  for (size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Operator of_one = [&](const Tensors& one) {
      Tensors parts = {in[0].to(at::kFloat), in[1].to(at::kFloat), in[2].to(at::kFloat)};
      parts[i] = one[0];
      return loss(labels, {})(parts);
    };
    const Tensors found = run(of_one, {in[i]}, at::kFloat);
    if (i == 0) {  // the gradient by x alone is summed in another order
      check_equal({found[0]}, {all[0]});
      check_near({found[1]}, {all[1]}, 1e-6);
    } else {
      check_equal(found, {all[0], all[1 + i]});
    }
  }
}

TEST_CASE("a head that is not trained gives the gradient by x of a trained one", "[parity]") {
  const bool has_bias = GENERATE(false, true);
  for (const Sizes& s : all_sizes()) {
    const Tensors in = s.inputs(has_bias);
    for (const CrossEntropy& options : all_options()) {
      const at::Tensor labels = some_labels(s.labels, s.classes, options.ignore_index);
      CAPTURE(s.labels, s.classes, options.label_smoothing, options.z_loss);
      const auto of_x = [&](const Operator& op, at::ScalarType dtype) {
        const Operator frozen = [&](const Tensors& x) {
          const auto as_is = [&](const at::Tensor& t) { return t.defined() ? t.to(dtype) : t; };
          return op({x[0], as_is(in[1]), as_is(in[2])});
        };
        return run(frozen, {in[0]}, dtype);
      };
      check_near(of_x(loss(labels, options), at::kFloat),
                 of_x(loss_by_formula(labels, options), at::kDouble),
                 1e-5);
    }
  }
}

TEST_CASE("head losses have the same bits for any number of threads") {
  const Sizes s{{3, 800}, 61, 1300};
  const at::Tensor labels = some_labels(s.labels, s.classes, -100);
  check_threads(loss(labels, {-100, 0.1, 1e-3}), s.inputs(true));
  check_threads(logps(labels, 0.7), s.inputs(true));
}

TEST_CASE("classes that a bias excludes have no part in a head loss") {
  const Sizes s{{400}, 8, 9000};
  const at::Tensor labels = some_labels(s.labels, 1000, -100);
  Tensors in = s.inputs(true);
  in[2].narrow(0, 0, 6000).fill_(-std::numeric_limits<double>::infinity());
  at::Tensor shown = labels.masked_fill(labels.ne(-100), 0) + labels.ne(-100) * 6500;
  const Tensors rest = {in[0], in[1].narrow(0, 6000, 3000), in[2].narrow(0, 6000, 3000)};
  const at::Tensor shifted = shown - shown.ne(-100) * 6000;
  const Tensors want = run(loss_by_formula(shifted, {}), rest, at::kDouble);
  for (const bool is_plain : {false, true}) {
    const Tensors found = is_plain ? run_plain(loss(shown, {}), in, at::kFloat)
                                   : run(loss(shown, {}), in, at::kFloat);
    check_near({found[0], found[1], found[2].narrow(0, 6000, 3000), found[3].narrow(0, 6000, 3000)},
               want,
               3e-6);
    CHECK(found[2].narrow(0, 0, 6000).abs().sum().item<double>() == 0.0);
  }
}

TEST_CASE("a head loss of NaN is NaN, except where the label is ignored") {
  at::Tensor x = at::ones({3, 4});
  x[1][2] = std::numeric_limits<float>::quiet_NaN();
  const auto losses = [&](int64_t label) -> at::Tensor {
    register_operators();
    return ops::cross_entropy(x, at::ones({5, 4}), at::tensor({int64_t{1}, label, int64_t{2}}));
  };
  for (const KernelPolicy& kernels : {KernelPolicy(), all_kernels("plain")}) {
    const PolicyScope policy(kernels);
    CHECK(at::equal(losses(4).isnan().to(at::kLong),
                    at::tensor({int64_t{0}, int64_t{1}, int64_t{0}})));
    CHECK(losses(-100)[1].item<float>() == 0.0f);
  }
}

TEST_CASE("head losses of no labels are empty, and of ignored labels 0") {
  const Sizes none{{2, 0}, 3, 5};
  const Tensors empty = run(loss(at::zeros({2, 0}, at::kLong), {}), none.inputs(true), at::kFloat);
  CHECK(empty[0].sizes() == at::IntArrayRef({2, 0}));
  CHECK(at::equal(empty[2], at::zeros({5, 3})));
  const Sizes some{{4}, 3, 5};
  for (const Tensors& out :
       {run(loss(at::full({4}, -100, at::kLong), {}), some.inputs(true), at::kFloat),
        run_plain(loss(at::full({4}, -100, at::kLong), {}), some.inputs(true), at::kFloat),
        run(logps(at::full({4}, -100, at::kLong), 1.0), some.inputs(true), at::kFloat)}) {
    for (const at::Tensor& x : out) {
      CHECK(at::equal(x, at::zeros_like(x)));
    }
    CHECK_FALSE(out[0].signbit().any().item<bool>());
  }
  const Sizes flat{{4}, 0, 5};
  CHECK(relative_difference(
            run(loss(at::zeros({4}, at::kLong), {}), flat.inputs(false), at::kFloat)[0],
            at::full({4}, std::log(5.0))) < 1e-6);
}

TEST_CASE("a head of one class has no loss") {
  const at::Tensor labels = some_labels({5}, 1, -100);
  for (const Operator& op : {loss(labels, {-100, 0.1, 0.0}), logps(labels, 0.7)}) {
    for (const at::Tensor& x : run(op, Sizes{{5}, 3, 1}.inputs(true), at::kFloat)) {
      CHECK(x.abs().max().item<double>() < 1e-6);
    }
  }
}

TEST_CASE("head losses say what is wrong") {
  const at::Tensor x = at::ones({2, 4, 3});
  const at::Tensor weight = at::ones({5, 3});
  at::Tensor labels = at::zeros({2, 4}, at::kLong);
  const auto text_for = [&](const at::Tensor& of,
                            const at::Tensor& w,
                            const at::Tensor& to,
                            const ops::OptionalTensor& bias = std::nullopt,
                            const CrossEntropy& o = {}) {
    return message_of([&] { ops::cross_entropy(of, w, to, bias, o); });
  };
  CHECK_THAT(
      text_for(x, at::ones({5, 4}), labels),
      contains_text("tenon::cross_entropy: x [2, 4, 3], weight [5, 4] and labels [2, 4] do not "
                    "match; expected [..., D], [V, D] and [...]"));
  CHECK_THAT(text_for(x, at::ones({0, 3}), labels), contains_text("with V at least 1"));
  CHECK_THAT(text_for(x, weight, at::zeros({8}, at::kLong)), contains_text("do not match"));
  CHECK_THAT(text_for(x, weight, at::zeros({4, 2}, at::kLong)), contains_text("do not match"));
  CHECK_THAT(text_for(x, weight, at::zeros({2, 4})),
             contains_text("labels are Float; expected integers"));
  CHECK_THAT(text_for(x, weight, labels, at::ones({4})),
             contains_text("bias [4] does not match weight [5, 3]; expected [V]"));
  CHECK_THAT(text_for(x, weight.to(at::kDouble), labels),
             contains_text("x is Float, weight Double and bias absent; expected one"));
  CHECK_THAT(text_for(x, weight, labels, at::ones({5}, at::kDouble)),
             contains_text("and bias Double"));
  CHECK_THAT(text_for(x.to(at::kLong), weight.to(at::kLong), labels), contains_text("x is Long"));
  CHECK_THAT(text_for(x, weight, labels, {}, {-100, 1.5, 0.0}),
             contains_text("label_smoothing 1.5 must be in [0, 1]"));
  CHECK_THAT(text_for(x, weight, labels, {}, {-100, 0.0, -1.0}),
             contains_text("z_loss -1 must be finite and not negative"));
  CHECK_THAT(message_of([&] { ops::token_logps(x, weight, labels, {}, -100, 0.0); }),
             contains_text("tenon::token_logps: temperature 0 must be finite and positive"));
  labels[1][0] = 5;
  const auto train = [&] { ops::cross_entropy(x, weight, labels); };
  CHECK_THROWS_AS(train(), c10::IndexError);
  CHECK_THAT(
      message_of(train),
      contains_text("tenon::cross_entropy: label 5 at position 4 of labels [2, 4] is neither "
                    "in [0, 5), the rows of weight, nor ignore_index (-100)"));
  labels[0][1] = -1;
  CHECK_THAT(message_of([&] { ops::token_logps(x, weight, labels); }),
             contains_text("tenon::token_logps: label -1 at position 1"));
  CHECK(text_for(x, weight, labels.clamp_max(4), {}, {-1, 0.0, 0.0}).empty());
  const at::Tensor zeros = at::zeros({2, 4}, at::kLong);
  const Operator of_x = [&](const Tensors& in) { return ops::cross_entropy(in[0], weight, zeros); };
  CHECK_THAT(second_derivative_of(of_x, x), contains_text("its gradient has no gradient"));
}

}  // namespace tenon
