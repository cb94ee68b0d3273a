// SPDX-License-Identifier: Apache-2.0
//
// Models at random, cut at random over the ranks of a pipeline, with every schedule and every
// setting that shapes a program: to the bit as one rank, which runs one microbatch after the other.
#include "host/schedule/check_schedule.hpp"
#include "host/schedule/generate_schedule.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/host/model/random_runs.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

struct StageCase {
  RunCase of;
  PipelineSchedule schedule;
};

// What a rank has seen at the end of a run.
struct Seen {
  std::vector<double> losses;  // by microbatch: in training, then in two evaluations
  Tensors grads;               // by group; undefined if it is elsewhere or frozen
  Tensors buffers;             // undefined if blocks of this rank do not use it
  std::string wrong;
};

// Whole backwards instead of halves.
PipelineSchedule whole_backwards(PipelineSchedule schedule) {
  for (auto& row : schedule.rows) {
    std::erase_if(row, [](const StageAction& action) {
      return action.kind == StageActionKind::kBackwardWeights;
    });
    for (StageAction& action : row) {
      if (action.kind == StageActionKind::kBackwardInputs) {
        action.kind = StageActionKind::kBackward;
      }
    }
  }
  return schedule;
}

PipelineSchedule of_one_rank(uint32_t num_microbatches) {
  PipelineSchedule schedule = {.num_stages = 1, .num_microbatches = num_microbatches, .rows = {{}}};
  for (uint32_t m = 0; m < num_microbatches; ++m) {
    schedule.rows[0].push_back({0, StageActionKind::kForward, m});
    schedule.rows[0].push_back({0, StageActionKind::kBackward, m});
  }
  return schedule;
}

std::vector<ModelUnit> units_of_model(const ModelGraph& graph, uint32_t model) {
  std::vector<ModelUnit> units;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    if (graph.blocks[b].model == model && graph.unit_of(b).first == b) {
      units.push_back(graph.unit_of(b));
    }
  }
  return units;
}

// Whether two stages use one parameter.
bool has_ties(const ModelGraph& graph, const std::vector<uint32_t>& stages) {
  std::map<uint32_t, uint32_t> stage_of;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    for (const uint32_t p : graph.blocks[b].parameters) {
      const uint32_t same_as = graph.parameters[p].same_as;
      const uint32_t original = same_as == kNoIndex ? p : same_as;
      if (stage_of.emplace(original, stages[b]).first->second != stages[b]) {
        return true;
      }
    }
  }
  return false;
}

// Cuts the units of each model anywhere. Returns nothing if a parameter is in the way.
std::optional<std::vector<uint32_t>> random_cut(const ModelGraph& graph,
                                                uint32_t num_stages,
                                                Draw& draw) {
  std::vector<uint32_t> stages(graph.blocks.size(), 0);
  const auto set = [&stages](const ModelUnit& unit, uint32_t stage) {
    std::fill(stages.begin() + unit.first, stages.begin() + unit.last + 1, stage);
  };
  const std::vector<ModelUnit> trained = units_of_model(graph, 0);
  std::set<uint32_t> starts;
  while (starts.size() + 1 < num_stages) {
    starts.insert(draw.number(1, static_cast<uint32_t>(trained.size() - 1)));
  }
  uint32_t stage = 0;
  for (uint32_t u = 0; u < trained.size(); ++u) {
    stage += starts.contains(u) ? 1 : 0;
    set(trained[u], stage);
  }
  const std::vector<ModelUnit> others = units_of_model(graph, 1);
  stage = 0;
  for (size_t u = 0; u < others.size(); ++u) {
    stage = u + 1 == others.size() ? num_stages - 1 : draw.number(stage, num_stages - 1);
    set(others[u], stage);
  }
  return has_ties(graph, stages) ? std::nullopt : std::optional(std::move(stages));
}

// Returns nothing if the model cannot be cut.
std::optional<StageCase> stage_case(uint64_t seed) {
  StageCase made = {.of = random_run(seed), .schedule = {}};
  RandomModel model(seed);
  Draw draw(seed + 1'000'000);
  const ModelGraph& graph = model.graph();
  const auto units = static_cast<uint32_t>(units_of_model(graph, 0).size());
  if (made.of.has_rows || units < 2) {
    return std::nullopt;
  }
  made.of.replicate = 1;
  made.of.shard = draw.one_of(std::vector<uint32_t>{1, 1, 1, 2});
  if (made.of.shard > 1) {
    made.of.stage = 3;
    made.of.unsharded = 9;
  }
  ScheduleRequest request;
  const bool has_two = units >= 4 && draw.chance(50);  // stages a rank
  request.name = has_two ? draw.one_of(std::vector<std::string>{"interleaved", "zb-v"})
                         : draw.one_of(std::vector<std::string>{"gpipe", "1f1b"});
  request.num_ranks =
      std::min(draw.one_of(std::vector<uint32_t>{2, 2, 2, 3, 4}), has_two ? units / 2 : units);
  request.num_microbatches = draw.number(1, 4);
  made.schedule = whole_backwards(generate_schedule(request));
  for (int attempt = 0; attempt < 20; ++attempt) {
    if (auto cut = random_cut(graph, made.schedule.num_stages, draw)) {
      made.of.stages = *cut;
      made.of.owners = made.schedule.ranks_of_stages();
      return made;
    }
  }
  return std::nullopt;
}

