// SPDX-License-Identifier: Apache-2.0
#include "host/model/joined_graph.hpp"

#include <tenon/draft/context.h>
#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/model/positions_axis.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace tenon {
namespace {

constexpr char kVocabulary[] = "V";  // name of an axis of tokens of a vocabulary

// Returns the size of the axis of that name, the same in all values that have it; none if no value
// has it, or not with a fixed size.
std::optional<int64_t> size_of_axis(const ModelGraph& graph, const std::string& name) {
  for (const ModelValue& value : graph.values) {
    for (const Axis& axis : value.axes.value_or(std::vector<Axis>{})) {
      if (axis.name == name && axis.size >= 0) {
        return axis.size;
      }
    }
  }
  return std::nullopt;
}

// Models that read the same ids and labels must mean the same by them.
void check_vocabulary(std::optional<int64_t> here,
                      const std::string& trained_name,
                      const FurtherGraph& further) {
  const auto there = size_of_axis(further.graph, kVocabulary);
  if (here.has_value() && there.has_value() && *here != *there) {
    throw Error("model.vocabularies_differ",
                formatted("the models '{}' and '{}' have vocabularies of {} and {} tokens; a token "
                          "id must mean the same to both, so load models of one tokenizer",
                          trained_name,
                          further.name,
                          *here,
                          *there));
  }
}

uint32_t moved(uint32_t index, size_t by) {
  return index == kNoIndex ? kNoIndex : index + static_cast<uint32_t>(by);
}

void move_all(std::vector<uint32_t>& indices, size_t by) {
  for (uint32_t& index : indices) {
    index = moved(index, by);
  }
}

// Returns why parameter `p` of a model cannot be parameter `q` of the trained model; "" if it can.
std::string unshareable(const FurtherGraph& further,
                        uint32_t p,
                        const ModelGraph& all,
                        uint32_t q) {
  const ModelParameter& wanted = further.graph.parameters[p];
  const ModelParameter& named = all.parameters[q];
  const ModelParameter& there = named.same_as == kNoIndex ? named : all.parameters[named.same_as];
  const ModelParametrization* const made =
      there.parametrization == kNoIndex ? nullptr : &all.parametrizations[there.parametrization];
  if (made != nullptr && !made->has_base) {
    return "is computed from other parameters and not stored, as with a quantized base";
  }
  if (there.shape != wanted.shape) {
    return formatted(
        "has the shape {}, expected {}", shape_text(there.shape), shape_text(wanted.shape));
  }
  if ((there.flags & TENON_PARAM_FROZEN) == 0) {
    return "is trained, so that both models would change; add it to \"frozen\"";
  }
  for (const uint32_t b : wanted.blocks) {
    if (further.graph.blocks[b].has(TENON_BLOCK_MATERIALIZED)) {
      return "is made by a module, which keeps its own tensor";
    }
  }
  return {};
}

// Returns, by parameter of a model, the parameter of the trained model with its name.
std::vector<uint32_t> shared_parameters(const FurtherGraph& further,
                                        const ModelGraph& all,
                                        const std::string& trained_name) {
  std::map<std::string, uint32_t> by_name;
  for (uint32_t q = 0; q < all.parameters.size(); ++q) {
    if (all.parameters[q].model == 0) {
      by_name.emplace(all.parameters[q].name, q);
    }
  }
  std::vector<uint32_t> shared;
  for (uint32_t p = 0; p < further.graph.parameters.size(); ++p) {
    const std::string& name = further.graph.parameters[p].name;
    const auto found = by_name.find(name);
    const std::string why =
        found == by_name.end() ? "does not exist" : unshareable(further, p, all, found->second);
    if (!why.empty()) {
      throw Error("model.cannot_share",
                  formatted("model '{}' cannot share the parameters of '{}': '{}' of '{}' {}",
                            further.name,
                            trained_name,
                            name,
                            trained_name,
                            why));
    }
    shared.push_back(found->second);
  }
  return shared;
}

// Adds a model's parameters and buffers to the end of `all`, with those of its parametrizations.
// Its first block will have the index `first_block`.
void append_parameters(const FurtherGraph& further,
                       uint32_t model,
                       size_t first_block,
                       ModelGraph& all) {
  const std::string prefix = further.name + "/";
  const size_t first_parameter = all.parameters.size();
  const size_t first_buffer = all.buffers.size();
  const size_t first_parametrization = all.parametrizations.size();
  for (ModelParameter parameter : further.graph.parameters) {
    parameter.name = prefix + parameter.name;
    parameter.flags |= TENON_PARAM_FROZEN;
    parameter.same_as = moved(parameter.same_as, first_parameter);
    parameter.parametrization = moved(parameter.parametrization, first_parametrization);
    move_all(parameter.blocks, first_block);
    parameter.model = model;
    all.parameters.push_back(std::move(parameter));
  }
  for (ModelParametrization made : further.graph.parametrizations) {
    made.parameter = moved(made.parameter, first_parameter);
    move_all(made.reals, first_parameter);
    move_all(made.buffers, first_buffer);
    all.parametrizations.push_back(std::move(made));
  }
}

// Lets blocks of a further model, the first of which has the index `first_block`, use parameters of
// the trained model.
void add_users(const FurtherGraph& further,
               const std::vector<uint32_t>& shared,
               size_t first_block,
               ModelGraph& all) {
  for (size_t p = 0; p < shared.size(); ++p) {
    std::vector<uint32_t> users = further.graph.parameters[p].blocks;
    move_all(users, first_block);
    std::vector<uint32_t>& blocks = all.parameters[shared[p]].blocks;
    blocks.insert(blocks.end(), users.begin(), users.end());
    std::ranges::sort(blocks);
  }
}

// Adds a model's values and buffers to the end of `all`, and its blocks to `blocks`, whose indices
// are those in the run. `parameters`: those of the run, by parameter of the model.
void append(const FurtherGraph& further,
            uint32_t model,
            const std::vector<uint32_t>& parameters,
            ModelGraph& all,
            std::vector<ModelBlock>& blocks) {
  const std::string prefix = further.name + "/";
  const size_t first_value = all.values.size();
  const size_t first_buffer = all.buffers.size();
  const size_t first_block = blocks.size();
  for (ModelValue value : further.graph.values) {
    if (value.lookup.has_value()) {
      throw Error("model.not_available",
                  "model '" + further.name + "' reads rows of a table as '" + value.name +
                      "', which only the trained model can in this release");
    }
    value.name = prefix + value.name;
    value.maker = moved(value.maker, first_block);
    move_all(value.users, first_block);
    all.values.push_back(std::move(value));
  }
  for (ModelBuffer buffer : further.graph.buffers) {
    buffer.name = prefix + buffer.name;
    buffer.model = model;
    all.buffers.push_back(std::move(buffer));
  }
  for (ModelBlock block : further.graph.blocks) {
    block.name = prefix + block.name;
    block.unit = block.unit.empty() ? "" : prefix + block.unit;
    move_all(block.inputs, first_value);
    move_all(block.outputs, first_value);
    for (uint32_t& p : block.parameters) {
      p = parameters[p];
    }
    move_all(block.buffers, first_buffer);
    block.model = model;
    blocks.push_back(std::move(block));
  }
}

}  // namespace

