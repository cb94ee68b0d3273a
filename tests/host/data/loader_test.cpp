// SPDX-License-Identifier: Apache-2.0

#include "host/data/loader.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

std::vector<int64_t> first_numbers(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// ---- map style ----

TEST_CASE("each sample comes once an epoch, whatever size, batch and ranks", "[data]") {
  for (const int64_t n : {1, 2, 5, 16, 37}) {
    for (const int64_t batch_size : {1, 3, 8}) {
      for (const int64_t ranks : {1, 2, 3}) {
        CAPTURE(n, batch_size, ranks);
        std::vector<int64_t> all;
        std::optional<size_t> num_batches;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          FakeMap source(n);
          Loader loader(source,
                        std::nullopt,
                        0,
                        {.batch_size = batch_size, .rank = {rank, ranks}, .shuffle = true});
          const Batches batches = drain(loader);
          // All ranks join in every global batch.
          CHECK(batches.size() == num_batches.value_or(batches.size()));
          num_batches = batches.size();
          for (const std::vector<int64_t>& batch : batches) {
            all.insert(all.end(), batch.begin(), batch.end());
          }
          CHECK(loader.position().cursor == n);
        }
        std::sort(all.begin(), all.end());
        CHECK(all == first_numbers(n));
      }
    }
  }
}

TEST_CASE("the order is the same for any number of threads, and for none", "[data]") {
  const auto batches = [](int num_threads, int prefetch) {
    FakeMap source(101);
    Loader loader(source,
                  std::nullopt,
                  3,
                  {.batch_size = 4,
                   .shuffle = true,
                   .seed = 5,
                   .num_threads = num_threads,
                   .prefetch = prefetch});
    Batches all = drain(loader);
    CHECK_FALSE(source.was_unsafe);
    return all;
  };
  const Batches expected = batches(0, 1);
  CHECK(expected.size() == 26);
  CHECK(expected.back().size() == 1);
  for (const int num_threads : {1, 2, 4}) {
    for (const int prefetch : {1, 3, 50}) {
      CAPTURE(num_threads, prefetch);
      CHECK(batches(num_threads, prefetch) == expected);
    }
  }
}

TEST_CASE("a global batch holds the same samples for any number of ranks", "[data]") {
  const auto global_batch = [](int64_t ranks) {
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      FakeMap source(1000);
      Loader loader(source,
                    std::nullopt,
                    0,
                    {.batch_size = 24 / ranks, .rank = {rank, ranks}, .shuffle = true});
      const std::vector<int64_t> batch = samples_of(*loader.next());
      all.insert(all.end(), batch.begin(), batch.end());
    }
    return all;
  };
  CHECK(global_batch(1) == global_batch(2));
  CHECK(global_batch(1) == global_batch(3));
}

TEST_CASE("a loader that starts at a position goes on like one that never stopped", "[data]") {
  const LoaderOptions options{.batch_size = 3, .rank = {1, 2}, .shuffle = true, .seed = 9};
  FakeMap source(40);
  Loader whole(source, std::nullopt, 1, options);
  const Batches expected = drain(whole);
  for (size_t done = 0; done <= expected.size(); ++done) {
    for (const int num_threads : {0, 2}) {
      CAPTURE(done, num_threads);
      LoaderOptions threaded = options;
      threaded.num_threads = num_threads;
      threaded.prefetch = 4;
      LoaderPosition position;
      {
        Loader first(source, std::nullopt, 1, threaded);
        for (size_t i = 0; i < done; ++i) {
          first.next();
        }
        first.has_next();  // looks ahead, and consumes nothing
        position = first.position();
      }
      CHECK(position.cursor == std::min<int64_t>(40, 6 * static_cast<int64_t>(done)));
      Loader second(source, std::nullopt, 1, threaded, position);
      CHECK(second.num_batches_left() == static_cast<int64_t>(expected.size() - done));
      const Batches rest = drain(second);
      CHECK(rest == Batches(expected.begin() + static_cast<ptrdiff_t>(done), expected.end()));
    }
  }
}

