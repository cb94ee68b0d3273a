// SPDX-License-Identifier: Apache-2.0
//
// Embeddings and heads whose classes ranks divide, against libtorch's operators on all classes in
// fp64. Ranks are threads.
#include <tenon/torch/ops.hpp>

#include "host/kernels/embedding.hpp"
#include "host/kernels/head_loss.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "tests/host/kernels/operator_run.hpp"
#include "tests/host/kernels/region_rig.hpp"

namespace tenon {
namespace {

using ops::CrossEntropy;

std::optional<at::Tensor> optional_of(const at::Tensor& x) {
  return x.defined() ? std::optional(x) : std::nullopt;
}

struct Sizes {
  int64_t ranks, rows, width, classes;

  int64_t own_classes() const { return std::max<int64_t>(classes / ranks, 1); }
  int64_t copies() const { return ranks * own_classes() / classes; }
};

// One tile a rank; ranks with the same classes; tiles of classes; tiles of rows and classes.
const std::vector<Sizes>& all_sizes() {
  static const std::vector<Sizes> kSizes = {{2, 3, 5, 2},
                                            {2, 18, 13, 38},
                                            {3, 40, 4, 9},
                                            {4, 9, 3, 4},
                                            {4, 9, 3, 2},
                                            {2, 80, 4, 30006},
                                            {2, 2100, 6, 1100}};
  return kSizes;
}

// x, weight and perhaps bias of all classes, in fp64.
Tensors head_of(const Sizes& s, bool has_bias) {
  return {made(1, {s.rows, s.width}),
          made(2, {s.classes, s.width}),
          has_bias ? made(3, {s.classes}) : at::Tensor()};
}

// Each seventh label is `ignored`.
at::Tensor labels_of(const Sizes& s, int64_t ignored) {
  const at::Tensor any =
      at::randint(s.classes, {s.rows}, at::detail::createCPUGenerator(4), at::dtype(at::kLong));
  return any.masked_fill(at::arange(s.rows).remainder(7).eq(3), ignored);
}

// From x, weight, bias and labels, the loss of each row.
using HeadOp = std::function<at::Tensor(
    const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, const at::Tensor&)>;

HeadOp divided_loss(const Sizes& s, const CrossEntropy& o) {
  return [s, o](const auto& x, const auto& weight, const auto& bias, const auto& labels) {
    return ops::cross_entropy_over(x, weight, labels, s.classes, bias, o);
  };
}

HeadOp libtorch_loss(const CrossEntropy& o) {
  return [o](const auto& x, const auto& weight, const auto& bias, const auto& labels) {
    const at::Tensor logits = at::linear(x, weight, bias);
    return at::cross_entropy_loss(
               logits, labels, {}, at::Reduction::None, o.ignore_index, o.label_smoothing) +
           o.z_loss * logits.logsumexp(-1).square() * labels.ne(o.ignore_index);
  };
}

HeadOp divided_logps(const Sizes& s, double temperature) {
  return [=](const auto& x, const auto& weight, const auto& bias, const auto& labels) {
    return ops::token_logps_over(x, weight, labels, s.classes, bias, -100, temperature);
  };
}

HeadOp libtorch_logps(double temperature) {
  return [=](const auto& x, const auto& weight, const auto& bias, const auto& labels) {
    const at::Tensor logits = at::linear(x, weight, bias) / temperature;
    return -at::cross_entropy_loss(logits, labels, {}, at::Reduction::None, -100);
  };
}

enum class Trained { kAll, kInput };

// The losses, and the gradients of all that is defined and trained.
Tensors run_head(const HeadOp& op,
                 const Tensors& head,
                 const at::Tensor& labels,
                 Trained trained = Trained::kAll) {
  const at::AutoGradMode record(true);
  const at::Tensor loss = op(head[0], head[1], optional_of(head[2]), labels);
  Tensors of = {head[0]};
  if (trained == Trained::kAll) {
    of.push_back(head[1]);
  }
  if (trained == Trained::kAll && head[2].defined()) {
    of.push_back(head[2]);
  }
  const at::Tensor seed = made(9, loss.sizes().vec()).to(loss.scalar_type());
  Tensors out = {loss.detach()};
  for (at::Tensor& grad : torch::autograd::grad({loss}, of, {seed})) {
    out.push_back(std::move(grad));
  }
  return out;
}

Tensors head_leaves(const Tensors& head, at::ScalarType dtype, Trained trained) {
  Tensors leaves;
  for (const at::Tensor& x : head) {
    const bool is_leaf = leaves.empty() || trained == Trained::kAll;
    leaves.push_back(x.defined() ? x.to(dtype).detach().clone().requires_grad_(is_leaf) : x);
  }
  return leaves;
}

// The same on ranks that divide the classes. The gradient of x is the sum of the ranks' terms;
// those of parameters are put together. All ranks must have the same losses.
Tensors run_divided(TensorBoard& board,
                    const Sizes& s,
                    const HeadOp& op,
                    const Tensors& head,
                    const at::Tensor& labels,
                    at::ScalarType dtype,
                    Trained trained = Trained::kAll) {
  const std::vector<Tensors> got =
      in_regions(board, {}, [&](const TensorRegionPtr& region) -> Tensors {
        const int64_t first = rank_of(region) / s.copies() * s.own_classes();
        const auto own = [&](const at::Tensor& of) {
          return of.defined() ? of.narrow(0, first, s.own_classes()) : of;
        };
        return run_head(op,
                        head_leaves({head[0], own(head[1]), own(head[2])}, dtype, trained),
                        labels,
                        trained);
      });
  Tensors out = {got[0][0]};
  for (size_t i = 1; i < got[0].size(); ++i) {
    const bool is_parameter = i > 1;
    at::Tensor sum = at::zeros_like(is_parameter ? head[i - 1] : got[0][i]).to(dtype);
    for (int64_t r = 0; r < s.ranks; ++r) {
      at::Tensor to =
          is_parameter ? sum.narrow(0, r / s.copies() * s.own_classes(), s.own_classes()) : sum;
      to.add_(got[static_cast<size_t>(r)][i]);
    }
    out.push_back(sum);
  }
  for (const Tensors& of_rank : got) {
    CHECK(of_rank[0].equal(out[0]));
  }
  return out;
}

Tensors run_divided(const Sizes& s,
                    const HeadOp& op,
                    const Tensors& head,
                    const at::Tensor& labels,
                    at::ScalarType dtype,
                    Trained trained = Trained::kAll) {
  TensorBoard board(static_cast<uint32_t>(s.ranks));
  return run_divided(board, s, op, head, labels, dtype, trained);
}

}  // namespace

TEST_CASE("cross_entropy of divided classes is libtorch's of all classes", "[parity]") {
  const Sizes s = GENERATE(from_range(all_sizes()));
  const CrossEntropy o = GENERATE(CrossEntropy{},
                                  CrossEntropy{-1, 0.1, 0.0},
                                  CrossEntropy{-100, 0.0, 1e-2},
                                  CrossEntropy{0, 0.3, 1e-3});
  CAPTURE(s.ranks, s.rows, s.width, s.classes, o.ignore_index, o.label_smoothing, o.z_loss);
  const Tensors head = head_of(s, o.z_loss == 0.0);
  const at::Tensor labels = labels_of(s, o.ignore_index);
  const HeadOp op = divided_loss(s, o);
  const Tensors want =
      run_head(libtorch_loss(o), head_leaves(head, at::kDouble, Trained::kAll), labels);
  check_near(run_divided(s, op, head, labels, at::kDouble), want, 1e-12);
  check_near(run_divided(s, op, head, labels, at::kFloat), want, 1e-5);
  const Tensors frozen = run_divided(s, op, head, labels, at::kFloat, Trained::kInput);
  check_near(frozen, {want[0], want[1]}, 1e-5);
  const PolicyScope plain(all_kernels("plain"));
  check_near(run_divided(s, op, head, labels, at::kFloat), want, 1e-5);
}

TEST_CASE("ranks that all have the only class add its gradients once", "[parity]") {
  const Sizes s{2, 7, 3, 1};
  const CrossEntropy o{-100, 0.0, 0.5};  // the loss is 0.5 logit^2
  const Tensors head = head_of(s, true);
  const at::Tensor labels = labels_of(s, -100);
  const Tensors want =
      run_head(libtorch_loss(o), head_leaves(head, at::kDouble, Trained::kAll), labels);
  TensorBoard board(2);
  check_near(run_divided(board, s, divided_loss(s, o), head, labels, at::kDouble), want, 1e-12);
  check_near(run_divided(s, divided_loss(s, o), head, labels, at::kFloat, Trained::kInput),
             {want[0], want[1]},
             1e-5);
  CHECK(board.calls().empty());
}

TEST_CASE("token_logps of divided classes is libtorch's of all classes", "[parity]") {
  const Sizes s = GENERATE(from_range(all_sizes()));
  const double temperature = GENERATE(1.0, 0.7);
  CAPTURE(s.ranks, s.rows, s.width, s.classes, temperature);
  const Tensors head = head_of(s, temperature == 1.0);
  const at::Tensor labels = labels_of(s, -100);
  const HeadOp op = divided_logps(s, temperature);
  const Tensors want =
      run_head(libtorch_logps(temperature), head_leaves(head, at::kDouble, Trained::kAll), labels);
  check_near(run_divided(s, op, head, labels, at::kDouble), want, 1e-12);
  check_near(run_divided(s, op, head, labels, at::kFloat), want, 1e-5);
}

TEST_CASE("a divided head sends four numbers of each row with a label, once", "[kernels]") {
  const Sizes s{2, 300, 4, 6};
  const Tensors head = head_of(s, true);
  at::Tensor labels = at::full({s.rows}, -100, at::kLong);
  labels.narrow(0, 100, 20).fill_(5);
  TensorBoard board(2);
  const Tensors got = run_divided(board, s, divided_loss(s, {}), head, labels, at::kFloat);
  const Tensors want =
      run_head(libtorch_loss({}), head_leaves(head, at::kDouble, Trained::kAll), labels);
  check_near(got, want, 1e-5);
  CHECK(board.calls() == std::vector<std::string>{"block 'layers.3', cross_entropy_over 1"});
  CHECK(board.elements() == 32 * 4);  // rows are computed in groups of 32
}

TEST_CASE("a divided head without labels has losses and gradients of zero", "[kernels]") {
  const Sizes s{2, 40, 4, 6};
  const Tensors head = head_of(s, true);
  const at::Tensor labels = at::full({s.rows}, -100, at::kLong);
  for (const at::Tensor& x : run_divided(s, divided_loss(s, {}), head, labels, at::kFloat)) {
    CHECK(x.eq(0).all().item<bool>());
  }
}

TEST_CASE("classes whose logits are minus infinity on a rank have no part", "[kernels]") {
  const Sizes s{2, 10, 4, 6};
  Tensors head = head_of(s, true);
  head[2].narrow(0, 3, 3).fill_(-std::numeric_limits<double>::infinity());
  const at::Tensor labels = labels_of(s, -100).remainder(3);
  const HeadOp op = divided_loss(s, {});
  const Tensors want = run_head(
      libtorch_loss({}),
      head_leaves(
          {head[0], head[1].narrow(0, 0, 3), head[2].narrow(0, 0, 3)}, at::kDouble, Trained::kAll),
      labels);
  for (const Trained trained : {Trained::kAll, Trained::kInput}) {
    const Tensors got = run_divided(s, op, head, labels, at::kFloat, trained);
    check_near({got[0], got[1]}, {want[0], want[1]}, 1e-5);
  }
}

TEST_CASE("bf16 losses of divided classes err as those of all classes do", "[kernels]") {
  const Sizes s{4, 64, 32, 400};
  const Tensors head = head_of(s, true);
  const at::Tensor labels = labels_of(s, -100);
  const Tensors want =
      run_head(libtorch_loss({}), head_leaves(head, at::kDouble, Trained::kAll), labels);
  const HeadOp whole_op = [](const auto& x, const auto& w, const auto& b, const auto& y) {
    return ops::cross_entropy(x, w, y, b);
  };
  const Tensors whole = run_head(whole_op, head_leaves(head, at::kBFloat16, Trained::kAll), labels);
  const Tensors got = run_divided(s, divided_loss(s, {}), head, labels, at::kBFloat16);
  for (size_t i = 0; i < want.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(got[i], want[i]) < 1.2 * relative_difference(whole[i], want[i]));
  }
}

