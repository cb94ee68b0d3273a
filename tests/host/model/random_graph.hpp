// SPDX-License-Identifier: Apache-2.0
//
// Graphs for tests of lifetimes: built by hand, or drawn at random with units, several models,
// frozen and shared parameters, tied names, table rows, and blocks that cannot be recomputed.
#pragma once

#include <tenon/model.h>

#include "host/model/graph_facts.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// Adds to a graph what a model declares, in the same order.
class GraphOf {
 public:
  uint32_t field(const std::string& name) {
    ModelValue& value = add(name, true);
    value.source_kind = TENON_SOURCE_BATCH;
    value.source = name;
    return last_value();
  }
  // `ids` is a value; without it, the ids are a column.
  uint32_t rows(const std::string& name, uint32_t ids = kNoIndex) {
    ModelValue& value = add(name, false);
    value.source_kind = TENON_SOURCE_TABLE;
    value.lookup.emplace();
    value.lookup->ids = ids;
    return last_value();
  }
  // `is_read`: by a loss, a metric or a hook.
  uint32_t value(const std::string& name, bool is_read = false, bool has_positions = true) {
    add(name, has_positions).is_read = is_read;
    return last_value();
  }
  uint32_t parameter(const std::string& name, bool is_frozen = false, int64_t numel = 16) {
    ModelParameter parameter;
    parameter.name = name;
    parameter.shape = {numel};
    parameter.dtype = TENON_F32;
    parameter.flags = is_frozen ? uint32_t{TENON_PARAM_FROZEN} : 0U;
    graph.parameters.push_back(std::move(parameter));
    return static_cast<uint32_t>(graph.parameters.size() - 1);
  }
  uint32_t tied(const std::string& name, uint32_t same_as) {
    const uint32_t p = parameter(name);
    graph.parameters[p] = graph.parameters[same_as];
    graph.parameters[p].name = name;
    graph.parameters[p].same_as = same_as;
    graph.parameters[p].blocks.clear();
    return p;
  }
  uint32_t block(ModelBlock block) {
    const auto b = static_cast<uint32_t>(graph.blocks.size());
    for (const uint32_t v : block.inputs) {
      std::vector<uint32_t>& users = graph.values[v].users;
      if (users.empty() || users.back() != b) {
        users.push_back(b);
      }
    }
    for (const uint32_t v : block.outputs) {
      graph.values[v].maker = b;
    }
    for (const uint32_t p : block.parameters) {
      graph.parameters[p].blocks.push_back(b);
    }
    block.number = b;
    graph.blocks.push_back(std::move(block));
    return b;
  }

  ModelGraph graph;

 private:
  ModelValue& add(const std::string& name, bool has_positions) {
    ModelValue& value = graph.values.emplace_back();
    value.name = name;
    value.is_read = false;
    value.source_kind = TENON_SOURCE_BLOCK;
    value.axes = {{"B", -1}};
    if (has_positions) {
      value.axes->push_back({"T", -1});
    }
    return value;
  }
  uint32_t last_value() const { return static_cast<uint32_t>(graph.values.size() - 1); }
};

// Returns a block with one unit, inputs, outputs and parameters.
inline ModelBlock block_of(const std::string& name,
                           const std::string& unit,
                           std::vector<uint32_t> inputs,
                           std::vector<uint32_t> outputs,
                           std::vector<uint32_t> parameters,
                           uint32_t flags = 0) {
  ModelBlock block;
  block.name = name;
  block.unit = unit;
  block.flags = flags;
  block.inputs = std::move(inputs);
  block.outputs = std::move(outputs);
  block.parameters = std::move(parameters);
  return block;
}

inline bool is_trainable(const ModelGraph& graph, uint32_t p) {
  return (graph.parameters[p].flags & TENON_PARAM_FROZEN) == 0;
}

inline GraphFacts facts_of(const ModelGraph& graph) {
  return GraphFacts(graph, [&graph](uint32_t p) { return is_trainable(graph, p); });
}

// Draws numbers that are the same with every standard library.
class Draw {
 public:
  explicit Draw(uint64_t seed) : generator_(seed) {}
  // From `least` to `most`.
  uint32_t number(uint32_t least, uint32_t most) {
    return least + static_cast<uint32_t>(generator_() % (most - least + 1));
  }
  bool chance(uint32_t percent) { return number(0, 99) < percent; }
  template <class T>
  const T& one_of(const std::vector<T>& values) {
    return values[number(0, static_cast<uint32_t>(values.size() - 1))];
  }

