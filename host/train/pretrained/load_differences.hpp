// SPDX-License-Identifier: Apache-2.0
//
// How the source of a load differs from the model, and what a user can do about it.
// Threads: any, one at a time.
#pragma once

#include "host/plugin/instance.hpp"
#include "host/recipe/recipe.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// What of a source and a model does not fit, in the words of LoadPlan.
struct LoadMisfits {
  const std::vector<std::string>& unfit;
  const std::vector<std::string>& kept;
  const std::vector<std::string>& left;
};

// Joins the lines, up to `num_shown` of them.
std::string shown_lines(const std::vector<std::string>& lines, size_t num_shown = 20);

class LoadDifferences {
 public:
  // Owner  `load` is borrowed
  explicit LoadDifferences(const LoadRecipe& load) : load_(load) {}

  // True if the load may add rows to a parameter.
  bool resizes(const std::string& weight) const;
  // A parameter that gets rows: `here` in place of `there`.
  void add_resized(int64_t there, int64_t here) { resized_.emplace(there, here); }
  // A tensor of another shape than expected. `is_longer`: rows could be added. `is_folder`: of a
  // folder with a config.json.
  void add_shape(const std::string& tensor,
                 const std::string& weight,
                 const std::vector<int64_t>& there,
                 const std::vector<int64_t>& here,
                 bool is_longer,
                 bool is_folder);
  // Lines of differences between an adapter and the parametrizations.
  void add_adapter(std::vector<std::string> lines) { adapter_ = std::move(lines); }
  // Compares a config.json with the model, after all tensors were added. Adds differences that the
  // tensors themselves show to `cautions`, if the load is not of a whole model.
  void compare_config(const ComponentInstance& model,
                      const std::string& config,
                      bool takes_all,
                      std::vector<std::string>& cautions);

  // For a source without a config.json. A load of a whole model refuses it, unless it may differ.
  void add_missing_config(bool takes_all, std::vector<std::string>& cautions);

  // Returns the lines of all differences that a load refuses, those of the function first.
  std::string lines(const LoadMisfits& misfits) const;
  // Returns what to do about them. Never a way to a model that is partly untrained, unless the text
  // says so.
  std::string advice(const LoadMisfits& misfits) const;

 private:
  using RowCounts = std::set<std::pair<int64_t, int64_t>>;  // there and here

  bool is_vocabulary() const;

  const LoadRecipe& load_;
  RowCounts resized_;
  std::vector<std::string> adapter_;
  std::vector<std::string> function_;  // of config.json, in what is computed
  std::vector<std::string> longer_;    // weights with more rows here
  RowCounts longer_rows_;
  std::vector<std::string> rows_;  // tensors of which rows could be loaded
  bool has_other_shapes_ = false;
  bool lacks_config_ = false;
};

}  // namespace tenon