TEST_CASE("the backward of a divided head may run on any thread", "[kernels]") {
  const Sizes s{2, 9, 4, 6};
  const Tensors head = head_of(s, false);
  const at::Tensor labels = labels_of(s, -100);
  const Tensors want =
      run_head(libtorch_loss({}), head_leaves(head, at::kDouble, Trained::kAll), labels);
  const auto got = in_regions(2, {}, [&](const TensorRegionPtr& region) -> Tensors {
    const at::Tensor x = head[0].clone().requires_grad_();
    const at::Tensor w = head[1].narrow(0, 3 * rank_of(region), 3);
    const at::Tensor loss = ops::cross_entropy_over(ops::tensor_in(x), w, labels, s.classes);
    at::Tensor grad;
    std::jthread([&] { grad = torch::autograd::grad({loss}, {x}, {made(9, {s.rows})})[0]; }).join();
    return {grad};
  });
  CHECK(relative_difference(got[0][0], want[1]) < 1e-12);
  CHECK(got[0][0].equal(got[1][0]));
}

TEST_CASE("an embedding of divided rows is libtorch's of all rows", "[parity]") {
  const auto [ranks, V] = GENERATE(table<int64_t, int64_t>({{2, 6}, {3, 9}, {4, 2}, {2, 1}}));
  const auto dtype = GENERATE(at::kDouble, at::kFloat);
  CAPTURE(ranks, V);
  const int64_t own = std::max<int64_t>(V / ranks, 1);
  const int64_t copies = ranks * own / V;
  const at::Tensor table = made(1, {V, 3}).to(dtype);
  const at::Tensor ids =
      at::randint(V, {2, 11}, at::detail::createCPUGenerator(4), at::dtype(at::kInt));
  const at::Tensor grad_y = made(2, {2, 11, 3}).to(dtype);
  const at::Tensor leaf = table.clone().requires_grad_();
  const at::Tensor want = at::embedding(leaf, ids);
  const at::Tensor grad = torch::autograd::grad({want}, {leaf}, {grad_y})[0];
  const auto got =
      in_regions(static_cast<uint32_t>(ranks), {}, [&](const TensorRegionPtr& region) -> Tensors {
        const int64_t first = rank_of(region) / copies * own;
        const at::Tensor part = table.narrow(0, first, own).clone().requires_grad_();
        const at::Tensor y = ops::tensor_out(ops::embedding_over(part, ids, V));
        return {y, torch::autograd::grad({y}, {part}, {grad_y})[0]};
      });
  at::Tensor sum = at::zeros_like(table);
  for (int64_t r = 0; r < ranks; ++r) {
    const Tensors& of_rank = got[static_cast<size_t>(r)];
    CHECK(of_rank[0].equal(want));
    sum.narrow(0, r / copies * own, own).add_(of_rank[1]);
  }
  CHECK(relative_difference(sum, grad) < (dtype == at::kDouble ? 1e-14 : 1e-6));
}