ModelGraph join_graphs(ModelGraph trained,
                       const std::string& trained_name,
                       const std::vector<FurtherGraph>& further) {
  if (further.empty()) {
    return trained;
  }
  ModelGraph all = std::move(trained);
  const size_t num_trained_values = all.values.size();
  const size_t num_trained_parameters = all.parameters.size();
  const std::optional<int64_t> vocabulary = size_of_axis(all, kVocabulary);
  std::vector<ModelBlock> blocks;
  std::vector<std::pair<size_t, std::vector<uint32_t>>> used;  // by further model: first block, and
                                                               // parameters in the run
  for (size_t i = 0; i < further.size(); ++i) {
    const auto model = static_cast<uint32_t>(i + 1);
    check_vocabulary(vocabulary, trained_name, further[i]);
    std::vector<uint32_t> parameters;
    if (further[i].shares_parameters) {
      parameters = shared_parameters(further[i], all, trained_name);
    } else {
      parameters.resize(further[i].graph.parameters.size());
      std::iota(parameters.begin(), parameters.end(), static_cast<uint32_t>(all.parameters.size()));
      append_parameters(further[i], model, blocks.size(), all);
    }
    used.emplace_back(blocks.size(), std::move(parameters));
    append(further[i], model, used.back().second, all, blocks);
  }
  const size_t first_block = blocks.size();
  for (size_t v = 0; v < num_trained_values; ++v) {
    all.values[v].maker = moved(all.values[v].maker, first_block);
    move_all(all.values[v].users, first_block);
  }
  for (size_t p = 0; p < num_trained_parameters; ++p) {
    move_all(all.parameters[p].blocks, first_block);
  }
  for (size_t i = 0; i < further.size(); ++i) {
    if (further[i].shares_parameters) {
      add_users(further[i], used[i].second, used[i].first, all);
    }
  }
  std::ranges::move(all.blocks, std::back_inserter(blocks));
  all.blocks = std::move(blocks);
  return all;
}

namespace {

class BlockSkip {
 public:
  BlockSkip(ModelGraph& graph, const std::vector<uint32_t>& read)
      : graph_(graph), runs_(graph.blocks.size(), true) {
    for (ModelValue& value : graph.values) {
      value.is_read = false;
    }
    for (const uint32_t v : read) {
      graph.values[v].is_read = true;
    }
  }

  void run() {
    for (auto b = static_cast<uint32_t>(graph_.blocks.size()); b-- > 0;) {
      runs_[b] = is_needed(b);
    }
    drop();
  }

 private:
  bool is_any_running(const std::vector<uint32_t>& blocks, uint32_t except) const {
    return std::ranges::any_of(blocks, [&](uint32_t b) { return b != except && runs_[b]; });
  }

