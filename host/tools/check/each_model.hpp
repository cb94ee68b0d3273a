// SPDX-License-Identifier: Apache-2.0
//
// What the checks of models share: a trial of each model of the plugin, the words for its parts,
// and the tolerance of its results.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/tools/check/check.hpp"
#include "host/tools/check/findings.hpp"
#include "host/tools/check/model_trial.hpp"
#include "host/tools/check/subject.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace tenon {

enum class Precision { kBest, kDouble };

using ModelBody = std::function<void(ModelTrial& trial, Findings& findings)>;

// Calls `body` for each model with a batch that it accepts: in fp64, or in fp32 if the model only
// accepts that. With kDouble, a model that runs in fp32 only is a problem, unless it refuses fp64
// with TENON_UNSUPPORTED.
CheckResult for_each_model(Subject& subject, Precision precision, const ModelBody& body);

// `block "layers.0" of model "llama"`.
std::string of_block(const ModelTrial& trial, uint32_t b);
// The name of output i of block b.
const std::string& output_name(const ModelTrial& trial, uint32_t b, std::size_t i);

// The tolerance of equal results that were added in another order, relative to the largest element.
double result_tolerance(at::ScalarType dtype);
inline double result_tolerance(const ModelTrial& trial) {
  return result_tolerance(trial.dtype());
}

// True for a block that draws random numbers.
bool depends_on_step(ModelTrial& trial, uint32_t b);

}  // namespace tenon
