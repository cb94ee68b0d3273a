// SPDX-License-Identifier: Apache-2.0
#include "host/train/rank_decisions.hpp"

#include <array>
#include <string>

#include "tests/support/thread_ranks.hpp"

namespace tenon {

TEST_CASE("one rank's yes is everybody's", "[train]") {
  std::array<bool, 3> is_any{};
  std::array<bool, 3> is_none{};
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    is_any[control.rank()] = any_rank(control, control.rank() == 2);
    is_none[control.rank()] = any_rank(control, false);
  });
  CHECK(is_any == std::array<bool, 3>{true, true, true});
  CHECK(is_none == std::array<bool, 3>{});
}

TEST_CASE("the first text names its rank, unless it is the first rank's", "[train]") {
  std::array<std::string, 3> texts;
  std::array<std::string, 3> of_first;
  run_ranks(3, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    texts[control.rank()] = first_text(control, control.rank() == 0 ? "" : "a signal");
    of_first[control.rank()] = first_text(control, control.rank() == 0 ? "enough" : "");
  });
  CHECK(texts ==
        std::array<std::string, 3>{"rank 1: a signal", "rank 1: a signal", "rank 1: a signal"});
  CHECK(of_first == std::array<std::string, 3>{"enough", "enough", "enough"});
  LocalGroup alone;
  CHECK(first_text(alone, "mine") == "mine");
  CHECK(first_text(alone, "").empty());
}

}  // namespace tenon
