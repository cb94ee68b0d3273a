// SPDX-License-Identifier: Apache-2.0
#include "host/train/window_feed.hpp"

#include "host/error/error.hpp"

#include <array>
#include <optional>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

LoaderOptions by_two() {
  LoaderOptions options;
  options.batch_size = 2;
  return options;
}

WindowFeed::Parts parts_of(DataStream& data, Collective& collective, int64_t microbatches = 1) {
  return {.data = data,
          .paired = {},
          .collective = collective,
          .on_wait = [](auto) {},
          .gives_up = [] { return false; },
          .microbatches_per_step = microbatches};
}

std::vector<std::vector<int64_t>> samples_of(const std::vector<Microbatch>& microbatches) {
  std::vector<std::vector<int64_t>> samples;
  for (const Microbatch& microbatch : microbatches) {
    samples.push_back(samples_of(microbatch.batch));
  }
  return samples;
}

using Samples = std::vector<std::vector<int64_t>>;

}  // namespace

TEST_CASE("an accumulation ends with its window", "[train]") {
  SingleRank alone;
  FakeMap source(6);
  DataStream data(source, by_two());
  WindowFeed feed(parts_of(data, alone, 2));
  feed.begin_epoch(0);
  REQUIRE(feed.open_next() == NextWindow::kOpen);
  CHECK(samples_of(feed.take_microbatches()) == Samples{{0, 1}, {2, 3}});
  CHECK(feed.has_next_batch());
  CHECK(feed.batch_bytes() > 0);
  CHECK(samples_of(feed.take_microbatches()) == Samples{{4, 5}});
  CHECK_FALSE(feed.has_next_batch());
  CHECK(feed.open_next() == NextWindow::kEnd);
}

TEST_CASE("windows are counted over epochs, and the label of the last one is kept", "[train]") {
  SingleRank alone;
  FakeMap source(2);
  source.set_windows({make_window(1, "mon", 2, true), make_window(2, "tue", 2)});
  DataStream data(source, by_two());
  WindowFeed feed(parts_of(data, alone));
  for (const uint64_t epoch : {0, 1}) {
    feed.begin_epoch(epoch);
    REQUIRE(feed.open_next() == NextWindow::kOpen);
    CHECK(feed.begin_window() == "tue");
    feed.report_empty_window();
    CHECK(feed.open_next() == NextWindow::kEnd);
  }
  CHECK(feed.count().skipped == 2);
  CHECK(feed.count().empty == 2);
  CHECK(feed.last_window() == "tue");
  // The epoch under way is no part of the saved count: the dataset's position has it.
  StateTree tree;
  feed.put_fields(tree, "run");
  CHECK(tree.get_int("run/windows_skipped") == 1);
  CHECK(tree.get_bytes("run/last_window") == "tue");
  CHECK_THROWS_AS(feed.fail_empty_epoch(), Error);
}

TEST_CASE("an epoch ends with the windows of a paired set", "[train]") {
  SingleRank alone;
  FakeMap source(2);
  source.set_windows({make_window(1, "mon", 2), make_window(2, "tue", 2)});
  FakeMap paired_source(2);
  paired_source.set_windows({make_window(1, "mon", 2)});
  DataStream data(source, by_two());
  DataStream paired(paired_source, by_two());
  WindowFeed::Parts parts = parts_of(data, alone);
  parts.paired = {&paired};
  WindowFeed feed(std::move(parts));
  feed.begin_epoch(0);
  CHECK(feed.open_next() == NextWindow::kOpen);
  CHECK(paired.has_window());
  CHECK(feed.open_next() == NextWindow::kEnd);
  CHECK_FALSE(data.has_window());
}

TEST_CASE("the first step's batches are repeated, as copies, and survive a checkpoint", "[train]") {
  SingleRank alone;
  FakeMap source(8);
  DataStream data(source, by_two());
  WindowFeed::Parts parts = parts_of(data, alone, 2);
  parts.repeats_first_batch = true;
  WindowFeed feed(std::move(parts));
  feed.begin_epoch(0);
  REQUIRE(feed.open_next() == NextWindow::kOpen);
  std::vector<Microbatch> first = feed.take_microbatches();
  first[0].batch.fields[0].zero_();  // as a hook may
  CHECK(samples_of(feed.take_microbatches()) == Samples{{0, 1}, {2, 3}});
  CHECK_FALSE(feed.has_next_batch());  // windows end as without it
  StateTree tree;
  feed.put_fields(tree, "run");

  DataStream other(source, by_two());
  WindowFeed::Parts again = parts_of(other, alone, 2);
  again.repeats_first_batch = true;
  WindowFeed resumed(std::move(again));
  resumed.get_fields(tree, "run");
  resumed.begin_epoch(1);
  REQUIRE(resumed.open_next() == NextWindow::kOpen);
  CHECK(samples_of(resumed.take_microbatches()) == Samples{{0, 1}, {2, 3}});
}

TEST_CASE("a rank whose stream has ended gets empty batches", "[train]") {
  std::array<std::vector<int64_t>, 2> sizes;
  run_ranks(2, [&](ThreadCollective& control, ThreadGroup&) {
    FakeStream source({4, 2}, FakeStream::End::kWithLast);
    LoaderOptions options = by_two();
    options.rank = {.rank = control.rank(), .size = 2};
    DataStream data(source, options);
    WindowFeed feed(parts_of(data, control, 2));
    feed.begin_epoch(0);
    if (feed.open_next() == NextWindow::kOpen) {
      for (const Microbatch& microbatch : feed.take_microbatches()) {
        sizes[control.rank()].push_back(microbatch.batch.samples);
      }
      feed.report_end_of_window();
    }
  });
  CHECK(sizes[0] == std::vector<int64_t>{2, 2});
  CHECK(sizes[1] == std::vector<int64_t>{2, 0});
}

}  // namespace tenon
