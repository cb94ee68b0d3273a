// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/metric_book.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include "tests/support/thread_ranks.hpp"

namespace tenon {

TEST_CASE("a record shows sums over weights, and begins anew", "[metrics]") {
  MetricBook book;
  book.add("loss", 6, 2);
  book.add_tensor("loss", at::scalar_tensor(4.0), at::scalar_tensor(3.0));
  book.set("lr", 0.5);
  CHECK(book.mean("loss") == 2);
  const MetricRecord record = book.close(7);
  CHECK(record.step == 7);
  REQUIRE(record.values.size() == 2);
  CHECK(record.values[0] == std::pair<std::string, double>("loss", 2.0));
  CHECK(*record.find("lr") == 0.5);
  CHECK(book.last("loss") == 2.0);
  CHECK(book.close(8).values.empty());
  CHECK(book.last("loss") == 2.0);
  CHECK_FALSE(book.last("unknown").has_value());
}

TEST_CASE("scalars read together give what reading each at once gives", "[metrics]") {
  MetricBook at_once;
  MetricBook together(MetricBook::Reading::kTogether);
  for (MetricBook* book : {&at_once, &together}) {
    book->add_tensor("loss", at::scalar_tensor(0.1, at::kFloat), at::scalar_tensor(3, at::kLong));
    book->add_tensor("loss", at::scalar_tensor(0.7), at::full({1}, 4.0, at::kDouble));
    book->add("loss", 1, 2);
    book->add_tensor("aux", at::scalar_tensor(5.0), at::scalar_tensor(2.0));
    book->add_tensor("late", at::scalar_tensor(5.0), at::scalar_tensor(0.0));
    book->add_tensor("lr", at::scalar_tensor(5.0), at::scalar_tensor(1.0));
    book->set("lr", 0.25);
  }
  CHECK(together.mean("loss") == at_once.mean("loss"));
  CHECK(together.mean("aux") == 2.5);
  CHECK(together.mean("unknown") == 0);
  together.add_tensor("aux", at::scalar_tensor(1.0), at::scalar_tensor(1.0));
  at_once.add_tensor("aux", at::scalar_tensor(1.0), at::scalar_tensor(1.0));
  CHECK(together.close(1).values == at_once.close(1).values);
  CHECK(*together.last("lr") == 0.25);
  CHECK(together.close(2).values.empty());
}

TEST_CASE("a record of some figures leaves the others to gather", "[metrics]") {
  MetricBook book;
  book.add("loss", 1, 1);
  book.set("eval/loss", 3);
  CHECK(book.close(1, "eval/").values.size() == 1);
  book.add("loss", 3, 1);
  CHECK(*book.close(2).find("loss") == 2);
}

TEST_CASE("a figure without weight is left out", "[metrics]") {
  MetricBook book;
  book.add("loss", 0, 0);
  CHECK(book.close(1).values.empty());
}

TEST_CASE("names of figures are held to what files and tools can take", "[metrics]") {
  MetricBook book;
  CHECK_THROWS_AS(book.set("", 1), Error);
  CHECK_THROWS_AS(book.set("a b", 1), Error);
  CHECK_THROWS_AS(book.set(std::string(101, 'a'), 1), Error);
  CHECK_NOTHROW(book.set("router/entropy.0-x_Y", 1));
}

TEST_CASE("figures under way are gone on with from a state, to the bit", "[metrics]") {
  for (const auto reading : {MetricBook::Reading::kAtOnce, MetricBook::Reading::kTogether}) {
    MetricBook book(reading);
    MetricBook other(reading);
    other.add("gone", 1, 1);
    book.add("loss", 0.1, 3);
    book.set("lr", 0.3);
    book.close(1);
    book.add_tensor("loss", at::scalar_tensor(0.7, at::kDouble), at::scalar_tensor(2, at::kDouble));
    book.add("loss", 0.2, 1);
    book.set("memory", 5, MetricBook::OfRanks::kLargest);
    StateTree tree;
    book.snapshot(tree, "figures");
    other.load(tree, "figures");
    StateTree again;
    other.snapshot(again, "figures");
    CHECK(tree == again);
    for (MetricBook* const each : {&book, &other}) {
      each->add_tensor(
          "loss", at::scalar_tensor(0.9, at::kDouble), at::scalar_tensor(1, at::kDouble));
    }
    CHECK(other.last("lr") == book.last("lr"));
    CHECK(other.close(2).values == book.close(2).values);
    CHECK_FALSE(other.last("gone").has_value());
  }
}

TEST_CASE("times and rates are no part of a state, but keep their place in records", "[metrics]") {
  StateTree trees[2];
  MetricBook again;
  for (int run = 0; run < 2; ++run) {
    MetricBook book;
    book.set("samples_per_second", 100.0 + run);
    book.add("loss", 0.5, 1);
    book.set("step_seconds", 0.25 * run);
    book.close(1);
    book.add("loss", 0.75, 1);
    book.snapshot(trees[run], "figures");
    again.load(trees[run], "figures");
  }
  CHECK(trees[0] == trees[1]);
  CHECK_FALSE(again.last("samples_per_second").has_value());
  CHECK(again.last("loss") == 0.5);
  again.set("samples_per_second", 7);
  const MetricRecord record = again.close(2);
  REQUIRE(record.values.size() == 2);
  CHECK(record.values[0] == std::pair<std::string, double>("samples_per_second", 7));
}

TEST_CASE("a saved record in another form is refused", "[metrics]") {
  for (const std::string lines : {"loss",
                                  "loss\n",
                                  "\n",
                                  "loss 1 0 0 0x1p+0 0x1p+0 0\n",
                                  "loss 1 0 0 0x1p+0 0x1p+0 0 0x0p+0",
                                  "loss 1 0 0 0x1p+0 0x1p+0 0 0x0p+0 1\n",
                                  "loss 1 0 0 x 0x1p+0 0 0x0p+0\n",
                                  "lo\x1bss 1 0 0 0x1p+0 0x1p+0 0 0x0p+0\n",
                                  "a 1 0 0 0x1p+0 0x1p+0 0 0x0p+0\na 1 0 0 0 0 0 0\n"}) {
    INFO(lines);
    StateTree tree;
    tree.put_bytes("figures/figures", lines);
    MetricBook book;
    try {
      book.load(tree, "figures");
      FAIL_CHECK("was taken");
    } catch (const Error& error) {
      CHECK(error.id() == "state.bad_value");
    }
  }
}

TEST_CASE("figures are those of all ranks, whichever of them has them", "[metrics]") {
  std::vector<MetricRecord> records(3);
  std::vector<std::vector<double>> means(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    MetricBook book;
    const uint32_t rank = control.rank();
    if (rank > 0) {  // rank 0 has no samples
      book.add("loss", rank, 1.0 + rank);
    }
    if (rank == 2) {
      book.add_tensor("aux/of_one", at::scalar_tensor(0.1), at::scalar_tensor(1.0));
      book.set("of_one", 7);
    }
    book.add("none", 1, 0);
    book.set("wait", rank == 1 ? 3.0 : 2.0, MetricBook::OfRanks::kLargest);
    book.set("lr", 0.1 * (1 + rank));
    book.set("eval/loss", 1.0 + rank);
    book.share(control, "eval/");
    means[rank] = {*book.close(1, "eval/").find("eval/loss")};
    book.share(control);
    means[rank].push_back(book.mean("loss"));
    records[rank] = book.close(1);
    // Nothing of it is left.
    book.add("loss", rank, 1);
    book.share(control);
    means[rank].push_back(*book.close(2).find("loss"));
  });
  for (uint32_t rank = 0; rank < 3; ++rank) {
    INFO("rank " << rank);
    const MetricRecord& record = records[rank];
    CHECK(means[rank] == std::vector<double>{1.0, 3.0 / 5.0, 1.0});
    REQUIRE(record.values.size() == 5);
    CHECK(*record.find("loss") == 3.0 / 5.0);
    CHECK(*record.find("aux/of_one") == static_cast<double>(0.1F));
    CHECK(*record.find("of_one") == 7);
    CHECK(*record.find("wait") == 3);
    CHECK(*record.find("lr") == 0.1);
  }
}

}  // namespace tenon
