// SPDX-License-Identifier: Apache-2.0
#include "host/train/window_feed.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <numeric>
#include <optional>

#include "tests/host/data/fake_source.hpp"
#include "tests/host/train/loop_rig.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// A feed of a source, in batches of two.
struct FeedRig {
  explicit FeedRig(DataSource& source, int64_t microbatches = 1, RankGroups* ranks = nullptr)
      : run(8, {}, ranks) {
    run.train_source = &source;
    run.options.rank = {.rank = run.ranks.role().rank(), .size = run.ranks.role().num_ranks()};
    loop.emplace(run, microbatches);
  }
  explicit FeedRig(DataSource& source, DataSource& paired) {
    run.train_source = &source;
    run.has_eval = true;
    run.eval_from = &paired;
    run.recipe.eval.with_window = WithWindow::kAfter;
    loop.emplace(run);
  }

  WindowFeed& feed() { return loop->feed; }
  DataStream& data() { return run.data->train; }

  RunRig run;
  std::optional<LoopRig> loop;
};

std::vector<std::vector<int64_t>> samples_of(const std::vector<Microbatch>& microbatches) {
  std::vector<std::vector<int64_t>> samples;
  for (const Microbatch& microbatch : microbatches) {
    samples.push_back(samples_of(microbatch.batch));
  }
  return samples;
}

using Samples = std::vector<std::vector<int64_t>>;

// Votes on the next step, as the loop does.
bool has_another_step(WindowFeed& feed, RankGroups& ranks) {
  Agreement votes(ranks.all());
  feed.vote(votes);
  votes.start();
  return feed.hear(votes);
}

// The samples of each step over all ranks, in order of their numbers.
std::vector<std::vector<int64_t>> steps_of(uint32_t num_ranks,
                                           const std::vector<int64_t>& shard_sizes,
                                           FakeStream::End end,
                                           int64_t batches_per_step) {
  std::mutex mutex;
  std::vector<std::vector<int64_t>> steps;
  bool are_even = true;
  bool is_complete = true;
  run_ranks(num_ranks, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    FakeStream source(shard_sizes, end);
    FeedRig rig(source, batches_per_step / num_ranks, &ranks);
    WindowFeed& feed = rig.feed();
    feed.begin_epoch(0);
    feed.open_next();
    bool has_data = feed.start_reading();
    for (size_t step = 0; has_data; ++step) {
      const std::vector<Microbatch> microbatches = feed.take_microbatches();
      {
        const std::lock_guard lock(mutex);
        steps.resize(std::max(steps.size(), step + 1));
        for (const auto& samples : samples_of(microbatches)) {
          steps[step].insert(steps[step].end(), samples.begin(), samples.end());
        }
      }
      std::vector<int64_t> sizes(num_ranks, 0);
      sizes[control.rank()] = std::ssize(microbatches);
      control.all_reduce(sizes, Reduce::kSum, "microbatches");
      has_data = has_another_step(feed, ranks);
      const std::lock_guard lock(mutex);
      are_even = are_even && std::ranges::count(sizes, sizes.front()) == std::ssize(sizes);
    }
    const std::lock_guard lock(mutex);
    is_complete = is_complete && !rig.data().loader().has_next();
  });
  CHECK(are_even);
  CHECK(is_complete);
  for (std::vector<int64_t>& samples : steps) {
    std::ranges::sort(samples);
  }
  return steps;
}

}  // namespace

TEST_CASE("an accumulation ends with its window", "[train]") {
  FakeMap source(6);
  FeedRig rig(source, 2);
  WindowFeed& feed = rig.feed();
  feed.begin_epoch(0);
  REQUIRE(feed.open_next() == NextWindow::kOpen);
  CHECK(samples_of(feed.take_microbatches()) == Samples{{0, 1}, {2, 3}});
  CHECK(has_another_step(feed, rig.run.ranks));
  CHECK(feed.batch_bytes() > 0);
  CHECK(samples_of(feed.take_microbatches()) == Samples{{4, 5}});
  CHECK_FALSE(has_another_step(feed, rig.run.ranks));
  CHECK(feed.open_next() == NextWindow::kEnd);
}

