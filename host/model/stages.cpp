// SPDX-License-Identifier: Apache-2.0
//
// Source: docs/decisions/0091-schedules-are-data.md
#include "host/model/stages.hpp"

#include <tenon/model.h>

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tenon {
namespace {

struct CostedUnit {
  ModelUnit blocks;
  int64_t cost = 0;
};

[[noreturn]] void refuse_stages(const std::string& why) {
  throw Error("model.bad_stages", why);
}

bool reads_fields_alone(const ModelGraph& graph, const ModelBlock& block) {
  return !block.inputs.empty() && std::ranges::all_of(block.inputs, [&graph](uint32_t v) {
    return graph.values[v].source_kind == TENON_SOURCE_BATCH;
  });
}

int64_t cost_of(const ModelGraph& graph, const ModelBlock& block) {
  int64_t cost = 0;
  if (reads_fields_alone(graph, block)) {
    return cost;
  }
  for (const uint32_t p : block.declared_parameters()) {
    const std::vector<int64_t>& shape = graph.parameters[p].shape;
    int64_t numel = shape.size() >= 2 ? 1 : 0;
    for (const int64_t size : shape) {
      numel *= size;
    }
    cost += numel;
  }
  return cost;
}

std::vector<CostedUnit> units_of_model(const ModelGraph& graph, uint32_t model) {
  std::vector<CostedUnit> units;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const ModelBlock& block = graph.blocks[b];
    if (block.model != model) {
      continue;
    }
    if (units.empty() || units.back().blocks.last < b) {
      units.push_back({.blocks = graph.unit_of(b)});
    }
    units.back().cost += cost_of(graph, block);
  }
  return units;
}

// Returns the first unit of each of `num_stages` runs of units whose largest cost is minimal.
std::vector<size_t> cut_by_cost(const std::vector<CostedUnit>& units, size_t num_stages) {
  const size_t n = units.size();
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  // By number of stages and first unit: the largest cost of the best cut of the units from there.
  std::vector<std::vector<int64_t>> least(num_stages + 1, std::vector<int64_t>(n + 1, kNever));
  least[0][n] = 0;
  for (size_t stages = 1; stages <= num_stages; ++stages) {
    for (size_t first = 0; first < n; ++first) {
      int64_t cost = 0;
      for (size_t end = first + 1; end <= n; ++end) {
        cost += units[end - 1].cost;
        least[stages][first] =
            std::min(least[stages][first], std::max(cost, least[stages - 1][end]));
      }
    }
  }
  const int64_t most = least[num_stages][0];
  std::vector<size_t> starts;
  size_t first = 0;
  for (size_t stages = num_stages; stages > 0; --stages) {
    starts.push_back(first);
    ++first;
    while (least[stages - 1][first] > most) {
      ++first;
    }
  }
  return starts;
}

std::vector<size_t> cut_by_patterns(const ModelGraph& graph,
                                    const std::vector<CostedUnit>& units,
                                    size_t num_stages,
                                    const std::vector<std::string>& patterns) {
  if (patterns.size() + 1 != num_stages) {
    refuse_stages(formatted("/parallel/stage_starts has {} patterns, but {} stages need {}",
                            patterns.size(),
                            num_stages,
                            num_stages - 1));
  }
  const auto name_of = [&](size_t unit) {
    return graph.blocks[units[unit].blocks.first].unit_name();
  };
  std::vector<size_t> starts = {0};
  for (size_t i = 0; i < patterns.size(); ++i) {
    const auto found = std::ranges::find_if(units, [&](const CostedUnit& unit) {
      const auto first = graph.blocks.begin() + unit.blocks.first;
      const auto end = graph.blocks.begin() + unit.blocks.last + 1;
      return std::any_of(first, end, [&](const ModelBlock& block) {
        return matches_pattern(patterns[i], block.name);
      });
    });
    const std::string at = formatted("/parallel/stage_starts/{}: '{}' ", i, patterns[i]);
    if (found == units.end()) {
      refuse_stages(at + formatted("matches no block of the model; its blocks are '{}' to '{}'",
                                   graph.blocks[units.front().blocks.first].name,
                                   graph.blocks[units.back().blocks.last].name));
    }
    const auto unit = static_cast<size_t>(found - units.begin());
    if (unit <= starts.back()) {
      refuse_stages(at + formatted("matches unit '{}', and stage {} begins at unit '{}'; list the "
                                   "patterns in the order of the blocks",
                                   name_of(unit),
                                   i,
                                   name_of(starts.back())));
    }
    starts.push_back(unit);
  }
  return starts;
}

void set_stage(ModelGraph& graph, const ModelUnit& unit, uint32_t stage) {
  for (uint32_t b = unit.first; b <= unit.last; ++b) {
    graph.blocks[b].stage = stage;
  }
}

// Sets the stages of units, of which the last `starts.size()` stages have some.
void set_stages(ModelGraph& graph,
                const std::vector<CostedUnit>& units,
                const std::vector<size_t>& starts,
                uint32_t num_stages) {
  const auto without = static_cast<uint32_t>(num_stages - starts.size());
  for (size_t u = 0; u < units.size(); ++u) {
    const auto past = std::ranges::upper_bound(starts, u) - starts.begin();
    set_stage(graph, units[u].blocks, without + static_cast<uint32_t>(past) - 1);
  }
}

uint32_t original(const ModelGraph& graph, uint32_t p) {
  const uint32_t same_as = graph.parameters[p].same_as;
  return same_as == kNoIndex ? p : same_as;
}

// Gives the units of a further model the stages of the blocks of the trained model with the same
// parameters. Returns false if there are none.
bool follow_shared(ModelGraph& graph, const std::vector<CostedUnit>& units, uint32_t num_stages) {
  std::map<uint32_t, uint32_t> stages;  // by parameter of the trained model
  for (const ModelBlock& block : graph.blocks) {
    for (const uint32_t p : block.model == 0 ? block.parameters : std::vector<uint32_t>()) {
      stages.emplace(original(graph, p), block.stage);
    }
  }
  std::vector<uint32_t> of_units;
  bool is_shared = false;
  uint32_t stage = 0;
  for (const CostedUnit& unit : units) {
    for (uint32_t b = unit.blocks.first; b <= unit.blocks.last; ++b) {
      for (const uint32_t p : graph.blocks[b].parameters) {
        if (const auto found = stages.find(original(graph, p)); found != stages.end()) {
          is_shared = true;
          stage = std::max(stage, found->second);
        }
      }
    }
    of_units.push_back(stage);
  }
  if (is_shared) {
    of_units.back() = num_stages - 1;
    for (size_t u = 0; u < units.size(); ++u) {
      set_stage(graph, units[u].blocks, of_units[u]);
    }
  }
  return is_shared;
}

std::string place_of(const ModelBlock& block) {
  return formatted("block '{}' (stage {})", block.name, block.stage);
}

// Remembers the block that uses something first. Returns it if it is in another stage than `b`.
class FirstUsers {
 public:
  const ModelBlock* other_stage(const ModelGraph& graph, uint32_t thing, uint32_t b) {
    const uint32_t first = first_.emplace(thing, b).first->second;
    return graph.blocks[first].stage != graph.blocks[b].stage ? &graph.blocks[first] : nullptr;
  }

 private:
  std::map<uint32_t, uint32_t> first_;
};

void check_stages(const ModelGraph& graph) {
  FirstUsers of_buffers;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const ModelBlock& block = graph.blocks[b];
    for (const uint32_t i : block.buffers) {
      const auto* other = of_buffers.other_stage(graph, i, b);
      if (other != nullptr && graph.buffers[i].kind == TENON_BUFFER_STATE) {
        refuse_stages(
            formatted("state buffer '{}' is used by {} and by {}; choose "
                      "/parallel/stage_starts so that one stage has both blocks",
                      graph.buffers[i].name,
                      place_of(*other),
                      place_of(block)));
      }
    }
    for (const uint32_t v : block.inputs) {
      const uint32_t maker = graph.values[v].maker;
      if (maker != kNoIndex && graph.blocks[maker].stage > block.stage) {
        refuse_stages(
            formatted("{} reads value '{}' of {}, and a stage reads no value of a later one; "
                      "use fewer stages",
                      place_of(block),
                      graph.values[v].name,
                      place_of(graph.blocks[maker])));
      }
    }
  }
}

