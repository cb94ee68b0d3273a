// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/progress.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("durations and numbers read as people write them", "[metrics]") {
  CHECK(duration_text(0.2) == "0 s");
  CHECK(duration_text(59.4) == "59 s");
  CHECK(duration_text(200) == "3 min 20 s");
  CHECK(duration_text(7500) == "2 h 05 min");
  CHECK(grouped_digits(0) == "0");
  CHECK(grouped_digits(999) == "999");
  CHECK(grouped_digits(869504) == "869,504");
  CHECK(grouped_digits(-1234567) == "-1,234,567");
}

TEST_CASE("a progress line tells step, loss, rate, speed and what is left", "[metrics]") {
  ProgressState state;
  state.step = 100;
  state.total_steps = 300;
  state.loss = 2.05;
  state.lr = 0.002;
  state.grad_norm = 0.7;
  state.tokens_per_second = 20480;
  state.seconds = 10;
  CHECK(progress_text(state) ==
        "step 100/300  loss 2.0500  lr 0.002  grad norm 0.700  20,480 tokens/s  20 s left");
  state.total_steps.reset();
  state.grad_norm.reset();
  state.non_finite_steps = 2;
  CHECK(progress_text(state) ==
        "step 100  loss 2.0500  lr 0.002  20,480 tokens/s  2 non-finite  10 s");
  state.non_finite_steps = 0;
  state.tokens_per_second = 0;
  state.samples_per_second = 160;
  CHECK(progress_text(state) == "step 100  loss 2.0500  lr 0.002  160 samples/s  10 s");
  state.window = "a\x1b[2J\n.csv";
  CHECK(progress_text(state) ==
        "step 100  window a\\x1b[2J\\x0a.csv  loss 2.0500  lr 0.002  160 samples/s  10 s");
}

}  // namespace tenon
