// SPDX-License-Identifier: Apache-2.0
//
// kill -9 of either of two ranks, in each event of a run.
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/failing_ranks.hpp"
#include "tests/faults/ranks_end.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"

namespace tenon {

TEST_CASE("whichever rank is killed in whichever event, the others end and name both",
          "[faults][ranks][members]") {
  struct Death {
    std::string event;
    int step;
    uint32_t rank;
    std::unique_ptr<FailingRanks> run;
  };
  std::deque<Death> deaths;
  const auto add = [&](int step, const std::vector<std::string>& events) {
    for (const std::string& event : members_of(events, 1)) {
      deaths.push_back({event, step, 0, nullptr});
      deaths.push_back({event, step, 1, nullptr});
    }
  };
  add(0, {"before_init", "after_init", "start", "before_epoch", "before_window"});
  add(1,
      {"before_step",
       "after_data",
       "before_forward",
       "after_forward",
       "before_loss",
       "after_loss",
       "before_backward",
       "after_backward",
       "before_optimizer_step",
       "after_optimizer_step",
       "after_step"});
  add(2,
      {"out_of_data", "before_evaluate", "after_evaluate", "after_window", "after_epoch", "end"});
  // One epoch of two steps. Its time is for the heartbeat to come round.
  const std::string patch = R"({"train": {"steps": null, "epochs": 1},
    "data": {"train": {"options": {"samples": 16}},
             "eval": {"type": "windows", "options": {"samples": 8}}}})";
  std::atomic<size_t> next = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (size_t k = next++; k < deaths.size(); k = next++) {
        Death& death = deaths[k];
        const std::string options = R"({"how": "kill", "wait_seconds": 0.7, "event": ")" +
                                    death.event + R"(", "step": )" + std::to_string(death.step) +
                                    R"(, "rank": )" + std::to_string(death.rank) + "}";
        death.run = std::make_unique<FailingRanks>(
            FailingRanks::launched(failing_recipe(options, patch), 2));
      }
    });
  }
  threads.clear();
  for (const Death& death : deaths) {
    INFO("rank " << death.rank << " at " << death.event);
    check_end(*death.run, 2, death.rank);
    CHECK(death.run->result().exit_code == 5);
    CHECK_THAT(death.run->result().err,
               contains_text("rank " + std::to_string(death.rank) +
                             " was killed by signal 9 (SIGKILL); it was last seen "));
    CHECK(death.run->record(death.rank)["doing"]["event"] == death.event);
  }
}

}  // namespace tenon
