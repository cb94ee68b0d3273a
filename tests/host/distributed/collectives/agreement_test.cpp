// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/agreement.hpp"

#include <string>
#include <vector>

#include "tests/support/thread_ranks.hpp"

namespace tenon {

TEST_CASE("a vote of any rank counts for all", "[distributed]") {
  std::vector<Decision> decisions(3);
  std::vector<Decision> later(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    Agreement agreement(control);
    agreement.vote(control.rank() == 1 ? Vote::kStop : Vote::kSkipUpdate);
    decisions[control.rank()] = agreement.resolve_now();
    later[control.rank()] = agreement.resolve_now();
  });
  for (uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(decisions[rank].has(Vote::kStop));
    CHECK(decisions[rank].has(Vote::kSkipUpdate));
    CHECK_FALSE(decisions[rank].has(Vote::kMoreData));
    CHECK_FALSE(later[rank].has(Vote::kStop));
  }
}

TEST_CASE("numbers travel with the votes and are added up", "[distributed]") {
  std::vector<std::vector<double>> sums(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    Agreement agreement(control);
    const double mine[] = {1.0 + control.rank(), 0.5};
    agreement.start(mine);
    sums[control.rank()].assign(agreement.sums().begin(), agreement.sums().end());
  });
  for (const std::vector<double>& of_rank : sums) {
    CHECK(of_rank == std::vector<double>{6.0, 1.5});
  }
  LocalGroup alone;
  Agreement agreement(alone);
  const double mine[] = {7.0};
  agreement.start(mine);
  CHECK(agreement.sums()[0] == 7.0);
}

TEST_CASE("texts of any lengths reach all ranks", "[distributed]") {
  std::vector<std::vector<std::string>> texts(3);
  std::vector<std::string> of_last(3);
  std::vector<std::vector<int64_t>> largest(3);
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    const uint32_t rank = control.rank();
    const std::string mine(rank * 2, static_cast<char>('a' + rank));
    texts[rank] = control.gather_texts(mine, "test");
    of_last[rank] = control.broadcast_text(mine, 2, "test");
    largest[rank] = {static_cast<int64_t>(rank), -1};
    control.all_reduce(std::span(largest[rank]), Reduce::kMax, "test");
  });
  for (uint32_t rank = 0; rank < 3; ++rank) {
    CHECK(texts[rank] == std::vector<std::string>{"", "bb", "cccc"});
    CHECK(of_last[rank] == "cccc");
    CHECK(largest[rank] == std::vector<int64_t>{2, -1});
  }
}

TEST_CASE("votes after the start travel with the next decision", "[distributed]") {
  LocalGroup alone;
  Agreement agreement(alone);
  agreement.vote(Vote::kEvaluate);
  agreement.start();
  agreement.vote(Vote::kStop);
  CHECK(agreement.resolve().has(Vote::kEvaluate));
  CHECK_FALSE(agreement.resolve().has(Vote::kStop));
  CHECK(agreement.resolve_now().has(Vote::kStop));
  CHECK_FALSE(agreement.resolve_now().has(Vote::kStop));
}

}  // namespace tenon
