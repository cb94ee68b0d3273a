// SPDX-License-Identifier: Apache-2.0
//
// In this file: p ranks, v stages a rank, n microbatches, r a rank.
#include "host/schedule/generate_schedule.hpp"

#include "host/error/error.hpp"
#include "host/schedule/schedule_row.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/text/nearest_name.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace tenon {
namespace {

using K = StageActionKind;

PipelineSchedule empty_schedule(uint32_t p, uint32_t v, uint32_t n) {
  PipelineSchedule schedule{.num_stages = p * v, .num_microbatches = n};
  schedule.rows.resize(p);
  return schedule;
}

// Removes microbatches that do not exist. An order in which the whole table runs is one in which
// the rest runs, so the rest has no deadlock that the whole does not have.
void keep_microbatches(PipelineSchedule& schedule, uint32_t n) {
  schedule.num_microbatches = n;
  for (std::vector<StageAction>& row : schedule.rows) {
    std::erase_if(row, [n](const StageAction& action) { return action.microbatch >= n; });
  }
}

struct Alternation {
  uint32_t per_round = 1;  // microbatches of a stage before the next stage of the rank
  uint32_t per_hop = 1;    // forwards that a rank runs ahead of the next rank
  bool in_halves = false;  // the weights of rank r are r microbatches late
};

// Each rank runs some forwards, then a forward and a backward in turn, then the other backwards.
PipelineSchedule alternating(uint32_t p, uint32_t v, uint32_t n, const Alternation& how) {
  PipelineSchedule schedule = empty_schedule(p, v, n);
  const uint32_t total = n * v;
  for (uint32_t r = 0; r < p; ++r) {
    ScheduleRow row(schedule.rows[r]);
    const auto stage_of = [&](uint32_t chunk) { return chunk * p + r; };
    const auto run_forward = [&](uint32_t i) { row.forward(stage_of(i / how.per_round % v)); };
    const uint32_t ahead = std::min((v - 1) * how.per_round + how.per_hop * (p - 1 - r), total);
    for (uint32_t i = 0; i < ahead; ++i) {
      run_forward(i);
    }
    for (uint32_t i = 0; i < total; ++i) {
      if (ahead + i < total) {
        run_forward(ahead + i);
      }
      const uint32_t stage = stage_of(v - 1 - i / how.per_round % v);
      if (!how.in_halves) {
        row.backward(stage);
        continue;
      }
      row.backward_inputs(stage);
      if (i >= r) {
        row.oldest_weights();
      }
    }
    row.all_weights();
  }
  return schedule;
}

PipelineSchedule gpipe(uint32_t p, uint32_t v, uint32_t n) {
  PipelineSchedule schedule = empty_schedule(p, v, n);
  for (uint32_t r = 0; r < p; ++r) {
    for (const K kind : {K::kForward, K::kBackward}) {
      for (uint32_t m = 0; m < n; ++m) {
        schedule.rows[r].push_back({r, kind, m});
      }
    }
  }
  return schedule;
}

PipelineSchedule one_f_one_b(uint32_t p, uint32_t v, uint32_t n) {
  return alternating(p, v, n, {.per_round = n});
}

PipelineSchedule zb_h1(uint32_t p, uint32_t v, uint32_t n) {
  return alternating(p, v, n, {.per_round = n, .in_halves = true});
}

// Rounds of equal size, of about one microbatch a rank.
PipelineSchedule interleaved(uint32_t p, uint32_t v, uint32_t n) {
  const uint32_t rounds = std::max(1U, n / p);
  const uint32_t per_round = (n + rounds - 1) / rounds;
  PipelineSchedule schedule =
      alternating(p, v, per_round * rounds, {.per_round = per_round, .per_hop = 2});
  keep_microbatches(schedule, n);
  return schedule;
}

void fill_zb_v(ScheduleRow& row, uint32_t p, uint32_t r, uint32_t n) {
  const uint32_t first = r;
  const uint32_t second = 2 * p - 1 - r;
  const auto run_halves = [&row](uint32_t stage) {
    row.backward_inputs(stage);
    row.weights(stage);
  };
  for (uint32_t i = 0; i < 2 * (p - r) - 1; ++i) {
    row.forward(first);
  }
  for (uint32_t i = 0; i < r; ++i) {
    row.forward(second);
    row.forward(first);
  }
  for (uint32_t i = 0; i < p - r; ++i) {
    row.forward(second);
    run_halves(second);
  }
  while (row.num_forwards(second) < row.num_forwards(first) || row.num_forwards(first) < n) {
    if (row.num_forwards(first) < n) {
      row.forward(first);
    }
    run_halves(first);
    row.forward(second);
    run_halves(second);
  }
  for (uint32_t i = 0; i < r; ++i) {
    row.backward_inputs(first);
    row.backward_inputs(second);
  }
  for (uint32_t i = 0; i < p - r; ++i) {
    run_halves(first);
  }
  row.all_weights(second);
  row.all_weights(first);
}

PipelineSchedule zb_v(uint32_t p, uint32_t v, uint32_t n) {
  const uint32_t made = std::max(2 * p - 1, n);
  PipelineSchedule schedule = empty_schedule(p, v, made);
  for (uint32_t r = 0; r < p; ++r) {
    ScheduleRow row(schedule.rows[r]);
    fill_zb_v(row, p, r, made);
  }
  keep_microbatches(schedule, n);
  return schedule;
}

void fill_dualpipe_v(ScheduleRow& row, uint32_t p, uint32_t r, uint32_t n) {
  const uint32_t first = r;
  const uint32_t second = 2 * p - 1 - r;
  const uint32_t after = p - 1 - r;  // ranks
  for (uint32_t i = 0; i < 2 * after; ++i) {
    row.forward(first);
  }
  for (uint32_t i = 0; i < r + 1; ++i) {
    row.forward(first);
    row.forward(second);
  }
  for (uint32_t i = 0; i < after; ++i) {
    row.backward_inputs(second);
    row.oldest_weights();
    row.forward(second);
  }
  for (uint32_t i = 0; i < n - 2 * p + r + 1; ++i) {
    row.forward(first);
    row.backward(second);
    row.forward(second);
    row.backward(first);
  }
  for (uint32_t i = 0; i < after; ++i) {
    row.backward(second);
    row.forward(second);
    row.backward(first);
  }
  // The last backwards run in halves, so that weights fill the end. Odd ranks start with the second
  // stage, even ranks with the first.
  const auto run_backward = [&row](uint32_t stage, bool in_halves) {
    if (in_halves) {
      row.backward_inputs(stage);
    } else {
      row.backward(stage);
    }
  };
  const uint32_t middle = (r + 1) / 2;
  for (uint32_t i = 0; i < r + 1; ++i) {
    run_backward(second, i > middle || (i == middle && r % 2 == 1));
    run_backward(first, i >= middle);
  }
  for (uint32_t i = 0; i < after; ++i) {
    row.oldest_weights();
    row.backward_inputs(first);
  }
  row.all_weights();
}

PipelineSchedule dualpipe_v(uint32_t p, uint32_t v, uint32_t n) {
  const uint32_t made = std::max(2 * p, n);
  PipelineSchedule schedule = empty_schedule(p, v, made);
  for (uint32_t r = 0; r < p; ++r) {
    ScheduleRow row(schedule.rows[r]);
    fill_dualpipe_v(row, p, r, made);
  }
  keep_microbatches(schedule, n);
  return schedule;
}

struct Generator {
  std::string_view name;
  uint32_t stages_per_rank;  // by default
  bool takes_stages;         // any number of stages a rank
  PipelineSchedule (*make)(uint32_t p, uint32_t v, uint32_t n);
};

constexpr std::array<Generator, 6> kGenerators = {{{"gpipe", 1, false, &gpipe},
                                                   {"1f1b", 1, false, &one_f_one_b},
                                                   {"interleaved", 2, true, &interleaved},
                                                   {"zb-h1", 1, false, &zb_h1},
                                                   {"zb-v", 2, false, &zb_v},
                                                   {"dualpipe-v", 2, false, &dualpipe_v}}};

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Generator& generator : kGenerators) {
    names.emplace_back(generator.name);
  }
  return names;
}

