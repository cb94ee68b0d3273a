// SPDX-License-Identifier: Apache-2.0
//
// Recipes whose results do not depend on the mesh, and their results on one rank. The data are
// uneven: samples have unequally many labels, some none, and the last global batch of each epoch is
// not full, so that ranks go without samples.
#pragma once

#include <string>

#include "tests/ranks/finished_run.hpp"

namespace tenon {

nlohmann::json merged(nlohmann::json recipe, const std::string& patch);

// A recipe of 50 steps, without a model.
nlohmann::json mesh_base_recipe();

// The recipe of a model: "tied" or "untied", declared parameters, the latter with another optimizer
// for some; "frozen"; "experts", balanced by biases and by losses; "module", with leaves of its
// own, some frozen, some unused. Else the type of a model of the tests' plugins, with its defaults.
nlohmann::json mesh_recipe(const std::string& model);

// 12 steps of the model "untied" on sequences of 1 to 16 tokens.
nlohmann::json sequences_recipe(const std::string& patch = "{}");

// The same in rows of 24 positions, four rows in a step.
nlohmann::json packed_recipe(const std::string& patch = "{}");

// 8 steps on pairs of answers, with a reference that is not trained.
nlohmann::json pair_recipe(const std::string& loss);

// What one rank makes of it, all at once and without any of the ways to save memory.
const FinishedRun& run_alone(const nlohmann::json& recipe);

}  // namespace tenon
