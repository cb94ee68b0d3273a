// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_state/published_state.hpp"

#include "host/journal/journal.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("the published state follows the journal", "[train]") {
  PublishedState published;
  Journal journal(1, 0);
  const auto subscription = journal.subscribe(published, "published state");
  journal.add(StateRestored{.state = {.step = 4, .samples = 40}});
  CHECK(published.get().samples == 40);
  CHECK_FALSE(published.has_begun());
  CHECK_FALSE(published.event().has_value());
  journal.add(StepBegan{.state = {.step = 5, .samples = 40}});
  CHECK(published.has_begun());
  CHECK(published.get().step == 5);
  journal.add(EventBegan{.event = TENON_EVENT_BEFORE_STEP, .step = 5});
  journal.add(EventEnded{.event = TENON_EVENT_AFTER_STEP, .step = 5});
  CHECK(published.event() == TENON_EVENT_BEFORE_STEP);
  journal.add(RunFailed{.state = {.step = 5, .samples = 48}, .id = "a.b", .text = "c"});
  CHECK(published.get().samples == 48);
}

}  // namespace tenon