 private:
  std::mt19937_64 generator_;
};

class RandomGraph {
 public:
  explicit RandomGraph(uint64_t seed) : draw_(seed) {}

  ModelGraph make() {
    for (uint32_t i = draw_.number(1, 3); i > 0; --i) {
      fields_.push_back(made_.field("field" + std::to_string(i)));
    }
    frozen_ = draw_.one_of(std::vector<uint32_t>{0, 30, 90});
    has_rows_ = draw_.chance(40);
    tokenwise_ = draw_.one_of(std::vector<uint32_t>{40, 100});
    const uint32_t others = draw_.chance(30) ? draw_.number(1, 3) : 0;
    const uint32_t trained = draw_.number(1, 9);
    for (uint32_t b = 0; b < others + trained; ++b) {
      add_block(b < others ? 1 : 0, b == others);
    }
    return made_.graph;
  }

  // For draws that belong to the graph.
  Draw& draw() { return draw_; }
  // The values that blocks of the trained model make.
  const std::vector<uint32_t>& trained_values() const { return of_model_[0]; }

 private:
  void add_block(uint32_t model, bool is_first_of_model) {
    const auto b = static_cast<uint32_t>(made_.graph.blocks.size());
    if (draw_.chance(50) || b == 0 || is_first_of_model) {
      unit_ = draw_.chance(70) ? "u" + std::to_string(b) : "";
    }
    std::vector<uint32_t>& own = of_model_[model];
    std::vector<uint32_t> pool = fields_;
    pool.insert(pool.end(), own.begin(), own.end());
    std::vector<uint32_t> inputs;
    for (uint32_t i = draw_.number(1, 3); i > 0; --i) {
      inputs.push_back(draw_.one_of(pool));
    }
    if (!own.empty() && draw_.chance(80)) {
      inputs.front() = own.back();
    }
    if (has_rows_ && model == 0 && draw_.chance(40)) {
      const uint32_t ids = !own.empty() && draw_.chance(40) ? draw_.one_of(own) : kNoIndex;
      rows_.push_back(made_.rows("rows" + std::to_string(b), ids));
      inputs.push_back(rows_.back());
    }
    if (!rows_.empty() && model == 0 && draw_.chance(20)) {
      inputs.push_back(draw_.one_of(rows_));
    }
    std::vector<uint32_t> outputs;
    for (uint32_t i = draw_.number(1, 2); i > 0; --i) {
      const std::string name = "v" + std::to_string(made_.graph.values.size());
      outputs.push_back(made_.value(name, draw_.chance(20), draw_.chance(90)));
    }
    uint32_t flags = 0;
    flags |= draw_.chance(15) ? TENON_BLOCK_NO_RECOMPUTE : 0;
    flags |= draw_.chance(15) ? TENON_BLOCK_HAND_WRITTEN : 0;
    flags |= draw_.chance(tokenwise_) ? TENON_BLOCK_TOKENWISE : 0;
    ModelBlock block =
        block_of("b" + std::to_string(b), unit_, inputs, outputs, draw_parameters(model, b), flags);
    block.model = model;
    made_.block(std::move(block));
    own.insert(own.end(), outputs.begin(), outputs.end());
  }

  std::vector<uint32_t> draw_parameters(uint32_t model, uint32_t b) {
    std::vector<uint32_t> parameters;
    const std::string name = "p" + std::to_string(b);
    if (draw_.chance(85)) {
      parameters.push_back(made_.parameter(name, model != 0 || draw_.chance(frozen_)));
      of_model_parameters_[model].push_back(parameters.back());
    }
    if (!of_model_parameters_[model].empty() && draw_.chance(20)) {
      const uint32_t shared = draw_.one_of(of_model_parameters_[model]);
      if (draw_.chance(50)) {
        parameters.push_back(made_.tied(name + ".tied", shared));
      } else if (parameters.empty() || parameters.front() != shared) {
        parameters.push_back(shared);
      }
    }
    return parameters;
  }

  Draw draw_;
  GraphOf made_;
  std::vector<uint32_t> fields_;
  std::vector<uint32_t> rows_;
  std::vector<uint32_t> of_model_[2];             // values that blocks make
  std::vector<uint32_t> of_model_parameters_[2];  // not tied
  std::string unit_;
  uint32_t frozen_ = 0;     // percent
  uint32_t tokenwise_ = 0;  // percent
  bool has_rows_ = false;
};

inline ModelGraph random_graph(uint64_t seed) {
  return RandomGraph(seed).make();
}

}  // namespace tenon