TEST_CASE("without a region, classes are those of one rank", "[kernels]") {
  register_operators();
  const Sizes s{1, 9, 4, 6};
  const Tensors head = head_of(s, true);
  const at::Tensor labels = labels_of(s, -100);
  CHECK(ops::cross_entropy_over(head[0], head[1], labels, 6, head[2])
            .equal(ops::cross_entropy(head[0], head[1], labels, head[2])));
  CHECK(ops::token_logps_over(head[0], head[1], labels, 6, head[2])
            .equal(ops::token_logps(head[0], head[1], labels, head[2])));
  CHECK(ops::embedding_over(head[1], labels.clamp_min(0), 6)
            .equal(ops::embedding(head[1], labels.clamp_min(0))));
}

TEST_CASE("divided classes refuse ids and numbers of classes that do not exist", "[kernels]") {
  const Tensors head = head_of({2, 4, 3, 6}, false);
  const auto fails = [&](int64_t whole, int64_t label) {
    const at::Tensor labels = at::full({4}, label, at::kLong);
    std::string text;
    for (const bool is_head : {true, false}) {
      try {
        in_regions(2, {}, [&](const TensorRegionPtr&) -> Tensors {
          return {is_head ? ops::cross_entropy_over(head[0], head[1].narrow(0, 0, 3), labels, whole)
                          : ops::embedding_over(head[1].narrow(0, 0, 3), labels, whole)};
        });
      } catch (const c10::Error& e) {
        text += e.what_without_backtrace();
        text += '\n';
      }
    }
    return text;
  };
  CHECK(fails(6, 5).empty());
  const std::string label = fails(6, 6);
  CHECK_THAT(label,
             contains_text("tenon::cross_entropy_over: label 6 at position 0 of labels [4] "
                           "is neither in [0, 6)"));
  CHECK_THAT(label,
             contains_text("tenon::embedding: id 6 at position 0 of ids [4] is not in "
                           "[0, 6), the rows of weight"));
  const std::string rows = fails(7, 0);
  CHECK_THAT(rows,
             contains_text("tenon::cross_entropy_over: 2 ranks with 3 elements each do not "
                           "have 7 elements equally often"));
  CHECK_THAT(rows, contains_text("tenon::embedding_over: 2 ranks with 3 elements each"));
}

}  // namespace tenon