  bool is_needed(uint32_t b) const {
    const ModelBlock& block = graph_.blocks[b];
    const auto is_state = [&](uint32_t i) { return graph_.buffers[i].kind == TENON_BUFFER_STATE; };
    const auto is_lookup = [&](uint32_t v) { return graph_.values[v].lookup.has_value(); };
    const auto is_wanted = [&](uint32_t v) {
      const ModelValue& value = graph_.values[v];
      return value.is_read || is_any_running(value.users, kNoIndex) || feeds_lookup(v);
    };
    const auto is_own = [&](uint32_t p) { return !is_any_running(graph_.parameters[p].blocks, b); };
    return block.outputs.empty() || std::ranges::any_of(block.outputs, is_wanted) ||
           std::ranges::any_of(block.buffers, is_state) ||
           std::ranges::any_of(block.inputs, is_lookup) ||
           std::ranges::any_of(block.parameters, is_own);
  }

  bool feeds_lookup(uint32_t v) const {
    return std::ranges::any_of(graph_.values, [v](const ModelValue& value) {
      return value.lookup.has_value() && value.lookup->ids == v;
    });
  }

  void drop() {
    std::vector<uint32_t> index(runs_.size(), kNoIndex);
    std::vector<ModelBlock> kept;
    for (size_t b = 0; b < runs_.size(); ++b) {
      if (runs_[b]) {
        index[b] = static_cast<uint32_t>(kept.size());
        kept.push_back(std::move(graph_.blocks[b]));
      }
    }
    graph_.blocks = std::move(kept);
    const auto renumber = [&index](std::vector<uint32_t>& blocks) {
      std::vector<uint32_t> result;
      for (const uint32_t b : blocks) {
        if (index[b] != kNoIndex) {
          result.push_back(index[b]);
        }
      }
      blocks = std::move(result);
    };
    for (ModelValue& value : graph_.values) {
      value.maker = value.maker == kNoIndex ? kNoIndex : index[value.maker];
      const bool had_users = !value.users.empty();
      renumber(value.users);
      value.is_unused = had_users && value.users.empty();
    }
    for (ModelParameter& parameter : graph_.parameters) {
      renumber(parameter.blocks);
    }
  }

  ModelGraph& graph_;
  std::vector<bool> runs_;  // by block; true until decided
};

bool has_positions(const ModelValue& value) {
  return axis_of_positions(value).has_value();
}

// Whether all values of a block, of which one is always given, have positions.
bool is_over_positions(const ModelGraph& graph, const ModelBlock& block) {
  const auto is_cut = [&graph](uint32_t v) { return has_positions(graph.values[v]); };
  const auto is_given = [&graph](uint32_t v) { return !graph.values[v].is_optional; };
  return std::ranges::any_of(block.inputs, is_given) && std::ranges::all_of(block.inputs, is_cut) &&
         std::ranges::all_of(block.outputs, is_cut);
}

}  // namespace

bool can_run_in_chunks(const ModelGraph& graph, const ModelBlock& block) {
  return block.has(TENON_BLOCK_TOKENWISE) && is_over_positions(graph, block) &&
         std::ranges::none_of(block.inputs,
                              [&graph](uint32_t v) { return graph.values[v].lookup.has_value(); });
}

bool can_run_on_part(const ModelGraph& graph, const ModelBlock& block) {
  return block.has(TENON_BLOCK_TOKENWISE | TENON_BLOCK_CONTEXT) && is_over_positions(graph, block);
}

std::vector<bool> whole_blocks(const ModelGraph& graph) {
  std::vector<bool> whole;
  for (const ModelBlock& block : graph.blocks) {
    whole.push_back(!can_run_on_part(graph, block));
  }
  return whole;
}

void skip_unread_blocks(ModelGraph& graph, const std::vector<uint32_t>& read) {
  BlockSkip(graph, read).run();
}

std::vector<uint32_t> tail_blocks(const ModelGraph& graph) {
  std::vector<uint32_t> tails;
  for (uint32_t b = 0; b < graph.blocks.size(); ++b) {
    const bool is_last =
        b + 1 == graph.blocks.size() || graph.blocks[b + 1].model != graph.blocks[b].model;
    if (is_last && can_run_in_chunks(graph, graph.blocks[b])) {
      tails.push_back(b);
    }
  }
  const bool has_trained =
      !tails.empty() && static_cast<size_t>(tails.back()) + 1 == graph.blocks.size();
  return has_trained ? tails : std::vector<uint32_t>{};
}

std::vector<uint32_t> tail_outputs(const ModelGraph& graph) {
  std::vector<uint32_t> outputs;
  for (const uint32_t b : tail_blocks(graph)) {
    const std::vector<uint32_t>& of_block = graph.blocks[b].outputs;
    outputs.insert(outputs.end(), of_block.begin(), of_block.end());
  }
  return outputs;
}

}  // namespace tenon
