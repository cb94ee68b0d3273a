// SPDX-License-Identifier: Apache-2.0
//
// The places of a recipe's datasets. "data.eval" and "data.test" are each one dataset, or an object
// of datasets by name.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace tenon {

// Returns whether "data.eval" or "data.test" is one dataset, not an object of datasets by name.
bool is_single_dataset(const nlohmann::json& eval);

struct EvalSite {
  std::string list;     // "eval" or "test"
  std::string name;     // "" for the unnamed dataset
  std::string pointer;  // "/data/eval" or "/data/eval/NAME"
};

// Returns the datasets of "data.eval", in the order of their names, then those of "data.test".
std::vector<EvalSite> eval_sites(const nlohmann::json& root);

// Returns the pointers of all datasets and mixes: "/data/train", then those of eval_sites().
std::vector<std::string> dataset_pointers(const nlohmann::json& root);

}  // namespace tenon
