// SPDX-License-Identifier: Apache-2.0

#include "host/data/data_stream.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using End = FakeStream::End;

std::vector<Window> three_windows_and_a_skipped_one() {
  return {make_window(11, "mon", 5),
          make_window(12, "tue", 4, true),
          make_window(13, "wed", 0),
          make_window(14, "thu", 3)};
}

// Goes through `num_epochs` from where the stream stands, calling `at_batch` after each batch with
// their number so far, until it says no; gives all samples, with a -1 for each window that opens.
std::vector<int64_t> walk(
    DataStream& stream, uint64_t num_epochs, const std::function<bool(int)>& at_batch = [](int) {
      return true;
    }) {
  std::vector<int64_t> all;
  int num_batches = 0;
  if (!stream.epoch()) {
    stream.begin_epoch(0);
  }
  while (true) {
    while (stream.has_window() || stream.next_window()) {
      while (const std::optional<Batch> batch = stream.loader().next()) {
        const std::vector<int64_t> samples = samples_of(*batch);
        all.insert(all.end(), samples.begin(), samples.end());
        if (!at_batch(++num_batches)) {
          return all;
        }
      }
      stream.close_window();
      all.push_back(-1);
    }
    if (*stream.epoch() + 1 >= num_epochs) {
      return all;
    }
    stream.begin_epoch(*stream.epoch() + 1);
  }
}

TEST_CASE("data without windows is one window an epoch", "[data]") {
  FakeMap source(5);
  DataStream stream(source, {.batch_size = 2});
  CHECK_FALSE(stream.epoch().has_value());
  for (const uint64_t epoch : {0, 1}) {
    stream.begin_epoch(epoch);
    CHECK(stream.epoch() == epoch);
    CHECK_FALSE(stream.has_window());
    REQUIRE(stream.next_window());
    CHECK(stream.has_window());
    CHECK(stream.window_number() == 0);
    CHECK(stream.window_label() == "");
    CHECK_FALSE(stream.window().has_value());
    CHECK(drain_samples(stream.loader()).size() == 5);
    CHECK_FALSE(stream.next_window());
    CHECK_FALSE(stream.has_window());
    CHECK_FALSE(stream.next_window());
  }
  CHECK(source.resets == std::vector<uint64_t>{0, 1});
}

TEST_CASE("windows come in order, and skipped ones are counted", "[data]") {
  FakeMap source(0);
  source.set_windows(three_windows_and_a_skipped_one());
  DataStream stream(source, {.batch_size = 2, .num_threads = 2, .prefetch = 3});
  for (const uint64_t epoch : {0, 1}) {
    stream.begin_epoch(epoch);
    CHECK(stream.num_skipped() == 0);

    REQUIRE(stream.next_window());
    CHECK(stream.window_label() == "mon");
    CHECK(stream.window()->id() == 11);
    CHECK(stream.window_number() == 0);
    CHECK(drain_samples(stream.loader()).size() == 5);

    REQUIRE(stream.next_window());  // an empty one
    CHECK(stream.window_label() == "wed");
    CHECK(stream.window_number() == 2);
    CHECK(stream.num_skipped() == 1);
    CHECK_FALSE(stream.loader().has_next());

    REQUIRE(stream.next_window());
    CHECK(stream.window_label() == "thu");
    CHECK(samples_of(*stream.loader().next()).size() == 2);

    // The window is left before its end.
    CHECK_FALSE(stream.next_window());
    CHECK(stream.window_label() == "");
  }
  CHECK_FALSE(source.was_unsafe);
}

TEST_CASE("each epoch and each window is shuffled in an order of its own", "[data]") {
  FakeMap source(0);
  source.set_windows({make_window(1, "a", 50), make_window(2, "b", 50)});
  DataStream stream(source, {.batch_size = 50, .shuffle = true, .seed = 3});
  std::set<std::vector<int64_t>> orders;
  for (const uint64_t epoch : {0, 1}) {
    stream.begin_epoch(epoch);
    while (stream.next_window()) {
      std::vector<int64_t> order = drain_samples(stream.loader());
      for (int64_t& sample : order) {
        sample %= 1'000'000;
      }
      orders.insert(order);
      std::sort(order.begin(), order.end());
      CHECK(std::unique(order.begin(), order.end()) - order.begin() == 50);
    }
  }
  CHECK(orders.size() == 4);
}

TEST_CASE("a limit of batches holds over all windows of an epoch", "[data]") {
  FakeMap source(0);
  source.set_windows({make_window(1, "a", 4), make_window(2, "b", 4), make_window(3, "c", 4)});
  DataStream stream(source, for_evaluation({.batch_size = 2, .shuffle = true}, 3));
  for (int i = 0; i < 2; ++i) {
    stream.begin_epoch(0);
    CHECK(stream.next_window());
    CHECK(drain(stream.loader()).size() == 2);
    CHECK(stream.next_window());
    CHECK(drain_samples(stream.loader()) == std::vector<int64_t>{2'000'000, 2'000'001});
    CHECK_FALSE(stream.next_window());
  }
}

