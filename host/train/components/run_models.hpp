// SPDX-License-Identifier: Apache-2.0
//
// The models of a run: the trained one, and models that only run forward. Each has the graph that
// its plugin describes; the run has one graph of all. Allocates nothing.
// Threads: [main].
#pragma once

#include "host/model/graph.hpp"
#include "host/model/model_list.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/recipe/recipe.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace tenon {

class ComponentFactory;

class RunModels {
 public:
  // Creates and describes the models.
  // Errors  plugin.*; model.cannot_share; model.cannot_store; model.vocabularies_differ; those of
  //         recipe_model and add_parametrizations
  RunModels(const Recipe& recipe, ComponentFactory& factory);
  // One model, created and described already. `use` is borrowed.
  RunModels(const ModelUse& use, ModelProxy proxy, ModelGraph graph);
  RunModels(const RunModels&) = delete;
  RunModels& operator=(const RunModels&) = delete;

  // A model, and its own graph without that of other models.
  struct Member {
    const ModelUse& use;
    ModelProxy proxy;
    ModelGraph graph;
    uint32_t first_parameter = 0;  // index of its first parameter in the graph of the run
    uint32_t first_buffer = 0;
    uint32_t first_parametrization = 0;
  };

  Member& trained() { return members_.front(); }
  const Member& trained() const { return members_.front(); }
  // All models, the trained one first. A model's index here is that of its blocks.
  std::deque<Member>& members() { return members_; }
  ModelList list();
  // Models with "outputs": "stored", which are not part of the graph of the run.
  std::deque<Member>& stored() { return stored_; }
  const std::deque<Member>& stored() const { return stored_; }
  // The fields "NAME/OUTPUT" that take the place of their outputs in batches.
  std::vector<std::string> stored_fields() const;
  // Returns the graph of the run, with all blocks.
  ModelGraph joined() const;

 private:
  void add_stored(const ModelUse& use, ModelProxy proxy, ModelGraph graph);

  std::deque<Member> members_;  // not moved: proxies are borrowed
  std::deque<Member> stored_;
};

// The outputs that can be stored: floating-point values [B, T] that no block reads.
std::vector<std::string> storable_outputs(const ModelGraph& graph);

}  // namespace tenon