// Whether a stage adds the gradients of two blocks or more to a sum that it has received: there,
// the order of additions shows.
bool has_ordered_sum(const ModelGraph& graph, const RunCase& of) {
  const GraphFacts facts = facts_of(graph);
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const ModelValue& value = graph.values[v];
    for (uint32_t stage = 0; value.maker != kNoIndex && stage < of.owners.size(); ++stage) {
      const auto here =
          std::ranges::count_if(value.users, [&](uint32_t b) { return of.stages[b] == stage; });
      const bool is_read_later = std::ranges::any_of(value.users, [&](uint32_t b) {
        return of.stages[b] > stage && of.owners[of.stages[b]] != of.owners[stage];
      });
      if (here >= 2 && is_read_later && facts.has_gradient(v)) {
        return true;
      }
    }
  }
  return false;
}

class StageRun {
 public:
  StageRun(const StageCase& made, RankGroups& ranks)
      : made_(made),
        rank_(made.of, ranks),
        sample_rank_(ranks.role().samples().index),
        row_(made.schedule.rows[ranks.role().pipeline().index]),
        stages_(stages_of(rank_.store.graph(), ranks.role().pipeline().index)) {}

  Seen run() {
    check_programs();
    train();
    evaluate(2);
    evaluate(3);
    keep_gradients();
    return std::move(seen_);
  }

 private:
  bool is_last(uint32_t stage) const { return stage + 1 == made_.schedule.num_stages; }

  void check_programs() {
    const std::vector<GroupFacts> groups = group_facts(rank_.store, rank_.store.graph());
    for (const uint32_t stage : stages_) {
      for (const PassKind kind : {PassKind::kTrain, PassKind::kEvaluate}) {
        const Program& program = rank_.runner.program(kind, made_.of.losses(), stage);
        seen_.wrong += find_problem(program, rank_.runner.facts(), groups);
      }
    }
  }

  void train() {
    const uint32_t count = made_.schedule.num_microbatches;
    std::vector<MicrobatchState> states;
    std::vector<Batch> batches;
    std::vector<SumOfValues> losses(count, SumOfValues(made_.of.read));
    for (uint32_t m = 0; m < count; ++m) {
      states.push_back(rank_.runner.new_state());
      batches.push_back(rank_.batch_of(sample_rank_, m));
    }
    for (const StageAction& action : row_) {
      const uint32_t m = action.microbatch;
      if (action.kind == StageActionKind::kForward) {
        const CallPoint point = {1, m, true};
        rank_.runner.forward(states[m], batches[m], point, made_.of.losses(), action.stage);
        continue;
      }
      if (is_last(action.stage)) {
        rank_.runner.run_losses(states[m], losses[m]);
      }
      rank_.runner.backward(states[m], &losses[m], {kAuxScale, {}}, m + 1 == count, action.stage);
    }
    rank_.sharded.finish_gradients();
    rank_.exchange.finish();
    for (const SumOfValues& loss : losses) {
      seen_.losses.push_back(loss.sum);
    }
    for (MicrobatchState& state : states) {
      for (uint32_t v = 0; v < rank_.store.graph().values.size(); ++v) {
        seen_.wrong += state.value(v).defined() ? "a value stays" : "";
      }
    }
  }

  void evaluate(uint64_t step) {
    MicrobatchState state = rank_.runner.new_state();
    for (uint32_t m = 0; m < made_.schedule.num_microbatches; ++m) {
      const Batch batch = rank_.batch_of(sample_rank_, m + 5);
      SumOfValues loss(made_.of.read);
      for (const uint32_t stage : stages_) {
        rank_.runner.forward(state, batch, {step, m, false}, made_.of.losses(), stage);
      }
      if (is_last(stages_.back())) {
        rank_.runner.run_losses(state, loss);
      }
      rank_.runner.clear(state);
      seen_.losses.push_back(loss.sum);
    }
    rank_.exchange.finish();
  }