struct Kind {
  std::string name;
  std::function<std::unique_ptr<FakeSource>()> make;
};

std::vector<Kind> all_kinds() {
  return {{"map", [] { return std::make_unique<FakeMap>(23); }},
          {"map with windows",
           [] {
             auto source = std::make_unique<FakeMap>(0);
             source->set_windows(three_windows_and_a_skipped_one());
             return source;
           }},
          {"stream",
           [] {
             return std::make_unique<FakeStream>(std::vector<int64_t>{7, 0, 4, 9}, End::kAfterLast);
           }},
          {"stream with windows", [] {
             auto source = std::make_unique<FakeStream>(std::vector<int64_t>{3, 2}, End::kWithLast);
             source->set_windows({make_window(7, "x", -1), make_window(8, "y", -1)});
             return source;
           }}};
}

TEST_CASE("a run that stops after any batch and resumes sees what one that went on sees",
          "[data]") {
  for (const Kind& kind : all_kinds()) {
    for (const int num_threads : {0, 2}) {
      const LoaderOptions options{
          .batch_size = 2, .shuffle = true, .seed = 4, .num_threads = num_threads, .prefetch = 5};
      const std::unique_ptr<FakeSource> source = kind.make();
      DataStream whole(*source, options);
      int num_batches = 0;
      const std::vector<int64_t> expected = walk(whole, 2, [&](int number) {
        num_batches = number;
        return true;
      });
      REQUIRE(num_batches > 8);

      for (int stop = 1; stop <= num_batches; ++stop) {
        CAPTURE(kind.name, num_threads, stop);
        StateTree tree;
        std::vector<int64_t> seen;
        {
          const std::unique_ptr<FakeSource> before = kind.make();
          DataStream first(*before, options);
          seen = walk(first, 2, [&](int number) { return number < stop; });
          first.snapshot(tree, "data/train");
        }
        const std::unique_ptr<FakeSource> after = kind.make();
        DataStream second(*after, options);
        second.load(tree, "data/train");
        CHECK(second.has_window());

        StateTree again;
        second.snapshot(again, "data/train");
        CHECK(again == tree);

        const std::vector<int64_t> rest = walk(second, 2);
        seen.insert(seen.end(), rest.begin(), rest.end());
        CHECK(seen == expected);
        CHECK_FALSE(after->was_unsafe);
      }
    }
  }
}

TEST_CASE("a state between windows or epochs is gone on from there", "[data]") {
  const auto copy_of = [](const DataStream& from, FakeSource& source) {
    StateTree tree;
    from.snapshot(tree, "");
    auto to = std::make_unique<DataStream>(source, LoaderOptions{.batch_size = 2});
    to->load(tree, "");
    return to;
  };
  FakeMap source(0);
  source.set_windows(three_windows_and_a_skipped_one());
  FakeMap other(0);
  other.set_windows(three_windows_and_a_skipped_one());
  DataStream stream(source, {.batch_size = 2});

  CHECK_FALSE(copy_of(stream, other)->epoch().has_value());

  stream.begin_epoch(4);
  auto at_start = copy_of(stream, other);
  CHECK(at_start->epoch() == 4);
  CHECK_FALSE(at_start->has_window());
  CHECK(at_start->next_window());
  CHECK(at_start->window_label() == "mon");
  at_start.reset();

  CHECK(stream.next_window());
  CHECK(stream.next_window());
  stream.close_window();
  auto between = copy_of(stream, other);
  CHECK_FALSE(between->has_window());
  CHECK(between->num_skipped() == 1);
  CHECK(between->next_window());
  CHECK(between->window_label() == "thu");
  CHECK(between->window_number() == 3);
  between.reset();

  CHECK(stream.next_window());
  CHECK_FALSE(stream.next_window());
  auto at_end = copy_of(stream, other);
  CHECK(at_end->epoch() == 4);
  CHECK_FALSE(at_end->next_window());
}

