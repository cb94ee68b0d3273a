// SPDX-License-Identifier: Apache-2.0

#include "host/data/rank_sampler.hpp"

#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

TEST_CASE("every position is dealt exactly once, in order of the ranks", "[data]") {
  for (const int64_t n : {0, 1, 2, 3, 7, 8, 9, 23, 24, 25, 100}) {
    for (const int64_t batch_size : {1, 2, 3, 8}) {
      for (const int64_t ranks : {1, 2, 3, 5}) {
        CAPTURE(n, batch_size, ranks);
        int64_t cursor = 0;
        int64_t dealt = 0;
        int64_t microbatches = 0;
        const int64_t expected = RankSampler(n, batch_size, {0, ranks}).num_left(0);
        while (RankSampler(n, batch_size, {0, ranks}).has_share(cursor)) {
          int64_t after = 0;
          int64_t fewest = batch_size;
          int64_t most = 0;
          for (int64_t rank = 0; rank < ranks; ++rank) {
            const RankSampler sampler(n, batch_size, {rank, ranks});
            const Share share = sampler.share(cursor);
            CHECK(share.first == dealt);
            dealt += share.count;
            fewest = std::min(fewest, share.count);
            most = std::max(most, share.count);
            CHECK((rank == 0 || share.cursor_after == after));
            after = share.cursor_after;
            CHECK(sampler.num_left(cursor) == expected - microbatches);
          }
          CHECK(most <= batch_size);
          CHECK(most - fewest <= 1);
          CHECK(after == dealt);
          cursor = after;
          ++microbatches;
        }
        CHECK(dealt == n);
        CHECK(microbatches == expected);
        CHECK(RankSampler(n, batch_size, {0, ranks}).num_dropped(0) == 0);
      }
    }
  }
}

TEST_CASE("a rank's share of a whole global batch is its slice", "[data]") {
  const Share share = RankSampler(1000, 16, {2, 4}).share(640);
  CHECK(share.first == 640 + 32);
  CHECK(share.count == 16);
  CHECK(share.cursor_after == 704);
}

TEST_CASE("dropping keeps whole steps and counts the rest", "[data]") {
  // 2 ranks of 4 samples, 3 microbatches a step: a step is 24 samples.
  const RankSampler by_step(100, 4, {0, 2}, Remainder::kDrop, 24);
  CHECK(by_step.num_left(0) == 12);
  CHECK(by_step.num_left(48) == 6);
  CHECK(by_step.num_dropped(0) == 4);
  CHECK(by_step.num_dropped(48) == 4);
  CHECK_FALSE(by_step.has_share(96));

  const RankSampler by_microbatch(101, 4, {1, 2}, Remainder::kDrop);
  CHECK(by_microbatch.num_left(0) == 12);
  CHECK(by_microbatch.num_dropped(0) == 5);

  const RankSampler too_few(7, 4, {1, 2}, Remainder::kDrop);
  CHECK_FALSE(too_few.has_share(0));
  CHECK(too_few.num_dropped(0) == 7);
}

TEST_CASE("a position of another number of ranks can be gone on from", "[data]") {
  // 3 ranks of 5 came to 45; 2 ranks of 8 go on.
  const RankSampler short_one(100, 8, {1, 2});
  CHECK(short_one.share(45).first == 53);
  CHECK(short_one.num_left(45) == 4);
  CHECK(short_one.share(93).count == 3);  // of 7

  const RankSampler dropping(100, 8, {1, 2}, Remainder::kDrop);
  CHECK(dropping.num_left(45) == 3);  // 45 to 93; multiples of 16 end at 96
  CHECK(dropping.num_dropped(45) == 7);
  CHECK_FALSE(dropping.has_share(93));
}

TEST_CASE("huge windows are dealt without overflow", "[data]") {
  const int64_t n = kMostSamples;
  const RankSampler sampler(n, 1 << 20, {1023, 1024});
  CHECK(sampler.num_left(0) == n / (int64_t{1} << 30));
  const int64_t last = n - (int64_t{1} << 30);
  CHECK(sampler.share(last).first == n - (1 << 20));
  CHECK(sampler.share(last).cursor_after == n);
  CHECK_FALSE(sampler.has_share(n));

  const RankSampler one(n, kMostSamples, {0, 1});
  CHECK(one.share(0).count == n);
}

}  // namespace
}  // namespace tenon
