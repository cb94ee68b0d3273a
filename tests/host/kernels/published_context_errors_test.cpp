// SPDX-License-Identifier: Apache-2.0
//
// Errors that training programs have had where ranks divide positions, as reported in public. Each
// case has the right number, ours, and the one that the error gives (docs/ranks.md, "Published
// errors"). Ranks are threads.
#include "host/kernels/attention.hpp"
#include "host/kernels/divided_attention.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/host/kernels/sequence_rig.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/published_error.hpp"

namespace tenon {
namespace {

constexpr int64_t kPositions = 12;
constexpr int64_t kRanks = 2;

// Queries, keys and values of a row with two documents, the first with five positions.
struct PackedRow {
  static constexpr int64_t kFirst = 5;

  at::Tensor query = made(1, {1, kPositions, 4, 8});
  at::Tensor key = made(2, {1, kPositions, 4, 8});
  at::Tensor value = made(3, {1, kPositions, 4, 8});
  at::Tensor segments = at::arange(kPositions).ge(kFirst).to(at::kLong).unsqueeze(0);

  // The output and the gradient of the query for some positions, without divisions.
  std::vector<at::Tensor> alone(int64_t begin, int64_t length) const {
    return of(begin, length, std::nullopt);
  }
  std::vector<at::Tensor> of(int64_t begin,
                             int64_t length,
                             const std::optional<at::Tensor>& own_segments) const {
    const c10::AutoGradMode record(true);
    const auto cut = [&](const at::Tensor& x) { return x.narrow(1, begin, length); };
    const at::Tensor leaf = cut(query).clone().requires_grad_(true);
    const at::Tensor y = attention(leaf, cut(key), cut(value), {.segments = own_segments});
    const at::Tensor grad_y = made(4, {1, kPositions, 4, 8}).narrow(1, begin, length);
    return {y.detach(), torch::autograd::grad({y}, {leaf}, {grad_y})[0]};
  }

  // The same, joined over ranks that divide the positions.
  std::vector<at::Tensor> divided(ContextBy by, bool has_segments) const {
    std::vector<std::vector<at::Tensor>> of_ranks(kRanks);
    Mailbox box(kRanks);
    run_sequence_ranks(box, by, {7, 5}, [&](const SequenceParts& parts) {
      const SequenceScope scope(&parts);
      const auto own_segments =
          has_segments ? std::optional(segments.narrow(1, parts.begin(), parts.length()))
                       : std::nullopt;
      of_ranks[parts.ranks->rank()] = of(parts.begin(), parts.length(), own_segments);
    });
    return {at::cat({of_ranks[0][0], of_ranks[1][0]}, 1),
            at::cat({of_ranks[0][1], of_ranks[1][1]}, 1)};
  }
};

double norm_of(const at::Tensor& x) {
  return x.norm().item<double>();
}

}  // namespace

TEST_CASE("published: attention across packed documents", "[kernels]") {
  const PackedRow row;
  const at::Tensor first = row.alone(0, PackedRow::kFirst)[0];
  const at::Tensor second = row.alone(PackedRow::kFirst, kPositions - PackedRow::kFirst)[0];
  for (const ContextBy by : {ContextBy::kKeys, ContextBy::kHeads}) {
    check_published({.right = norm_of(at::cat({first, second}, 1)),
                     .ours = norm_of(row.divided(by, true)[0]),
                     .error = norm_of(row.divided(by, false)[0])},
                    {.ours = 13.62, .error = 10.46});
  }
}

TEST_CASE("published: gradients times the number of ranks that exchange heads", "[kernels]") {
  const PackedRow row;
  const double right = norm_of(row.alone(0, kPositions)[1]);
  check_published({.right = right,
                   .ours = norm_of(row.divided(ContextBy::kHeads, false)[1]),
                   .error = right * kRanks},
                  {.ours = 5.582, .error = 11.16});
}

}  // namespace tenon
