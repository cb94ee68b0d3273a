// SPDX-License-Identifier: Apache-2.0
//
// Norms of the same gradients under many ways of sharding, against their definition.
#include "host/optim/gradient_norm.hpp"

#include "host/device/exact_squares.hpp"
#include "host/optim/clip.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/plain_squares.hpp"

namespace tenon {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// A group with one parameter of each length, and the values of its whole gradient.
struct Gradients {
  at::ScalarType dtype;
  std::vector<int64_t> lengths;
  std::vector<at::Tensor> values;  // by parameter, of `dtype`
  int64_t block = 1;
  bool is_unsharded = false;
};

// Values of all magnitudes whose squares are finite.
Gradients drawn_gradients(std::mt19937_64& random, at::ScalarType dtype) {
  Gradients drawn{.dtype = dtype, .lengths = {}, .values = {}};
  const int64_t longest = std::vector<int64_t>{40, 700, 9000, 80'000}[random() % 4];
  const size_t num = 1 + random() % 4;
  at::Generator generator = at::detail::createCPUGenerator(random());
  for (size_t p = 0; p < num; ++p) {
    drawn.lengths.push_back(1 + static_cast<int64_t>(random() % static_cast<uint64_t>(longest)));
    const at::Tensor normal = at::randn({drawn.lengths.back()}, generator, at::kDouble);
    const at::Tensor spread =
        at::exp(2 * at::randn({drawn.lengths.back()}, generator, at::kDouble));
    drawn.values.push_back((normal * spread).to(dtype));
  }
  drawn.block = random() % 3 == 0 ? 24 : 1;
  drawn.is_unsharded = random() % 4 == 0;
  return drawn;
}

FlatGroup group_of(const Gradients& gradients, const FlatSharing& sharing) {
  std::vector<FlatParameter> parameters;
  for (size_t p = 0; p < gradients.lengths.size(); ++p) {
    parameters.push_back({.id = static_cast<uint32_t>(p),
                          .shape = {gradients.lengths[p]},
                          .block = gradients.block});
  }
  return {"block", gradients.dtype, at::kCPU, std::move(parameters), std::nullopt, sharing};
}

// Returns a rank's group, with its part of the gradient as a reduction leaves it.
FlatGroup filled_group(const Gradients& gradients, const FlatSharing& sharing) {
  FlatGroup group = group_of(gradients, sharing);
  for (size_t p = 0; p < gradients.values.size(); ++p) {
    group.add_grad(p, gradients.values[p]);
  }
  group.resolve_grads();
  if (!sharing.keeps_gradients) {
    group.add_to_slice(
        group.whole_grad().narrow(0, sharing.slice * group.slice_numel(), group.slice_numel()));
    group.release_grads();
    group.resolve_slice();
  }
  return group;
}

// Returns the groups of one rank of `replicas` times `slices`.
std::vector<FlatGroup> rank_groups(const std::vector<Gradients>& model,
                                   int64_t rank,
                                   int64_t slices,
                                   bool keeps_gradients) {
  std::vector<FlatGroup> groups;
  for (const Gradients& gradients : model) {
    groups.push_back(gradients.is_unsharded ? filled_group(gradients, {.is_counted = rank == 0})
                                            : filled_group(gradients,
                                                           {.num_slices = slices,
                                                            .slice = rank % slices,
                                                            .keeps_gradients = keeps_gradients,
                                                            .is_counted = rank < slices}));
  }
  return groups;
}

// As ranks compute it: each word is summed over ranks, here in the reverse order.
double norm_over_ranks(const std::vector<Gradients>& model,
                       int64_t replicas,
                       int64_t slices,
                       bool keeps_gradients) {
  return norm_of_squares([&](SquareScale scale) {
    ExactSum total;
    const auto words = total.words();
    for (int64_t rank = replicas * slices - 1; rank >= 0; --rank) {
      ExactSum mine =
          grad_squares(rank_groups(model, rank, slices, keeps_gradients), NormOf::kCounted, scale);
      std::ranges::transform(words, mine.words(), words.begin(), std::plus<>());
    }
    return total;
  });
}

double plain_norm(const std::vector<Gradients>& model) {
  ExactSum sum;
  for (const Gradients& gradients : model) {
    const FlatGroup group = group_of(gradients, {});
    at::Tensor whole = at::zeros({group.numel()}, at::kDouble);
    for (size_t p = 0; p < gradients.values.size(); ++p) {
      whole.narrow(0, group.entries()[p].offset, gradients.lengths[p]).copy_(gradients.values[p]);
    }
    add_plain_squares(sum, whole, group.chunk());
  }
  return std::sqrt(sum.value());
}

std::vector<FlatGroup> three_four_twelve() {
  std::vector<FlatGroup> groups;
  groups.emplace_back(
      "a", at::kDouble, at::kCPU, std::vector<FlatParameter>{{.id = 0, .shape = {2}}});
  groups.emplace_back(
      "b", at::kFloat, at::kCPU, std::vector<FlatParameter>{{.id = 1, .shape = {1}}});
  groups[0].add_grad(0, at::tensor({3.0, 4.0}, at::kDouble));
  groups[1].add_grad(0, at::tensor({12.0f}));
  return groups;
}

}  // namespace

TEST_CASE("the norm is that of all gradients together", "[optim]") {
  const auto groups = three_four_twelve();
  CHECK(grad_norm(groups) == 13);
  const std::vector<FlatGroup> none;
  CHECK(grad_norm(none) == 0);
  const GradientNorms norms = device_grad_norms(groups);
  CHECK(norms.all.item<double>() == 13);
  CHECK(at::allclose(norms.by_entry, at::tensor({5.0, 12.0}, at::kDouble)));
  CHECK(device_grad_norms(none).all.item<double>() == 0);
  CHECK(entry_grad_norms(groups[0]).item<double>() == 5);
  // Without exact sums, as on a GPU without kernels.
  CHECK(norms_of(at::Tensor(), norms.by_entry).all.item<double>() == Approx(13).epsilon(1e-12));
}

TEST_CASE("the norm is finite if and only if all gradients are", "[optim]") {
  auto groups = three_four_twelve();
  groups[1].grad_view(0).fill_(std::numeric_limits<float>::max());
  CHECK(grad_norm(groups) == Approx(std::numeric_limits<float>::max()));  // its square is not fp32
  groups[0].grad_view(0).fill_(1e300);
  CHECK(grad_norm(groups) == Approx(std::sqrt(2.0) * 1e300));  // its square is not fp64
  groups[0].grad_view(0).fill_(1e-160);
  groups[1].grad_view(0).fill_(0);
  CHECK(grad_norm(groups) == Approx(std::sqrt(2.0) * 1e-160));
  for (const double value : {kInfinite, -kInfinite, std::numeric_limits<double>::quiet_NaN()}) {
    for (size_t g = 0; g < 2; ++g) {
      auto spoilt = three_four_twelve();
      spoilt[g].grad_view(0)[0].fill_(value);
      CHECK_FALSE(std::isfinite(grad_norm(spoilt)));
      CHECK_FALSE(std::isfinite(device_grad_norms(spoilt).all.item<double>()));
    }
  }
}

TEST_CASE("only counted gradients are in the norm of a rank", "[optim]") {
  std::vector<FlatGroup> groups;
  groups.push_back(filled_group({at::kFloat, {1}, {at::tensor({3.0f})}}, {.is_counted = false}));
  groups.push_back(filled_group({at::kFloat, {1}, {at::tensor({4.0f})}}, {}));
  CHECK(grad_norm(groups) == 4);
  CHECK(grad_norm(groups, NormOf::kAll) == 5);
  CHECK(device_grad_norms(groups).all.item<double>() == 4);
  CHECK(device_grad_norms(groups).by_entry.numel() == 2);
}

TEST_CASE("gradients that other pipeline ranks store add nothing to the norm of a rank",
          "[optim]") {
  std::vector<FlatGroup> groups;
  groups.push_back(filled_group({at::kFloat, {1}, {at::tensor({3.0f})}}, {}));
  groups.push_back(group_of({at::kFloat, {5, 7}, {}}, {.is_counted = false, .is_elsewhere = true}));
  groups.push_back(filled_group({at::kFloat, {1}, {at::tensor({4.0f})}}, {}));
  groups[1].entries()[1].has_grad = true;
  CHECK(grad_norm(groups) == 5);
  const GradientNorms norms = device_grad_norms(groups);
  CHECK(norms.all.item<double>() == 5);
  CHECK(norms.by_entry.equal(at::tensor({3.0, 0.0, 4.0}, at::kDouble)));
  clip_grad_norm(groups, 5, 2.5);
  clip_grad_norm(groups, at::scalar_tensor(2.5, at::kDouble), 1.25);
  clip_grad_value(groups, 0.9);
  CHECK(groups[0].grad()[0].item<float>() == Approx(0.75));
  CHECK(groups[2].grad()[0].item<float>() == Approx(0.9));
  CHECK(groups[1].grad().numel() == 0);
}

TEST_CASE("equal gradients have the same norm, bit for bit, however they are sharded", "[optim]") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 25; ++round) {
    std::vector<Gradients> model;
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      if (random() % 4 != 0) {
        model.push_back(drawn_gradients(random, dtype));
      }
    }
    const double want = plain_norm(model);
    INFO(round << ", " << model.size() << " groups");
    REQUIRE(norm_over_ranks(model, 1, 1, true) == want);
    REQUIRE(norm_over_ranks(model, 1, 1, false) == want);  // one slice in memory of its own
    REQUIRE(grad_norm(rank_groups(model, 5, 1, true), NormOf::kAll) == want);  // a replica
    for (int64_t slices = 2; slices <= 7; ++slices) {
      REQUIRE(norm_over_ranks(model, 1 + slices % 2, slices, slices % 3 == 0) == want);
    }
    at::Tensor words = exact_zero(at::kCPU);
    for (int64_t rank = 0; rank < 3; ++rank) {
      words += device_grad_norms(rank_groups(model, rank, 3, false)).squares;
    }
    REQUIRE(exact_root(words).item<double>() == want);
  }
}

TEST_CASE("fp64 gradients whose squares overflow have the same norm on any ranks", "[optim]") {
  at::Tensor values = at::arange(1, 2001, at::kDouble) * 1e297;
  values[0] = 1e-30;
  const std::vector<Gradients> model = {
      {.dtype = at::kDouble, .lengths = {2000}, .values = {values}},
      {.dtype = at::kFloat, .lengths = {3}, .values = {at::full({3}, 2.0f)}}};
  const double alone = norm_over_ranks(model, 1, 1, true);
  CHECK(alone == Approx((values / 1e297).norm().item<double>() * 1e297).epsilon(1e-12));
  for (const int64_t slices : {2, 3, 7}) {
    CHECK(norm_over_ranks(model, 2, slices, false) == alone);
  }
  // The ranks agree on the second pass: one rank alone would not make it.
  values.narrow(0, 0, 1000).fill_(1);
  CHECK(std::isfinite(norm_over_ranks(model, 1, 2, false)));
}

}  // namespace tenon
