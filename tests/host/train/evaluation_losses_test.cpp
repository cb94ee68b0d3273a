// SPDX-License-Identifier: Apache-2.0
#include "host/train/evaluation_losses.hpp"

#include <array>

#include "tests/host/train/loop_rig.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

EvaluationSums sums_of(double sum, double count) {
  EvaluationSums sums(1);
  sums.add({at::scalar_tensor(sum, at::kDouble)}, {at::scalar_tensor(count, at::kDouble)});
  return sums;
}

using Metrics = EvaluationLosses::Metrics;

}  // namespace

TEST_CASE("the mean of an evaluation, and of all evaluations of a series", "[train]") {
  RunRig run;
  run.allocate();
  EvaluationLosses losses(run.model->losses);
  CHECK(losses.close(sums_of(6, 3), run.ranks.tokens(), "") == Metrics{{"loss", 2}});
  CHECK(losses.close(sums_of(6, 3), run.ranks.tokens(), "next/") ==
        Metrics{{"loss", 2}, {"loss/run", 2}});
  CHECK(losses.close(sums_of(8, 1), run.ranks.tokens(), "next/") ==
        Metrics{{"loss", 8}, {"loss/run", 3.5}});
  CHECK(losses.close(sums_of(1, 1), run.ranks.tokens(), "eval/") ==
        Metrics{{"loss", 1}, {"loss/run", 1}});
  CHECK_FALSE(losses.close(EvaluationSums(1), run.ranks.tokens(), "next/").has_value());

  StateTree tree;
  losses.put_fields(tree, "run");
  CHECK(tree.get_bytes("run/series/0/name") == "eval/");  // by name
  CHECK(tree.get_bytes("run/series/1/name") == "next/");
  CHECK(tree.get_double("run/series/1/0/sum") == 14);
  CHECK(tree.get_double("run/series/1/0/count") == 4);
  EvaluationLosses resumed(run.model->losses);
  resumed.get_fields(tree, "run");
  CHECK(resumed.close(sums_of(2, 4), run.ranks.tokens(), "next/") ==
        Metrics{{"loss", 0.5}, {"loss/run", 2}});
}

TEST_CASE("ranks add up what each has seen", "[train]") {
  std::array<std::optional<Metrics>, 2> found;
  RunRig run;
  run.allocate();
  run_ranks(2, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    EvaluationLosses losses(run.model->losses);
    const bool is_first = control.rank() == 0;
    found[control.rank()] = losses.close(is_first ? sums_of(9, 1) : EvaluationSums(1), control, "");
  });
  CHECK(found[0] == Metrics{{"loss", 9}});
  CHECK(found[1] == found[0]);
}

}  // namespace tenon
