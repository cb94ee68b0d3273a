// SPDX-License-Identifier: Apache-2.0
//
// --schedule: checks and draws the schedule of a pipeline.
#include "host/cli/all_actions.hpp"
#include "host/cli/quantity.hpp"
#include "host/schedule/load_schedule.hpp"
#include "host/schedule/schedule_csv.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/tools/plan/schedule_report.hpp"

#include <algorithm>
#include <array>

namespace tenon {
namespace {

constexpr std::array kScheduleOptions = {
    Option{"ranks", "N", "ranks of the pipeline; default: the rows of the file"},
    Option{"microbatches", "N", "microbatches of a step; default: those of the file"},
    Option{"stages-per-rank", "N", "with interleaved: stages of each rank; default 2"},
    Option{"most-held",
           "N",
           "refuse a table in which a rank holds more than N forwards of a stage\n"
           "whose backward has not ended"},
    Option{"times",
           "F,I,W",
           "seconds of a forward, of a backward of inputs and of a backward of\n"
           "weights, for all stages of a rank; default 1,1,1"},
    Option{"latency", "SECONDS", "seconds of a message between two ranks; default 0"},
    Option{"csv", "", "print the table as CSV, as PyTorch reads it"},
};

std::uint32_t read_number(const GivenOptions& given, std::string_view option, std::uint32_t most) {
  if (!given.has(option)) {
    return 0;
  }
  return static_cast<std::uint32_t>(read_whole(
      option, given.value_of(option), 1, most, formatted("a number from 1 to {}", most)));
}

RankSeconds read_times(const std::string& text) {
  std::array<double, 3> seconds = {};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const bool is_last = i + 1 == seconds.size();
    if (is_last != (end == text.size())) {
      fail_value("times", text, "three times, as in 20ms,20ms,20ms");
    }
    seconds[i] = read_seconds("times", text.substr(begin, end - begin));
    begin = end + 1;
  }
  return {seconds[0], seconds[1], seconds[2]};
}

void read_schedule_options(const GivenOptions& given, CommandLine& line) {
  ScheduleOptions& options = line.schedule;
  ScheduleRequest& request = options.request;
  request.name = given.value_of("schedule");
  request.num_ranks = read_number(given, "ranks", kMostScheduleRanks);
  request.num_microbatches = read_number(given, "microbatches", kMostScheduleNumber);
  request.stages_per_rank = read_number(given, "stages-per-rank", kMostScheduleNumber);
  if (!is_schedule_file(request.name) &&
      (request.num_ranks == 0 || request.num_microbatches == 0)) {
    const std::vector<std::string> names = schedule_names();
    if (std::ranges::find(names, request.name) == names.end()) {
      fail_usage(formatted(
          "--schedule: no schedule is named {}{}",
          in_quotes(request.name),
          hint_of(request.name,
                  names,
                  formatted("use one of {}, or a file, such as ./table.csv", joined(names)))));
    }
    fail_usage(formatted("--schedule {} needs --ranks N and --microbatches N", request.name));
  }
  if (given.has("most-held")) {
    options.most_held = read_number(given, "most-held", kMostScheduleNumber);
  }
  if (given.has("times")) {
    options.seconds = read_times(given.value_of("times"));
  }
  if (given.has("latency")) {
    options.message_seconds = read_seconds("latency", given.value_of("latency"));
  }
  options.is_csv = given.has("csv");
  if (options.is_csv && (given.has("times") || given.has("latency"))) {
    fail_usage(formatted("--{} has no effect with --csv; remove one of them",
                         given.has("times") ? "times" : "latency"));
  }
}

ExitCode run_schedule(const CommandLine& line, const Invocation& /*invocation*/) {
  const ScheduleOptions& options = line.schedule;
  const PipelineSchedule schedule =
      load_schedule(options.request, {.most_held = options.most_held});
  if (options.is_csv) {
    print_output(schedule_csv(schedule));
  } else {
    const ActionTimes times = even_times(schedule, options.seconds, options.message_seconds);
    print_output(schedule_text(options.request.name, schedule, times));
  }
  return ExitCode::kDone;
}

}  // namespace

const Action kScheduleAction = {
    .verb = "schedule",
    .option = {"schedule",
               "NAME|FILE",
               "draw the schedule of a pipeline, and print how long ranks are idle and\n"
               "what they hold; FILE is checked first. NAME is gpipe, 1f1b,\n"
               "interleaved, zb-h1, zb-v or dualpipe-v",
               Repeat::kNo,
               "gpipe 1f1b interleaved zb-h1 zb-v dualpipe-v"},
    .options = kScheduleOptions,
    .read = read_schedule_options,
    .run = run_schedule};

}  // namespace tenon