  void keep_gradients() {
    const ModelGraph& graph = rank_.store.graph();
    for (FlatGroup& group : rank_.store.groups()) {
      const uint32_t p = group.entries().front().parameter.id;
      const bool is_here = group.is_trainable() && !graph.parameters[p].is_elsewhere;
      seen_.grads.push_back(is_here ? group.grad().clone() : at::Tensor());
      if (!graph.parameters[p].is_elsewhere &&
          group.has_whole() != group.sharing().keeps_parameters) {
        seen_.wrong += group.name() + " stays whole";
      }
    }
    seen_.buffers.resize(graph.buffers.size());
    for (const ModelBlock& block : graph.blocks) {
      for (const uint32_t i : block.is_elsewhere ? std::vector<uint32_t>() : block.buffers) {
        seen_.buffers[i] = rank_.store.buffer(i).clone();
      }
    }
  }

  const StageCase& made_;
  CaseRank rank_;
  const uint32_t sample_rank_;
  const std::vector<StageAction>& row_;
  const std::vector<uint32_t> stages_;
  Seen seen_;
};

// By rank.
std::vector<Seen> run_case(const StageCase& made) {
  const auto pipeline = static_cast<uint32_t>(made.schedule.rows.size());
  const uint32_t size = made.of.size() * pipeline;
  std::vector<Seen> seen(size);
  run_ranks({.replicate = made.of.replicate, .shard = made.of.shard, .pipeline = pipeline},
            size,
            [&](RankGroups& ranks) { seen[ranks.role().rank()] = StageRun(made, ranks).run(); });
  return seen;
}

// Returns what a rank of a pipeline has otherwise than the rank with the same samples.
std::string difference(const StageCase& made,
                       const RankRole& role,
                       const Seen& seen,
                       const Seen& one) {
  std::string wrong = seen.wrong + one.wrong;
  const uint32_t here = role.pipeline().index;
  if (made.of.owners.back() == here && seen.losses != one.losses) {
    wrong += " losses";
  }
  for (size_t g = 0; g < one.grads.size(); ++g) {
    if (seen.grads[g].defined() && !at::equal(seen.grads[g], one.grads[g])) {
      wrong += " gradients of group " + std::to_string(g);
    }
  }
  for (size_t i = 0; i < one.buffers.size(); ++i) {
    if (seen.buffers[i].defined() && !at::equal(seen.buffers[i], one.buffers[i])) {
      wrong += " buffer " + std::to_string(i);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("a pipeline changes no bit", "[model][ranks]") {
  uint32_t num_cases = 0;
  uint32_t num_ordered = 0;
  uint32_t num_chunked = 0;
  uint32_t num_moving = 0;
  for (uint64_t seed = 0; seed < 700; ++seed) {
    const std::optional<StageCase> made = stage_case(seed);
    if (!made.has_value()) {
      continue;
    }
    ++num_cases;
    num_ordered += has_ordered_sum(RandomModel(seed).graph(), made->of) ? 1 : 0;
    num_chunked += made->of.options.loss_chunk > 0 ? 1 : 0;
    num_moving += made->of.moves && !made->of.options.recomputed.empty() ? 1 : 0;
    StageCase alone = {.of = made->of, .schedule = of_one_rank(made->schedule.num_microbatches)};
    alone.of.stages.clear();
    alone.of.owners.clear();
    const std::vector<Seen> wanted = run_case(alone);
    const std::vector<Seen> seen = run_case(*made);
    const auto pipeline = static_cast<int64_t>(made->schedule.rows.size());
    const auto size = static_cast<uint32_t>(seen.size());
    std::vector<uint32_t> num_here(wanted[0].grads.size(), 0);
    for (uint32_t rank = 0; rank < size; ++rank) {
      const RankRole role(
          Mesh({.replicate = made->of.replicate, .shard = made->of.shard, .pipeline = pipeline},
               size,
               rank));
      const Seen& one = wanted[role.samples().index];
      INFO("seed " << seed << ", rank " << rank << ", " << made->schedule.num_stages << " stages");
      CHECK(difference(*made, role, seen[rank], one) == "");
      for (size_t g = 0; g < num_here.size(); ++g) {
        num_here[g] += seen[rank].grads[g].defined() ? 1 : 0;
      }
    }
    for (size_t g = 0; g < num_here.size(); ++g) {
      CHECK(num_here[g] == (wanted[0].grads[g].defined() ? made->of.size() : 0));
    }
  }
  CAPTURE(num_cases, num_ordered, num_chunked, num_moving);
  CHECK(num_cases > 200);
  CHECK(num_ordered > 10);
  CHECK(num_chunked > 10);
  CHECK(num_moving > 10);
}

}  // namespace tenon