TEST_CASE("other ranks can go on from a position, and no sample is lost", "[data]") {
  std::vector<int64_t> all;
  LoaderPosition position;
  for (int64_t rank = 0; rank < 3; ++rank) {
    FakeMap source(50);
    Loader loader(source, std::nullopt, 0, {.batch_size = 4, .rank = {rank, 3}, .shuffle = true});
    for (int i = 0; i < 2; ++i) {
      const std::vector<int64_t> batch = samples_of(*loader.next());
      all.insert(all.end(), batch.begin(), batch.end());
    }
    position = loader.position();
  }
  for (int64_t rank = 0; rank < 2; ++rank) {
    FakeMap source(50);
    Loader loader(
        source, std::nullopt, 0, {.batch_size = 5, .rank = {rank, 2}, .shuffle = true}, position);
    const std::vector<int64_t> rest = drain_samples(loader);
    all.insert(all.end(), rest.begin(), rest.end());
  }
  std::sort(all.begin(), all.end());
  CHECK(all == first_numbers(50));
}

TEST_CASE("a rank without a sample in the last global batch joins with an empty one", "[data]") {
  FakeMap source(5);
  Loader loader(source, std::nullopt, 0, {.batch_size = 1, .rank = {2, 4}});
  CHECK(loader.next()->samples == 1);
  const std::optional<Batch> last = loader.next();
  REQUIRE(last.has_value());
  CHECK(last->samples == 0);
  CHECK(last->find("sample") == nullptr);
  CHECK(source.num_reads == 1);  // the dataset was not asked
  CHECK_FALSE(loader.next().has_value());
}

TEST_CASE("a last global batch that is not full is dropped and counted where that is asked",
          "[data]") {
  FakeMap source(29);
  Loader loader(source, std::nullopt, 0, {.batch_size = 4, .last = Remainder::kDrop});
  CHECK(loader.num_dropped() == 1);
  CHECK(drain_samples(loader) == first_numbers(28));

  Loader by_step(
      source, std::nullopt, 0, {.batch_size = 4, .last = Remainder::kDrop, .samples_per_step = 12});
  CHECK(by_step.num_dropped() == 5);
  CHECK(by_step.num_batches_left() == 6);
  CHECK(drain_samples(by_step) == first_numbers(24));
}

TEST_CASE("no samples make no batches", "[data]") {
  for (const int num_threads : {0, 2}) {
    FakeMap source(0);
    Loader loader(source, std::nullopt, 0, {.shuffle = true, .num_threads = num_threads});
    CHECK_FALSE(loader.has_next());
    CHECK_FALSE(loader.next().has_value());
    CHECK(loader.num_samples() == 0);
    CHECK(source.num_reads == 0);
  }
}

TEST_CASE("a huge window starts anywhere at once", "[data]") {
  FakeMap source(kMostSamples);
  Loader loader(source,
                std::nullopt,
                0,
                {.batch_size = 8, .shuffle = true, .num_threads = 1},
                {.cursor = kMostSamples - 12});
  CHECK(loader.num_batches_left() == 2);
  CHECK(drain_samples(loader).size() == 12);
}

TEST_CASE("a dataset that says it has more samples than there can be is refused", "[data]") {
  FakeMap source(kMostSamples + 1);
  CHECK_THROWS_WITH(Loader(source, std::nullopt, 0, {}),
                    contains_text("plugin.bad_result") && contains_text("at most 2^62"));
}

TEST_CASE("evaluation reads in order, short at the end, and no more than asked", "[data]") {
  const LoaderOptions training{.batch_size = 4,
                               .last = Remainder::kDrop,
                               .samples_per_step = 8,
                               .shuffle = true,
                               .num_threads = 2,
                               .prefetch = 8};
  FakeMap source(30);
  Loader whole(source, std::nullopt, 0, for_evaluation(training, std::nullopt));
  CHECK(drain_samples(whole) == first_numbers(30));
  CHECK(source.num_reads == 8);

  Loader some(source, std::nullopt, 0, for_evaluation(training, 3));
  CHECK(some.num_batches_left() == 3);
  CHECK(drain_samples(some) == first_numbers(12));
  CHECK(some.num_batches_left() == 0);
  CHECK(source.num_reads == 8 + 3);

  Loader none(source, std::nullopt, 0, for_evaluation(training, 0));
  CHECK_FALSE(none.has_next());
}

