// SPDX-License-Identifier: Apache-2.0
#include "host/schedule/draw_schedule.hpp"

#include "host/schedule/generate_schedule.hpp"
#include "host/schedule/schedule_csv.hpp"
#include "host/text/joined.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string drawing_of(const PipelineSchedule& schedule,
                       const RankSeconds& seconds = {},
                       const DrawOptions& options = {}) {
  return drawn_schedule(
      schedule,
      simulate_schedule(
          schedule, chain_links(schedule.num_stages), even_times(schedule, seconds, 0)),
      options);
}

}  // namespace

TEST_CASE("each action is drawn with its name, as long as it takes", "[schedule]") {
  CHECK(drawing_of(generate_schedule({"1f1b", 2, 2})) ==
        "rank 0  F0 F1 ......B0--- ...B1---\n"
        "rank 1     F0 B0--- F1 B1---\n"
        "F forward, B backward, . idle\n"
        "after the letter: microbatch\n");
  CHECK(drawing_of(generate_schedule({"zb-h1", 2, 2})) ==
        "rank 0  F0 F1 ...I0 W0 I1 W1\n"
        "rank 1     F0 I0 F1 I1 W0 W1\n"
        "F forward, B backward, I backward of inputs, W backward of weights, . idle\n"
        "after the letter: microbatch\n");
  CHECK(drawing_of(generate_schedule({"interleaved", 2, 2})) ==
        "rank 0  0F0 0F1 2F0 2F1 ........2B0---- ....2B1---- 0B0---- 0B1----\n"
        "rank 1      1F0 1F1 3F0 3B0---- 3F1 3B1---- 1B0---- 1B1----\n"
        "F forward, B backward, . idle\n"
        "before the letter: stage; after it: microbatch\n");
}

TEST_CASE("actions without a length are not drawn", "[schedule]") {
  CHECK(drawing_of(read_schedule("0UNSHARD,0F0,0SEND_F0,0B0,0REDUCE_GRAD\n1F0,1B0\n").schedule) ==
        "rank 0  F0 .........B0---\n"
        "rank 1     F0 B0---\n"
        "F forward, B backward, . idle\n"
        "after the letter: microbatch\n");
  CHECK(drawing_of(generate_schedule({"gpipe", 1, 1}), {0, 0, 0}) ==
        "rank 0\n"
        "F forward, B backward, . idle\n"
        "after the letter: microbatch\n");
}

TEST_CASE("a drawing that is too wide for names has a letter in each column", "[schedule]") {
  CHECK(drawing_of(generate_schedule({"1f1b", 2, 4}), {}, {.most_columns = 40}) ==
        "rank 0  FF..BBFBBFBB.BB\n"
        "rank 1   FBBFBBFBBFBB\n"
        "F forward, B backward, . idle\n"
        "a column is 1 times the shortest action\n");
  CHECK(drawing_of(generate_schedule({"zb-v", 2, 3}), {}, {.most_columns = 40}) ==
        "rank 0  FFFfiwfiwIWfiwIWIW\n"
        "rank 1   FfFfiwFIWfiwIiIWwW\n"
        "F forward, B backward, I backward of inputs, W backward of weights, . idle\n"
        "lower case: the second stage of a rank, the fourth, ...; a column is 1 times the shortest "
        "action\n");
}

TEST_CASE("a drawing of any schedule is ASCII and at most 200 columns wide", "[schedule]") {
  for (const std::string& name : schedule_names()) {
    for (const uint32_t ranks : {1U, 3U, 12U, 64U}) {
      for (const uint32_t microbatches : {1U, 10U, 200U}) {
        CAPTURE(name, ranks, microbatches);
        const PipelineSchedule schedule = generate_schedule({name, ranks, microbatches});
        const std::string drawing = drawing_of(schedule, {0.013, 0.021, 0.017});
        CHECK(std::ranges::all_of(drawing,
                                  [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
        size_t widest = 0;
        for (const std::string_view line : lines_of(drawing)) {
          widest = std::max(widest, line.size());
          CHECK_FALSE(line.ends_with(' '));
        }
        CHECK(widest <= 200);
        CHECK(std::ranges::count(drawing, '\n') >= ranks + 1);
        // Each rank is drawn until the end of its last action.
        CHECK(drawing.find('F') != std::string::npos);
      }
    }
  }
}

}  // namespace tenon
