// SPDX-License-Identifier: Apache-2.0
#include "host/tools/plan/plan_report.hpp"

#include "host/metrics/progress.hpp"
#include "host/model/stages.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string number_text(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof(text), format, number);
  return text;
}

// Three significant digits: 1.23, 12.3, 123.
std::string rounded(double number) {
  return number_text(number < 9.995 ? "%.2f" : number < 99.95 ? "%.1f" : "%.0f", number);
}

std::string bytes_text(int64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  while (size >= 999.5 && unit + 1 < kUnits.size()) {
    size /= 1024;
    ++unit;
  }
  return bytes == 0 ? "0"
                    : (unit == 0 ? std::to_string(bytes) : rounded(size)) + " " + kUnits[unit];
}

// 1.2 T, 350 G: powers of a thousand.
std::string scaled(double number) {
  constexpr std::array kUnits = {"", " k", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (number >= 999.5 && unit + 1 < kUnits.size()) {
    number /= 1000;
    ++unit;
  }
  return number == 0 ? "0" : rounded(number) + kUnits[unit];
}

std::string seconds_text(double seconds) {
  return seconds == 0      ? "0"
         : seconds < 1e-3  ? rounded(seconds * 1e6) + " us"
         : seconds < 0.995 ? rounded(seconds * 1e3) + " ms"
                           : rounded(seconds) + " s";
}

// Formats rows as a table: the first column left-aligned, the others right-aligned.
std::string table(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line = "  ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string gap(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + gap : "   " + gap + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

// Blocks with equal costs that follow each other, or that alternate with as many others: the
// attention and the feed-forward blocks of a decoder are two runs.
struct BlockRun {
  uint32_t first = 0;
  uint32_t last = 0;
  int64_t count = 1;
  int64_t elements = 0;  // per block: of the parameters first used in it
};

std::vector<int64_t> elements_by_block(const ModelGraph& graph) {
  std::vector<int64_t> elements(graph.blocks.size(), 0);
  for (const ModelParameter& parameter : graph.parameters) {
    if (parameter.same_as == kNoIndex && !parameter.blocks.empty()) {
      elements[parameter.blocks.front()] += c10::multiply_integers(parameter.shape);
    }
  }
  return elements;
}

std::vector<BlockRun> block_runs(const PlanSubject& subject) {
  constexpr uint32_t kMostAlternating = 4;
  const std::vector<int64_t> elements = elements_by_block(subject.graph);
  const auto num_blocks = static_cast<uint32_t>(elements.size());
  const auto is_same = [&](uint32_t a, uint32_t b) {
    const BlockCost& x = subject.costs[a];
    const BlockCost& y = subject.costs[b];
    return elements[a] == elements[b] && x.forward_flops == y.forward_flops &&
           x.saved_bytes == y.saved_bytes && x.output_bytes == y.output_bytes &&
           x.source == y.source;
  };
  std::vector<BlockRun> runs;
  for (uint32_t b = 0; b < num_blocks;) {
    uint32_t best_period = 1;
    uint32_t best_covered = 1;
    for (uint32_t period = 1; period <= kMostAlternating; ++period) {
      uint32_t end = b + period;
      while (end < num_blocks && is_same(end, end - period)) {
        ++end;
      }
      const uint32_t covered = (end - b) / period * period;
      if (covered >= 2 * period && covered > best_covered) {
        best_period = period;
        best_covered = covered;
      }
    }
    for (uint32_t i = 0; i < best_period; ++i) {
      runs.push_back(
          {b + i, b + best_covered - best_period + i, best_covered / best_period, elements[b + i]});
    }
    b += best_covered;
  }
  return runs;
}

std::string run_name(const PlanSubject& subject, const BlockRun& run) {
  const std::string& first = subject.graph.blocks[run.first].name;
  return run.count == 1 ? first : first + " to " + subject.graph.blocks[run.last].name;
}

struct Sums {
  int64_t elements = 0;
  int64_t trainable = 0;
};

Sums sums_of(const PlanSubject& subject) {
  Sums sums;
  for (const GroupLayout& group : subject.groups) {
    sums.elements += group.num_elements();
    sums.trainable += group.is_trainable ? group.num_elements() : 0;
  }
  return sums;
}

// Returns the number of parameter elements that a rank stores; of a pipeline, the rank that needs
// the most memory.
int64_t elements_a_rank(const RecipePlan& plan) {
  const PlanSubject& subject = plan.subject;
  const PlanChoice& choice = plan.plan.choice;
  if (!plan.plan.pipeline.empty()) {
    return plan.plan.pipeline[plan.plan.pipeline_rank].elements;
  }
  int64_t elements = 0;
  for (const GroupLayout& group : subject.groups) {
    const int64_t slices = group.is_unsharded ? 1 : choice.shard;
    elements += group.flat_numel(slices) / slices;
  }
  return elements;
}

std::string choice_text(const PlanChoice& choice) {
  const char* const recompute = !choice.recomputes       ? ", no recompute"
                                : choice.keeps_attention ? ", selective recompute"
                                                         : ", recompute blocks";
  std::string inner = choice.context > 1 ? " x context " + grouped_digits(choice.context) : "";
  inner += choice.tensor > 1 ? " x tensor " + grouped_digits(choice.tensor) : "";
  inner += choice.pipeline > 1 ? " x pipeline " + grouped_digits(choice.pipeline) : "";
  return formatted("replicate {} x shard {}{}, stage {}{}{}{}{}",
                   grouped_digits(choice.replicate),
                   grouped_digits(choice.shard),
                   inner,
                   choice.stage,
                   recompute,
                   choice.block_tile_share.has_value() ? ", tiles" : "",
                   choice.moves_activations ? ", activations offloaded" : "",
                   choice.offloads ? ", offload" : "");
}

const char* recompute_word(const PlanChoice& choice) {
  return !choice.recomputes ? "none" : choice.keeps_attention ? "selective" : "blocks";
}

// Returns the words that set what is recomputed; "" if the patterns of the recipe stay.
std::string recompute_setting(const PlanSubject& subject, const PlanChoice& choice) {
  const bool has_patterns =
      std::ranges::find(subject.recomputable, false) != subject.recomputable.end();
  return has_patterns && choice.recomputes
             ? ""
             : formatted(" --set train.recompute={}", recompute_word(choice));
}

std::vector<std::pair<std::string, int64_t>> memory_kinds(const PlanMemory& memory) {
  std::vector<std::pair<std::string, int64_t>> kinds = {
      {"parameters", memory.parameters},
      {"gradients", memory.gradients},
      {"optimizer state", memory.optimizer},
      {"gathered parameters and gradients", memory.gathered},
      {"activations", memory.activations},
      {"batches", memory.batches},
      {"buffers of the model", memory.buffers}};
  if (memory.averages > 0) {
    kinds.insert(kinds.begin() + 3, {"averages of parameters", memory.averages});
  }
  if (memory.exchange > 0) {
    kinds.emplace_back("ids and rows between ranks, at most", memory.exchange);
  }
  if (memory.rounding > 0) {
    kinds.emplace_back("rounding by the allocator", memory.rounding);
  }
  return kinds;
}

// Returns how to reduce a kind of memory.
std::string advice(const std::string& kind, const PlanChoice& choice, bool has_host) {
  if (kind == "activations") {
    return choice.recomputes
               ? "reduce data.batch_size or train.loss_chunk, or set train.tile and "
                 "train.offload_activations"
               : "set train.recompute=blocks, or reduce data.batch_size or train.loss_chunk";
  }
  if (kind == "gathered parameters and gradients") {
    return "use smaller blocks, or train.precision=bf16_params";
  }
  if (kind == "batches") {
    return "reduce data.batch_size or data.prefetch";
  }
  if (kind == "buffers of the model") {
    return "only the model can reduce it";
  }
  return std::string("use more ranks along shard") + (choice.stage < 3 ? ", a higher stage" : "") +
         (has_host && !choice.offloads ? ", or offload" : "");
}

std::string head_text(const RecipePlan& plan) {
  const PlanSubject& subject = plan.subject;
  const int64_t tokens = plan.samples_a_step() * plan.tokens_a_sample;
  std::string text = plan.recipe + " on " + grouped_digits(plan.request.ranks) +
                     (plan.request.ranks == 1 ? " rank: " : " ranks: ") +
                     choice_text(plan.plan.choice) + ", " + plan.precision + "\n";
  text += "each step: " + grouped_digits(plan.samples_a_step()) + " samples";
  text += tokens > 0 ? ", " + grouped_digits(tokens) + " tokens" : "";
  text += "; each rank: " + grouped_digits(subject.microbatches) + " x " +
          grouped_digits(plan.batch_size) + " samples";
  text += tokens > 0 ? " of " + grouped_digits(plan.tokens_a_sample) + " tokens" : "";
  return text + "\n";
}

std::string parameters_text(const RecipePlan& plan) {
  const PlanSubject& subject = plan.subject;
  const Sums sums = sums_of(subject);
  std::string text = "\nparameters: " + grouped_digits(sums.elements);
  if (sums.trainable != sums.elements) {
    text += ", of which " + grouped_digits(sums.elements - sums.trainable) + " are frozen";
  }
  text += (plan.plan.pipeline.empty()
               ? std::string("; each rank stores ")
               : formatted("; rank {} of the pipeline stores ", plan.plan.pipeline_rank)) +
          grouped_digits(elements_a_rank(plan)) + "\n";
  std::vector<Row> rows = {
      {"block", "blocks", "parameters each", "forward FLOP each", "output each", "kept each"}};
  bool is_guessed = false;
  for (const BlockRun& run : block_runs(subject)) {
    const BlockCost& cost = subject.costs[run.first];
    const bool guess = cost.source == BlockCost::Source::kGuessed;
    is_guessed = is_guessed || guess;
    rows.push_back({run_name(subject, run) + (guess ? " *" : ""),
                    grouped_digits(run.count),
                    grouped_digits(run.elements),
                    scaled(cost.forward_flops),
                    bytes_text(cost.output_bytes),
                    bytes_text(cost.saved_bytes)});
  }
  text += table(rows);
  if (is_guessed) {
    const auto guessed =
        std::ranges::find(subject.costs, BlockCost::Source::kGuessed, &BlockCost::source);
    text +=
        "  * estimated from its parameters: the model has no `infer` for it, and it cannot run "
        "without data (" +
        guessed->why + ")\n";
  }
  return text;
}

std::string memory_text(const RecipePlan& plan) {
  const PlanMemory& memory = plan.plan.memory;
  const std::string rank =
      plan.plan.pipeline.empty()
          ? "each rank"
          : formatted("rank {} of the pipeline, the fullest one", plan.plan.pipeline_rank);
  std::string text = "\npeak memory of " + rank + ", in the " + memory.moment + "\n";
  std::vector<Row> rows;
  for (const auto& [name, bytes] : memory_kinds(memory)) {
    rows.push_back({name, bytes_text(bytes)});
  }
  rows.push_back({"sum", bytes_text(memory.sum())});
  if (memory.host > 0) {
    rows.push_back({"additional host memory", bytes_text(memory.host)});
  }
  return text + table(rows);
}

std::string stages_text(const ModelGraph& graph, const std::vector<uint32_t>& stages) {
  std::vector<std::string> texts;
  for (const uint32_t stage : stages) {
    texts.push_back(units_text(graph, stage));
  }
  return joined(texts);
}

std::string pipeline_text(const RecipePlan& plan) {
  const std::vector<PipelineRankPlan>& ranks = plan.plan.pipeline;
  if (ranks.empty()) {
    return "";
  }
  std::vector<Row> rows = {{"rank of the pipeline",
                            "parameters",
                            "their state",
                            "activations",
                            "microbatches held",
                            "peak memory",
                            "sent",
                            "idle"}};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const PipelineRankPlan& of = ranks[rank];
    rows.push_back({formatted("{}: {}", rank, stages_text(plan.subject.graph, of.stages)),
                    grouped_digits(of.elements),
                    bytes_text(of.memory.state()),
                    bytes_text(of.memory.activations),
                    grouped_digits(of.most_held),
                    bytes_text(of.memory.sum()),
                    bytes_text(of.traffic.sent()),
                    number_text("%.3f", of.idle)});
  }
  return "\n" + table(rows);
}

std::string traffic_text(const RecipePlan& plan) {
  const PlanTraffic& traffic = plan.plan.traffic;
  if (traffic.sent() == 0) {
    return "\nno data is sent between ranks\n";
  }
  const auto row = [](const char* name, const PlanTraffic::Kind& kind) {
    return Row{name,
               bytes_text(kind.sent),
               bytes_text(kind.sent - kind.between_nodes),
               bytes_text(kind.between_nodes)};
  };
  std::vector<Row> rows = {
      {plan.plan.pipeline.empty()
           ? std::string("sent by each rank per step")
           : formatted("sent by rank {} of the pipeline per step", plan.plan.pipeline_rank),
       "all",
       "within its node",
       "between nodes"}};
  const std::array kinds = {std::pair("all-gather of parameters", &traffic.all_gather),
                            std::pair("reduce-scatter of gradients", &traffic.reduce_scatter),
                            std::pair("all-reduce of gradients", &traffic.all_reduce),
                            std::pair("values and gradients to other stages", &traffic.messages)};
  for (const auto& [name, kind] : kinds) {
    if (kind->sent > 0) {
      rows.push_back(row(name, *kind));
    }
  }
  rows.push_back(row("sum", {traffic.sent(), traffic.between_nodes()}));
  return "\n" + table(rows) + "  traffic of ring collectives, averaged over ranks; " +
         bytes_text(traffic.leaving_node) + " leave the busiest node\n";
}

std::string time_text(const RecipePlan& plan) {
  const PlanTime& time = plan.plan.time;
  const PlanMachine& machine = plan.machine;
  const int64_t tokens = plan.samples_a_step() * plan.tokens_a_sample;
  std::vector<Row> rows = {{"compute", seconds_text(time.compute)}};
  if (time.recompute > 0) {
    rows.back().front() += ", " + seconds_text(time.recompute) + " of it for recomputation";
  }
  rows.push_back({"communication without overlap", seconds_text(time.communication)});
  rows.push_back({"exposed communication", seconds_text(time.exposed)});
  if (time.idle > 0) {
    rows.push_back({"waits for other stages", seconds_text(time.idle)});
  }
  rows.push_back({"estimated step time", seconds_text(time.step)});
  std::string text = "\ntime per step, at " + scaled(machine.flops) + "FLOP/s per rank, " +
                     scaled(machine.bandwidth_node) + "B/s in a node of " +
                     grouped_digits(machine.ranks_per_node) + ", " +
                     scaled(machine.bandwidth_network) + "B/s between nodes, " +
                     seconds_text(machine.latency) + " per hop\n" + table(rows);
  if (time.step > 0) {
    const auto samples = static_cast<double>(plan.samples_a_step());
    text += "  about " +
            (tokens > 0 ? scaled(static_cast<double>(tokens) / time.step) + " tokens/s"
                        : scaled(samples / time.step) + " samples/s") +
            ", " + number_text("%.0f", 100 * time.flops / (time.step * machine.flops)) +
            "% model FLOP/s utilization\n";
  }
  return text;
}

std::string verdict_text(const RecipePlan& plan) {
  if (!plan.request.memory.has_value()) {
    return "";
  }
  const PlanMemory& memory = plan.plan.memory;
  const std::string has = bytes_text(*plan.request.memory);
  if (!plan.exceeds) {
    return "\nfits: each rank has " + has + ", and " +
           bytes_text(*plan.request.memory - memory.sum()) + " are left\n";
  }
  const auto kinds = memory_kinds(memory);
  const auto largest =
      std::ranges::max_element(kinds, {}, &std::pair<std::string, int64_t>::second);
  std::string text = "\nWARNING: does not fit: each rank has " + has + ", and " +
                     bytes_text(memory.sum() - *plan.request.memory) +
                     " more are needed. The largest part is " + largest->first + " (" +
                     bytes_text(largest->second) +
                     "): " + advice(largest->first, plan.plan.choice, plan.subject.has_host) + "\n";
  if (plan.suggestion.has_value()) {
    const RankPlan& best = *plan.suggestion;
    text += formatted(
        "the fastest configuration that fits: {}: {} per rank, about {} per step\n"
        "  --set parallel.replicate={} --set parallel.shard={} --set parallel.stage={}"
        " --set parallel.offload={}{}\n",
        choice_text(best.choice),
        bytes_text(best.memory.sum()),
        seconds_text(best.time.step),
        best.choice.replicate,
        best.choice.shard,
        best.choice.stage,
        best.choice.offloads ? "true" : "false",
        recompute_setting(plan.subject, best.choice));
  } else if (plan.smallest.has_value()) {
    text += "no configuration fits on " + grouped_digits(plan.request.ranks) +
            " ranks; the smallest is " + choice_text(plan.smallest->choice) + ": " +
            bytes_text(plan.smallest->memory.sum()) + " per rank\n";
  }
  return text;
}

Json choice_json(const PlanChoice& choice) {
  return {{"replicate", choice.replicate},
          {"shard", choice.shard},
          {"pipeline", choice.pipeline},
          {"stage", choice.stage},
          {"recompute", recompute_word(choice)},
          {"offload", choice.offloads}};
}

Json memory_json(const PlanMemory& memory) {
  return {{"parameters", memory.parameters},
          {"gradients", memory.gradients},
          {"optimizer", memory.optimizer},
          {"averages", memory.averages},
          {"gathered", memory.gathered},
          {"activations", memory.activations},
          {"batches", memory.batches},
          {"buffers", memory.buffers},
          {"exchange", memory.exchange},
          {"rounding", memory.rounding},
          {"sum", memory.sum()},
          {"moment", memory.moment},
          {"host", memory.host}};
}

Json traffic_json(const PlanTraffic& traffic) {
  const auto kind_json = [](const PlanTraffic::Kind& kind) {
    return Json{{"sent", kind.sent},
                {"within_node", kind.sent - kind.between_nodes},
                {"between_nodes", kind.between_nodes}};
  };
  return {{"all_gather", kind_json(traffic.all_gather)},
          {"reduce_scatter", kind_json(traffic.reduce_scatter)},
          {"all_reduce", kind_json(traffic.all_reduce)},
          {"send", kind_json(traffic.messages)},
          {"sent", traffic.sent()},
          {"leaving_node", traffic.leaving_node}};
}

Json rank_json(const RankPlan& plan) {
  Json json = choice_json(plan.choice);
  json["memory"] = memory_json(plan.memory);
  json["traffic"] = traffic_json(plan.traffic);
  json["seconds"] = {{"compute", plan.time.compute},
                     {"recompute", plan.time.recompute},
                     {"communication", plan.time.communication},
                     {"exposed", plan.time.exposed},
                     {"idle", plan.time.idle},
                     {"step", plan.time.step}};
  json["flops"] = plan.time.flops;
  for (const PipelineRankPlan& rank : plan.pipeline) {
    json["pipeline_ranks"].push_back({{"stages", rank.stages},
                                      {"parameters", rank.elements},
                                      {"microbatches_held", rank.most_held},
                                      {"memory", memory_json(rank.memory)},
                                      {"traffic", traffic_json(rank.traffic)},
                                      {"busy", rank.busy},
                                      {"idle_share", rank.idle}});
  }
  return json;
}

const char* source_name(BlockCost::Source source) {
  return source == BlockCost::Source::kDeclared   ? "declared"
         : source == BlockCost::Source::kMeasured ? "measured"
                                                  : "guessed";
}

}  // namespace