PipelineSchedule generate_schedule(const ScheduleRequest& request) {
  const auto* const generator = std::ranges::find(kGenerators, request.name, &Generator::name);
  if (generator == kGenerators.end()) {
    const std::vector<std::string> names = schedule_names();
    const std::string hint = did_you_mean(request.name, names);
    throw Error("schedule.invalid",
                formatted("no schedule is named \"{}\"; {}",
                          request.name,
                          hint.empty() ? "use one of " + joined(names) : hint));
  }
  if (request.num_ranks == 0 || request.num_microbatches == 0) {
    throw Error("schedule.invalid",
                formatted("{}: {} and {}; a pipeline has at least 1 of each",
                          request.name,
                          counted(request.num_ranks, "rank"),
                          counted(request.num_microbatches, "microbatch", "microbatches")));
  }
  const uint32_t v =
      request.stages_per_rank == 0 ? generator->stages_per_rank : request.stages_per_rank;
  if (v != generator->stages_per_rank && !generator->takes_stages) {
    throw Error("schedule.invalid",
                formatted("{}: a rank has {} (expected {}); use interleaved for other numbers",
                          request.name,
                          counted(v, "stage"),
                          generator->stages_per_rank));
  }
  // Generators that remove microbatches make up to 2 for each rank.
  const uint64_t stages = uint64_t{request.num_ranks} * v;
  const uint64_t microbatches =
      std::max(uint64_t{request.num_microbatches}, 2 * uint64_t{request.num_ranks});
  if (stages > kMostGeneratedPairs || microbatches > kMostGeneratedPairs / stages) {
    throw Error("schedule.invalid",
                formatted("{}: {} stages x {} microbatches is more than {}; use fewer microbatches",
                          request.name,
                          stages,
                          microbatches,
                          kMostGeneratedPairs));
  }
  return generator->make(request.num_ranks, v, request.num_microbatches);
}

PipelineSchedule evaluation_schedule(const PipelineSchedule& schedule, uint32_t num_microbatches) {
  PipelineSchedule result{.num_stages = schedule.num_stages, .num_microbatches = num_microbatches};
  result.rows.resize(schedule.rows.size());
  const std::vector<uint32_t> rank_of = schedule.ranks_of_stages();
  for (uint32_t m = 0; m < num_microbatches; ++m) {
    for (uint32_t stage = 0; stage < schedule.num_stages; ++stage) {
      result.rows[rank_of[stage]].push_back({stage, K::kForward, m});
    }
  }
  return result;
}

}  // namespace tenon
