// SPDX-License-Identifier: Apache-2.0
#include "host/tools/plan/schedule_report.hpp"

#include "host/schedule/draw_schedule.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <cstdio>

namespace tenon {
namespace {

std::string number(const char* form, double value) {
  char text[32];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

}  // namespace

std::string schedule_text(const std::string& name,
                          const PipelineSchedule& schedule,
                          const ActionTimes& times) {
  const ScheduleSimulation simulation =
      simulate_schedule(schedule, chain_links(schedule.num_stages), times);
  const uint32_t idle = simulation.most_idle_rank();
  const uint32_t full = simulation.fullest_rank();
  std::string text = formatted("{}: {}, {}, {}\n\n",
                               name,
                               counted(schedule.rows.size(), "rank"),
                               counted(schedule.num_stages, "stage"),
                               counted(schedule.num_microbatches, "microbatch", "microbatches"));
  text += drawn_schedule(schedule, simulation, {});
  text += formatted("\nstep: {} s\n", number("%.4g", simulation.seconds));
  text += formatted("idle share of the worst rank, first to last action: {} (rank {})\n",
                    number("%.3f", simulation.ranks[idle].idle_share()),
                    idle);
  const uint32_t held = simulation.ranks[full].most_held;
  text += formatted("microbatches held until their backward: at most {}", held);
  if (schedule.num_stages > schedule.rows.size()) {
    const double of_rank = held * static_cast<double>(schedule.rows.size()) / schedule.num_stages;
    text += formatted(" of a stage, as {} of all stages of a rank", number("%.3g", of_rank));
  }
  return text + formatted(" (rank {})\n", full);
}

}  // namespace tenon