TEST_CASE("an error of a read comes at the batch where it arose, and stays", "[data]") {
  for (const int num_threads : {0, 1, 4}) {
    CAPTURE(num_threads);
    FakeMap source(100);
    source.broken = {42};
    Loader loader(
        source, std::nullopt, 0, {.batch_size = 4, .num_threads = num_threads, .prefetch = 30});
    for (int i = 0; i < 10; ++i) {
      REQUIRE(loader.has_next());
      CHECK(samples_of(*loader.next()).front() == 4 * i);
    }
    CHECK(loader.has_next());
    CHECK(loader.position().cursor == 40);
    CHECK_THROWS_WITH(loader.next(), "[plugin.failed] sample 42 cannot be read");
    CHECK_THROWS_WITH(loader.next(), "[plugin.failed] sample 42 cannot be read");
    CHECK(loader.position().cursor == 40);
    CHECK_FALSE(source.was_unsafe);
  }
}

TEST_CASE("a loader can be given up at any time", "[data]") {
  for (int taken = 0; taken < 20; ++taken) {
    FakeMap source(1000);
    Loader loader(source, std::nullopt, 0, {.batch_size = 2, .num_threads = 3, .prefetch = 6});
    for (int i = 0; i < taken; ++i) {
      loader.next();
    }
    CHECK_FALSE(source.was_unsafe);
  }
}

// ---- stream style ----

using End = FakeStream::End;

TEST_CASE("shards take turns, and those that have ended are passed over", "[data]") {
  const Batches expected = {{0, 1}, {1000, 1001}, {2000}, {2, 3}, {1002}, {4}};
  for (const End end : {End::kWithLast, End::kAfterLast}) {
    for (const int num_threads : {0, 1, 2, 4}) {
      for (const int prefetch : {1, 2, 5, 20}) {
        CAPTURE(num_threads, prefetch);
        FakeStream source({5, 3, 1}, end);
        Loader loader(source,
                      std::nullopt,
                      0,
                      {.batch_size = 2, .num_threads = num_threads, .prefetch = prefetch});
        CHECK(drain(loader) == expected);
        CHECK_FALSE(source.was_unsafe);
        CHECK(source.num_seeks == 3);
        for (const ShardPosition& shard : loader.position().shards) {
          CHECK(shard.has_ended);
        }
        CHECK_FALSE(loader.num_batches_left().has_value());
        CHECK_FALSE(loader.num_samples().has_value());
      }
    }
  }
}

TEST_CASE("ranks take different shards, together all of them", "[data]") {
  const std::vector<int64_t> sizes = {7, 0, 12, 3, 5};
  for (const int64_t ranks : {1, 2, 3, 5}) {
    std::vector<int64_t> all;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      FakeStream source(sizes, End::kAfterLast);
      Loader loader(source,
                    std::nullopt,
                    0,
                    {.batch_size = 4, .rank = {rank, ranks}, .num_threads = 2, .prefetch = 3});
      for (const ShardPosition& shard : loader.position().shards) {
        CHECK(shard.shard % ranks == rank);
      }
      const std::vector<int64_t> mine = drain_samples(loader);
      all.insert(all.end(), mine.begin(), mine.end());
    }
    std::sort(all.begin(), all.end());
    CHECK(all.size() == 27);
    CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  }
}

TEST_CASE("fewer shards than ranks is an error that says so", "[data]") {
  FakeStream source({4, 4}, End::kWithLast);
  CHECK_THROWS_WITH(Loader(source, std::nullopt, 0, {.rank = {0, 3}}),
                    contains_text("[data.empty] dataset \"fake\": it has 2 shards for 3 ranks"));
}