TEST_CASE("windows are known by their ids, wherever they stand by now", "[data]") {
  FakeMap source(0);
  source.set_windows({make_window(1, "a", 3),
                      make_window(2, "b", 3),
                      make_window(1, "a", 3),
                      make_window(3, "c", 3),
                      make_window(4, "d", 3)});
  DataStream stream(source, {.batch_size = 2});
  stream.begin_epoch(0);
  CHECK(stream.next_window());
  CHECK(stream.next_window());
  CHECK(stream.next_window());
  CHECK(stream.window_label() == "c");  // the second "a" is left out
  CHECK(stream.num_repeated() == 1);
  CHECK(stream.window_number() == 2);
  stream.loader().next();
  StateTree tree;
  stream.snapshot(tree, "data");

  // The first one is gone by now, one has come late, and more have come at the end.
  FakeMap later(0);
  later.set_windows({make_window(2, "b", 3),
                     make_window(9, "late", 3),
                     make_window(3, "c", 3),
                     make_window(2, "b", 3),
                     make_window(4, "d", 3),
                     make_window(5, "e", 3)});
  DataStream resumed(later, {.batch_size = 2});
  resumed.load(tree, "data");
  CHECK(resumed.window_label() == "c");
  CHECK(resumed.window_number() == 2);
  CHECK(resumed.opened_number() == 2);
  CHECK(samples_of(*resumed.loader().next()) == std::vector<int64_t>{3000002});
  CHECK(resumed.next_window());
  CHECK(resumed.window_label() == "d");
  CHECK(resumed.num_repeated() == 2);
  CHECK(resumed.next_window());
  CHECK(resumed.window_label() == "e");
  CHECK_FALSE(resumed.next_window());
}

TEST_CASE("windows are left out by label, pattern or id", "[data]") {
  FakeMap source(0);
  source.set_windows({make_window(1, "2026-11-19/23", 3),
                      make_window(2, "2026-11-20/00", 3),
                      make_window(3, "2026-11-20/01", 3),
                      make_window(4, "2026-11-21/00", 3)});
  DataStream stream(
      source,
      {.batch_size = 2},
      SkipList({WindowName("2026-11-20/*"), WindowName(uint64_t{4}), WindowName("x")}));
  stream.begin_epoch(0);
  CHECK(stream.next_window());
  CHECK(stream.window_label() == "2026-11-19/23");
  CHECK_FALSE(stream.next_window());
  CHECK(stream.num_skipped() == 3);
  CHECK(stream.excluded().unmatched() == std::vector<std::string>{"\"x\""});
}

TEST_CASE("a window that is not there yet is asked for again", "[data]") {
  FakeMap source(0);
  source.set_windows({pending_window(7), make_window(1, "a", 3), pending_window(8)});
  DataStream stream(source, {.batch_size = 2});
  stream.begin_epoch(0);
  CHECK_FALSE(stream.next_window());
  CHECK(stream.ask_again() == std::chrono::milliseconds(7));
  CHECK(stream.next_window());
  CHECK_FALSE(stream.ask_again().has_value());
  CHECK(stream.window_number() == 0);
  StateTree before;
  stream.snapshot(before, "");
  stream.take_back_window();
  StateTree tree;
  stream.snapshot(tree, "");
  CHECK_FALSE(stream.next_window());
  CHECK(stream.ask_again() == std::chrono::milliseconds(8));
  CHECK_FALSE(stream.next_window());
  CHECK_FALSE(stream.ask_again().has_value());

  FakeMap other(0);
  other.set_windows({make_window(1, "a", 3)});
  DataStream resumed(other, {.batch_size = 2});
  resumed.load(tree, "");
  CHECK(resumed.next_window());  // it was taken back
  resumed.load(before, "");
  CHECK(resumed.has_window());
}

TEST_CASE("a window is read with other options before it is read", "[data]") {
  FakeMap map(0);
  map.set_windows({make_window(1, "a", 5)});
  FakeStream shards({3, 2}, End::kWithLast);
  for (FakeSource* const source :
       {static_cast<FakeSource*>(&map), static_cast<FakeSource*>(&shards)}) {
    const auto read = [](DataStream& stream) {
      std::vector<int64_t> all;
      while (const std::optional<Batch> batch = stream.loader().next()) {
        const std::vector<int64_t> samples = samples_of(*batch);
        all.insert(all.end(), samples.begin(), samples.end());
      }
      return all;
    };
    const LoaderOptions options{.batch_size = 2, .shuffle = true, .seed = 3, .num_threads = 2};
    DataStream plain(*source, options);
    plain.begin_epoch(0);
    CHECK(plain.next_window());
    const std::vector<int64_t> expected = read(plain);
    plain.close_window();

    DataStream stream(*source, options);
    stream.begin_epoch(0);
    CHECK(stream.next_window());
    stream.use_options(for_evaluation(options, std::nullopt));
    std::vector<int64_t> first = read(stream);
    stream.resume_options();
    CHECK(read(stream) == expected);
    if (source == &map) {
      CHECK(first == std::vector<int64_t>{1000000, 1000001, 1000002, 1000003, 1000004});
    } else {
      CHECK(first == expected);
    }
    CHECK_FALSE(source->was_unsafe);
  }
}

TEST_CASE("data that is not what it was is refused on resume", "[data]") {
  const auto resume = [](FakeSource& before, FakeSource& after) {
    StateTree tree;
    DataStream first(before, {.batch_size = 2});
    first.begin_epoch(0);
    first.next_window();
    first.next_window();
    if (!first.has_window()) {
      first.begin_epoch(0);
      first.next_window();
    }
    first.loader().next();
    first.snapshot(tree, "data");
    DataStream second(after, {.batch_size = 2});
    second.load(tree, "data");
  };
  const auto with_windows = [](std::vector<Window> windows) {
    auto source = std::make_unique<FakeMap>(0);
    source->set_windows(std::move(windows));
    return source;
  };
  const auto ab = [&] { return with_windows({make_window(1, "a", 4), make_window(2, "b", 4)}); };

  FakeMap ten(10);
  FakeMap eleven(11);
  CHECK_NOTHROW(resume(ten, ten));
  CHECK_THROWS_WITH(resume(ten, eleven),
                    contains_text("[data.changed]") &&
                        contains_text("it has 11 samples, and had 10 at the checkpoint"));

  CHECK_NOTHROW(resume(*ab(), *ab()));
  CHECK_THROWS_WITH(
      resume(*ab(), *with_windows({make_window(1, "a", 4), make_window(3, "c", 4)})),
      contains_text("[data.changed]") &&
          contains_text(
              "window number 1 of epoch 0, b (id 2), in which the checkpoint was taken, no "
              "longer exists"));
  CHECK_THROWS_WITH(resume(*ab(), *with_windows({make_window(1, "a", 4), pending_window(1)})),
                    contains_text("[data.changed]"));

  FakeStream two({4, 4}, End::kWithLast);
  FakeStream three({4, 4, 4}, End::kWithLast);
  CHECK_NOTHROW(resume(two, two));
  CHECK_THROWS_WITH(resume(two, three),
                    contains_text("[data.changed]") &&
                        contains_text("it has 3 shards, and had 2 at the checkpoint"));
  CHECK_THROWS_WITH(resume(two, ten),
                    contains_text("[data.bad_state]") && contains_text("another style"));
}

TEST_CASE("a state that makes no sense is refused", "[data]") {
  FakeMap source(10);
  DataStream stream(source, {});
  CHECK_THROWS_WITH(stream.load(StateTree(), "data"), contains_text("data.bad_state"));

  StateTree newer;
  newer.set_version("data", 3);
  CHECK_THROWS_WITH(stream.load(newer, "data"),
                    contains_text("version 3, this host knows 2; resume with the release"));

  StateTree beyond;
  beyond.set_version("data", 2);
  beyond.put_int("data/style", TENON_DATASET_MAP);
  beyond.put_int("data/has_epoch", 1);
  beyond.put_int("data/epoch", 0);
  for (const char* const count : {"windows", "opened", "skipped", "repeated"}) {
    beyond.put_int(state_path("data", count), 1);
  }
  beyond.put_tensor("data/seen", at::empty({0}, at::kLong), StateTree::Copy::kNo);
  beyond.put_int("data/has_window", 1);
  beyond.put_int("data/samples", 10);
  beyond.put_int("data/cursor", 11);
  CHECK_THROWS_WITH(stream.load(beyond, "data"),
                    contains_text("[data.bad_state]") && contains_text("from 0 to 10"));
}

TEST_CASE("shards of other ranks in a state are left to them", "[data]") {
  StateTree tree;
  for (int64_t rank = 0; rank < 2; ++rank) {
    FakeStream source({4, 4, 4, 4}, End::kWithLast);
    DataStream stream(source, {.batch_size = 2, .rank = {rank, 2}});
    stream.begin_epoch(0);
    stream.next_window();
    stream.loader().next();
    stream.loader().next();
    StateTree one;
    stream.snapshot(one, "data");
    tree.set_version("data", 2);
    for (const auto& [name, entry] : one.entries()) {
      const bool is_per_shard = entry.scope == TENON_STATE_PER_SHARD;
      CHECK(is_per_shard == (name.find("/shards/") != std::string::npos));
      if (!is_per_shard && rank > 0) {
        continue;  // equal on all ranks
      }
      if (const auto* const value = std::get_if<int64_t>(&entry.value)) {
        tree.put_int(name, *value, entry.scope);
      } else if (const auto* const tensor = std::get_if<at::Tensor>(&entry.value)) {
        tree.put_tensor(name, *tensor, StateTree::Copy::kNo, entry.scope);
      } else {
        tree.put_bytes(name, std::get<std::string>(entry.value), entry.scope);
      }
    }
  }
  // One rank goes on with what two have left.
  FakeStream source({4, 4, 4, 4}, End::kWithLast);
  DataStream stream(source, {.batch_size = 2});
  stream.load(tree, "data");
  CHECK(drain_samples(stream.loader()) ==
        std::vector<int64_t>{2, 3, 1002, 1003, 2002, 2003, 3002, 3003});
}

}  // namespace
}  // namespace tenon
