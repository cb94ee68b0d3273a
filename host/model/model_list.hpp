// SPDX-License-Identifier: Apache-2.0
//
// The models of a run by the index that their blocks have in the graph: the trained model, then the
// models that only run forward. Borrows them.
#pragma once

#include "host/model/graph.hpp"
#include "host/plugin/model_proxy.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace tenon {

class ModelList {
 public:
  // A run with one model.
  ModelList(ModelProxy& model) : models_{&model} {}  // NOLINT(google-explicit-constructor): a list
  explicit ModelList(std::vector<ModelProxy*> models) : models_(std::move(models)) {}

  size_t size() const { return models_.size(); }
  ModelProxy& operator[](size_t i) const { return *models_[i]; }
  ModelProxy& of(const ModelBlock& block) const { return *models_[block.model]; }

 private:
  std::vector<ModelProxy*> models_;
};

}  // namespace tenon