TEST_CASE("windows are counted over epochs, and the label of the last one is kept", "[train]") {
  FakeMap source(2);
  source.set_windows({make_window(1, "mon", 2, true), make_window(2, "tue", 2)});
  FeedRig rig(source);
  WindowFeed& feed = rig.feed();
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
  FakeMap source(2);
  source.set_windows({make_window(1, "mon", 2), make_window(2, "tue", 2)});
  FakeMap paired_source(2);
  paired_source.set_windows({make_window(1, "mon", 2)});
  FeedRig rig(source, paired_source);
  WindowFeed& feed = rig.feed();
  feed.begin_epoch(0);
  CHECK(feed.open_next() == NextWindow::kOpen);
  CHECK(rig.run.eval_data().has_window());
  CHECK(feed.open_next() == NextWindow::kEnd);
  CHECK_FALSE(rig.data().has_window());
}

TEST_CASE("the first step's batches are repeated, as copies, and survive a checkpoint", "[train]") {
  FakeMap source(8);
  FeedRig rig(source, 2);
  rig.run.recipe.train.overfit_batch = true;
  WindowFeed& feed = rig.feed();
  feed.begin_epoch(0);
  REQUIRE(feed.open_next() == NextWindow::kOpen);
  std::vector<Microbatch> first = feed.take_microbatches();
  first[0].batch.fields[0].zero_();  // as a hook may
  CHECK(samples_of(feed.take_microbatches()) == Samples{{0, 1}, {2, 3}});
  CHECK_FALSE(has_another_step(feed, rig.run.ranks));  // windows end as without it
  StateTree tree;
  feed.put_fields(tree, "run");

  FeedRig other(source, 2);
  other.run.recipe.train.overfit_batch = true;
  WindowFeed& resumed = other.feed();
  resumed.get_fields(tree, "run");
  resumed.begin_epoch(1);
  REQUIRE(resumed.open_next() == NextWindow::kOpen);
  CHECK(samples_of(resumed.take_microbatches()) == Samples{{0, 1}, {2, 3}});
}

TEST_CASE("steps of a stream have the same samples on any number of ranks", "[train]") {
  using End = FakeStream::End;
  // Even shards; a shard without samples; shards that end early; fewer shards than batches a step.
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{8, 8, 8, 8, 8, 8},
                                            {5, 0, 9, 13, 2, 1},
                                            {0, 0, 0, 0, 0, 31},
                                            {40, 0, 3, 0, 0, 1, 7, 22, 1},
                                            {3, 4, 17}}) {
    for (const End end : {End::kWithLast, End::kAfterLast}) {
      const auto alone = steps_of(1, sizes, end, 6);
      size_t num_samples = 0;
      for (const auto& samples : alone) {
        num_samples += samples.size();
      }
      CHECK(num_samples == static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), 0)));
      CHECK(steps_of(2, sizes, end, 6) == alone);
      CHECK(steps_of(3, sizes, end, 6) == alone);
    }
  }
}

TEST_CASE("a rank whose stream has ended gets empty batches", "[train]") {
  std::array<std::vector<int64_t>, 2> sizes;
  std::array<bool, 2> has_more = {true, true};
  run_ranks(2, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    FakeStream source({4, 2}, FakeStream::End::kWithLast);
    FeedRig rig(source, 2, &ranks);
    WindowFeed& feed = rig.feed();
    feed.begin_epoch(0);
    if (feed.open_next() == NextWindow::kOpen && feed.start_reading()) {
      for (const Microbatch& microbatch : feed.take_microbatches()) {
        sizes[control.rank()].push_back(microbatch.batch.samples);
      }
      has_more[control.rank()] = has_another_step(feed, ranks);
      feed.report_end_of_window();
    }
  });
  CHECK(has_more == std::array<bool, 2>{});
  CHECK(sizes[0] == std::vector<int64_t>{2, 2});
  CHECK(sizes[1] == std::vector<int64_t>{2, 0});
}

}  // namespace tenon