std::vector<StageTraffic::Lot> list_of(std::map<uint32_t, std::vector<uint32_t>>& lots) {
  std::vector<StageTraffic::Lot> list;
  for (auto& [stage, values] : lots) {
    list.push_back({stage, std::move(values)});
  }
  return list;
}

}  // namespace

void assign_stages(ModelGraph& graph, uint32_t num_stages, const StageStarts& starts) {
  TENON_ASSERT(num_stages > 0, "a pipeline has stages");
  const std::vector<CostedUnit> trained = units_of_model(graph, 0);
  if (trained.size() < num_stages) {
    throw Error("model.too_few_units",
                formatted("the model has {} units, and {} stages need a unit each; set "
                          "/parallel/pipeline and /parallel/stages_per_rank so that there are at "
                          "most {} stages",
                          trained.size(),
                          num_stages,
                          trained.size()));
  }
  set_stages(graph,
             trained,
             starts.patterns.empty() ? cut_by_cost(trained, num_stages)
                                     : cut_by_patterns(graph, trained, num_stages, starts.patterns),
             num_stages);
  std::set<uint32_t> further;
  for (const ModelBlock& block : graph.blocks) {
    further.insert(block.model);
  }
  further.erase(0);
  for (const uint32_t model : further) {
    const std::vector<CostedUnit> units = units_of_model(graph, model);
    if (!follow_shared(graph, units, num_stages)) {
      set_stages(
          graph, units, cut_by_cost(units, std::min<size_t>(units.size(), num_stages)), num_stages);
    }
  }
  check_stages(graph);
}

