// SPDX-License-Identifier: Apache-2.0
//
// The inputs that a loss or a metric of the recipe gets: fields of the first batches of its
// dataset, and outputs of its models with their initial parameters.
// Threads: one at a time, in the process of the check.
#pragma once

#include "host/plugin/port_spec.hpp"
#include "host/tools/check/sample_inputs.hpp"

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <vector>

namespace tenon {

class Subject;
struct CheckedComponent;

// Returns the inputs of the first batches, in the order of the ports. Returns none without a recipe
// that uses the component as a loss or metric, and if its models cannot run here: they read rows of
// tables, are stored or parametrized, or are too large.
//
// Errors   of the dataset and the models; those of InputBinding
std::vector<SampleInputs> recipe_inputs(Subject& subject,
                                        const CheckedComponent& checked,
                                        const std::vector<Port>& ports,
                                        at::ScalarType dtype,
                                        std::size_t most_batches);

}  // namespace tenon