TEST_CASE("a stream that starts at a position goes on like one that never stopped", "[data]") {
  for (const End end : {End::kWithLast, End::kAfterLast}) {
    const LoaderOptions options{.batch_size = 2};
    FakeStream source({9, 2, 0, 6, 4}, end);
    Batches expected;
    {
      Loader whole(source, std::nullopt, 0, options);
      expected = drain(whole);
    }
    for (size_t done = 0; done <= expected.size(); ++done) {
      for (const int num_threads : {0, 1, 3}) {
        for (const bool looks_ahead : {false, true}) {
          CAPTURE(done, num_threads, looks_ahead);
          LoaderOptions threaded = options;
          threaded.num_threads = num_threads;
          threaded.prefetch = 4;
          LoaderPosition position;
          {
            Loader first(source, std::nullopt, 0, threaded);
            for (size_t i = 0; i < done; ++i) {
              first.next();
            }
            if (looks_ahead) {
              CHECK(first.has_next() == (done < expected.size()));
            }
            position = first.position();
          }
          Loader second(source, std::nullopt, 0, threaded, position);
          const Batches rest = drain(second);
          CHECK(rest == Batches(expected.begin() + static_cast<ptrdiff_t>(done), expected.end()));
          CHECK_FALSE(source.was_unsafe);
        }
      }
    }
  }
}

TEST_CASE("a stream's short batch at a shard's end is dropped and counted where that is asked",
          "[data]") {
  FakeStream source({5, 3, 4}, End::kWithLast);
  Loader loader(source, std::nullopt, 0, {.batch_size = 2, .last = Remainder::kDrop});
  CHECK(drain(loader) == Batches{{0, 1}, {1000, 1001}, {2000, 2001}, {2, 3}, {2002, 2003}});
  CHECK(loader.num_dropped() == 2);
}

TEST_CASE("a stream without samples makes no batches", "[data]") {
  for (const int num_threads : {0, 2}) {
    FakeStream source({0, 0, 0}, End::kAfterLast);
    Loader loader(source, std::nullopt, 0, {.num_threads = num_threads, .prefetch = 2});
    CHECK_FALSE(loader.has_next());
    CHECK_FALSE(loader.next().has_value());
  }
}

TEST_CASE("a stream's evaluation ends after the batches that were asked for", "[data]") {
  FakeStream source({100, 100}, End::kWithLast);
  Loader loader(source,
                std::nullopt,
                0,
                for_evaluation({.batch_size = 10, .num_threads = 2, .prefetch = 4}, 3));
  CHECK(drain(loader).size() == 3);
  CHECK_FALSE(loader.has_next());
}

TEST_CASE("an error of a stream's read comes at the batch where it arose", "[data]") {
  for (const int num_threads : {0, 1, 3}) {
    CAPTURE(num_threads);
    FakeStream source({6, 6}, End::kWithLast);
    source.broken = {1002};
    Loader loader(
        source, std::nullopt, 0, {.batch_size = 2, .num_threads = num_threads, .prefetch = 6});
    CHECK(samples_of(*loader.next()) == std::vector<int64_t>{0, 1});
    CHECK(samples_of(*loader.next()) == std::vector<int64_t>{1000, 1001});
    CHECK(samples_of(*loader.next()) == std::vector<int64_t>{2, 3});
    CHECK(loader.has_next());
    CHECK_THROWS_WITH(loader.next(), "[plugin.failed] sample 1002 cannot be read");
    CHECK_THROWS_AS(loader.next(), Error);
  }
}

// A stream that does not keep its word.
class Liar final : public FakeSource {
 public:
  enum class Lie { kNothingAndNoEnd, kNoPosition };
  explicit Liar(Lie lie) : FakeSource(DatasetStyle::kStream), lie_(lie) {}

  void seek(const Window*, uint32_t, const std::optional<std::string>&) override {}
  bool next(const Window*, uint32_t, int64_t, tenon_batch_writer& writer) override {
    if (lie_ == Lie::kNoPosition) {
      write_samples(writer, std::vector<int64_t>{1});
    }
    return false;
  }

 private:
  Lie lie_;
};

TEST_CASE("a stream that gives nothing and does not end is an error, not a hang", "[data]") {
  Liar source(Liar::Lie::kNothingAndNoEnd);
  Loader loader(source, std::nullopt, 0, {.num_threads = 1});
  CHECK_THROWS_WITH(loader.next(),
                    contains_text("[data.bad_batch] dataset \"fake\": a read of shard 0 returned "
                                  "no sample"));
}

TEST_CASE("a stream that leaves no position is an error", "[data]") {
  Liar source(Liar::Lie::kNoPosition);
  Loader loader(source, std::nullopt, 0, {});
  CHECK_THROWS_WITH(loader.next(), contains_text("set no position"));
}

}  // namespace
}  // namespace tenon