std::string plan_text(const RecipePlan& plan) {
  return head_text(plan) + parameters_text(plan) + pipeline_text(plan) + memory_text(plan) +
         traffic_text(plan) + time_text(plan) + verdict_text(plan);
}

std::string plan_json(const RecipePlan& plan) {
  const PlanSubject& subject = plan.subject;
  const PlanMachine& machine = plan.machine;
  const Sums sums = sums_of(subject);
  Json json;
  json["recipe"] = plan.recipe;
  json["device"] = plan.device;
  json["precision"] = plan.precision;
  json["ranks"] = plan.request.ranks;
  json["given"] = {{"ranks_per_node", machine.ranks_per_node},
                   {"flops", machine.flops},
                   {"bandwidth_node", machine.bandwidth_node},
                   {"bandwidth_network", machine.bandwidth_network},
                   {"bandwidth_host", machine.bandwidth_host},
                   {"latency", machine.latency},
                   {"memory", nullptr}};
  if (plan.request.memory.has_value()) {
    json["given"]["memory"] = *plan.request.memory;
  }
  json["step"] = {{"samples", plan.samples_a_step()},
                  {"tokens", plan.samples_a_step() * plan.tokens_a_sample},
                  {"microbatches", subject.microbatches},
                  {"batch_size", plan.batch_size}};
  json["parameters"] = {
      {"total", sums.elements}, {"trainable", sums.trainable}, {"per_rank", elements_a_rank(plan)}};
  json["blocks"] = Json::array();
  for (const BlockRun& run : block_runs(subject)) {
    const BlockCost& cost = subject.costs[run.first];
    json["blocks"].push_back({{"first", subject.graph.blocks[run.first].name},
                              {"last", subject.graph.blocks[run.last].name},
                              {"count", run.count},
                              {"parameters", run.elements},
                              {"forward_flops", cost.forward_flops},
                              {"backward_flops", cost.backward_flops},
                              {"output_bytes", cost.output_bytes},
                              {"saved_bytes", cost.saved_bytes},
                              {"working_bytes", cost.working_bytes},
                              {"source", source_name(cost.source)}});
  }
  json["plan"] = rank_json(plan.plan);
  json["fits"] = nullptr;
  if (plan.request.memory.has_value()) {
    json["fits"] = !plan.exceeds;
  }
  json["suggestion"] = plan.suggestion.has_value() ? rank_json(*plan.suggestion) : Json(nullptr);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon
