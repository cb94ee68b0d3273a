// SPDX-License-Identifier: Apache-2.0
#include "host/train/same_data.hpp"

#include "host/error/error.hpp"

#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/host/data/fake_source.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

// What each of three ranks says to sources of its own: "" where it finds no fault.
std::vector<std::string> compared(
    const std::function<std::unique_ptr<FakeSource>(uint32_t rank)>& source_of) {
  std::vector<std::string> said(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    const auto source = source_of(control.rank());
    DataSource* const sources[] = {source.get()};
    try {
      check_same_sources(sources, control);
    } catch (const Error& error) {
      said[control.rank()] = error.what();
    }
  });
  return said;
}

std::vector<Window> windows_of(const std::vector<int64_t>& sizes) {
  std::vector<Window> windows;
  for (size_t i = 0; i < sizes.size(); ++i) {
    windows.push_back(make_window(10 + i, "w" + std::to_string(i), sizes[i], i == 1));
  }
  return windows;
}

}  // namespace

TEST_CASE("a rank whose dataset is shorter is found, with both numbers", "[train]") {
  const auto equal = compared([](uint32_t) { return std::make_unique<FakeMap>(12); });
  CHECK(equal == std::vector<std::string>(3));
  const auto shorter =
      compared([](uint32_t rank) { return std::make_unique<FakeMap>(rank == 2 ? 11 : 12); });
  for (const std::string& said : shorter) {
    CHECK_THAT(said,
               contains_text("[data.differs] dataset \"fake\" is not the same on all ranks: rank 0 "
                             "has samples: 12, rank 2 has samples: 11"));
  }
  const auto shards = compared([](uint32_t rank) {
    return std::make_unique<FakeStream>(std::vector<int64_t>(rank == 0 ? 3 : 4, 5),
                                        FakeStream::End::kWithLast);
  });
  CHECK_THAT(shards[1], contains_text("rank 0 has shards: 3, rank 1 has shards: 4"));
}

TEST_CASE("ranks open the same windows, and read each sample once", "[train]") {
  std::vector<std::vector<int64_t>> samples(3);
  std::vector<std::vector<std::string>> labels(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    const uint32_t rank = control.rank();
    FakeMap source(0);
    source.set_windows(windows_of({7, 9, 2, 4}));
    LoaderOptions options;
    options.batch_size = 2;
    options.rank = {.rank = rank, .size = 3};
    options.shuffle = true;
    DataStream data(source, options);
    data.begin_epoch(0);
    while (next_window_together(data, control) == NextWindow::kOpen) {
      labels[rank].push_back(data.window_label());
      while (const std::optional<Batch> batch = data.loader().next()) {
        for (const int64_t sample : samples_of(*batch)) {
          samples[rank].push_back(sample);
        }
      }
    }
  });
  std::multiset<int64_t> all;
  for (size_t rank = 0; rank < 3; ++rank) {
    CHECK(labels[rank] == std::vector<std::string>{"w0", "w2", "w3"});
    all.insert(samples[rank].begin(), samples[rank].end());
  }
  std::multiset<int64_t> want;
  for (const auto& [id, size] : {std::pair<int64_t, int64_t>{10, 7}, {12, 2}, {13, 4}}) {
    for (int64_t i = 0; i < size; ++i) {
      want.insert(i + 1000000 * id);
    }
  }
  CHECK(all == want);
}

TEST_CASE("windows that differ are an error, and one too few ends the epoch for all", "[train]") {
  std::vector<std::string> said(3);
  std::vector<int> opened(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    const uint32_t rank = control.rank();
    FakeMap longer(0);
    longer.set_windows(rank == 1 ? windows_of({7, 9, 3}) : windows_of({7, 9, 2}));
    DataStream data(longer, {.rank = {.rank = rank, .size = 3}});
    data.begin_epoch(0);
    next_window_together(data, control);
    try {
      next_window_together(data, control);
    } catch (const Error& error) {
      said[rank] = error.what();
    }
    FakeMap fewer(0);
    fewer.set_windows(rank == 2 ? windows_of({7}) : windows_of({7, 9, 2}));
    DataStream rest(fewer, {.rank = {.rank = rank, .size = 3}});
    rest.begin_epoch(0);
    while (next_window_together(rest, control) == NextWindow::kOpen) {
      ++opened[rank];
    }
  });
  for (size_t rank = 0; rank < 3; ++rank) {
    CHECK_THAT(said[rank],
               contains_text("rank 0 has window number 2 with id 12 and 2 samples, rank 1 has "
                             "window number 2 with id 12 and 3 samples"));
    CHECK(opened[rank] == 1);
  }
}

TEST_CASE("ranks wait for a window that one of them does not have yet", "[train]") {
  std::vector<std::vector<std::string>> labels(3);
  std::vector<bool> given_up(3);
  std::vector<bool> is_open(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    const uint32_t rank = control.rank();
    std::vector<Window> windows = windows_of({7, 9, 2});
    if (rank != 1) {
      windows.insert(windows.begin() + 2, rank == 0 ? 3 : 8, pending_window(1));
    }
    FakeMap source(0);
    source.set_windows(windows);
    DataStream data(source, {.rank = {.rank = rank, .size = 3}});
    data.begin_epoch(0);
    while (next_window_together(data, control, [] { return false; }) == NextWindow::kOpen) {
      labels[rank].push_back(data.window_label());
    }
    data.begin_epoch(1);
    next_window_together(data, control, [] { return false; });
    int num_asked = 0;
    given_up[rank] = next_window_together(data, control, [&] {
                       return rank == 1 && ++num_asked == 3;
                     }) == NextWindow::kGivenUp;
    is_open[rank] = data.has_window();
  });
  for (size_t rank = 0; rank < 3; ++rank) {
    CHECK(labels[rank] == std::vector<std::string>{"w0", "w2"});
    CHECK(given_up[rank]);
    CHECK_FALSE(is_open[rank]);
  }
}

TEST_CASE("what is not there yet does not come to somebody who does not wait", "[train]") {
  run_ranks(1, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    FakeMap source(0);
    source.set_windows({make_window(1, "a", 3), pending_window(60000), make_window(2, "b", 3)});
    DataStream data(source, {});
    data.begin_epoch(0);
    CHECK(next_window_together(data, control) == NextWindow::kOpen);
    CHECK(next_window_together(data, control) == NextWindow::kEnd);
    CHECK(data.ask_again() == std::chrono::milliseconds(60000));
  });
}

}  // namespace tenon