void cut_stages(ModelGraph& graph, std::span<const uint32_t> owners, RankIndex pipeline) {
  graph.stage_owners.assign(owners.begin(), owners.end());
  std::vector<std::set<uint32_t>> holders(graph.parameters.size());
  std::vector<std::optional<uint32_t>> of_buffers(graph.buffers.size());
  for (ModelBlock& block : graph.blocks) {
    TENON_ASSERT(block.stage < owners.size(), "each stage has an owner");
    const uint32_t owner = owners[block.stage];
    block.is_elsewhere = owner != pipeline.index;
    for (const uint32_t p : block.parameters) {
      holders[original(graph, p)].insert(owner);
    }
    for (const uint32_t i : block.buffers) {
      of_buffers[i] = of_buffers[i].value_or(owner);
    }
  }
  // What no block uses is in the first stage.
  for (uint32_t p = 0; p < graph.parameters.size(); ++p) {
    ModelParameter& parameter = graph.parameters[p];
    const std::set<uint32_t>& of_parameter = holders[original(graph, p)];
    parameter.holders.assign(of_parameter.begin(), of_parameter.end());
    if (parameter.holders.empty()) {
      parameter.holders = {owners.front()};
    }
    parameter.is_elsewhere =
        std::ranges::find(parameter.holders, pipeline.index) == parameter.holders.end();
  }
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    graph.buffers[i].owner = of_buffers[i].value_or(owners.front());
  }
}

std::string units_text(const ModelGraph& graph, uint32_t stage) {
  std::string first;
  std::string last;
  for (const ModelBlock& block : graph.blocks) {
    if (block.stage == stage && block.model == 0) {
      first = first.empty() ? block.unit_name() : first;
      last = block.unit_name();
    }
  }
  return first == last ? first : first + " to " + last;
}

std::vector<uint32_t> stages_of(const ModelGraph& graph, uint32_t rank) {
  std::vector<uint32_t> stages;
  for (uint32_t stage = 0; stage < graph.stage_owners.size(); ++stage) {
    if (graph.stage_owners[stage] == rank) {
      stages.push_back(stage);
    }
  }
  return stages;
}

std::vector<ValueRoute> value_routes(const ModelGraph& graph,
                                     std::span<const uint32_t> read_at_end) {
  const auto last_stage = static_cast<uint32_t>(graph.stage_owners.size() - 1);
  std::vector<ValueRoute> routes;
  for (uint32_t v = 0; v < graph.values.size(); ++v) {
    const ModelValue& value = graph.values[v];
    if (value.maker == kNoIndex) {
      continue;
    }
    std::set<uint32_t> readers;
    for (const uint32_t user : value.users) {
      readers.insert(graph.blocks[user].stage);
    }
    if (std::ranges::find(read_at_end, v) != read_at_end.end()) {
      readers.insert(last_stage);
    }
    const uint32_t maker = graph.blocks[value.maker].stage;
    readers.erase(maker);
    if (!readers.empty()) {
      routes.push_back({.value = v, .maker = maker, .readers = {readers.begin(), readers.end()}});
    }
  }
  return routes;
}

StageTraffic traffic_of(const ModelGraph& graph,
                        std::span<const ValueRoute> routes,
                        uint32_t stage,
                        const std::function<bool(uint32_t value)>& has_gradient) {
  const std::vector<uint32_t>& owners = graph.stage_owners;
  std::map<uint32_t, std::vector<uint32_t>> receives;
  std::map<uint32_t, std::vector<uint32_t>> sends;
  std::map<uint32_t, std::vector<uint32_t>> receives_gradients;
  std::map<uint32_t, std::vector<uint32_t>> sends_gradients;
  for (const ValueRoute& route : routes) {
    std::set<uint32_t> have = {owners[route.maker]};  // ranks
    for (const uint32_t reader : route.readers) {
      if (have.insert(owners[reader]).second) {
        if (reader == stage) {
          receives[route.maker].push_back(route.value);
        } else if (route.maker == stage) {
          sends[reader].push_back(route.value);
        }
      }
    }
    if (!has_gradient(route.value)) {
      continue;
    }
    uint32_t earlier = route.maker;
    for (const uint32_t later : route.readers) {
      if (owners[later] != owners[earlier]) {
        if (later == stage) {
          sends_gradients[earlier].push_back(route.value);
        } else if (earlier == stage) {
          receives_gradients[later].push_back(route.value);
        }
      }
      earlier = later;
    }
  }
  return {.receives = list_of(receives),
          .sends = list_of(sends),
          .receives_gradients = list_of(receives_gradients),
          .sends_gradients = list_of(sends_gradients)};
}

}  // namespace tenon
