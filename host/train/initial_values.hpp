// SPDX-License-Identifier: Apache-2.0
//
// The values that a model starts with: drawn, imported, or loaded for models that are not trained.
// Pretrained parts of the trained model are loaded later (RunLoader).
// Threads: the train thread.
#pragma once

#include "host/model/parametrization_start.hpp"
#include "host/train/run_services.hpp"

#include <cstdint>
#include <vector>

namespace tenon {

// Sets all parameters and buffers, on every rank. The caller publishes them to blocks.
// Errors  those of `initialise` of the models; weights.mismatch; those of Pretrained; storage.io
void set_initial_values(RunServices& run);

// Sets the parameters of these parametrizations on the CPU, see parametrization_start.hpp.
void start_parametrizations(RunServices& run,
                            const std::vector<uint32_t>& which,
                            const UnstoredValue& unstored);

}  // namespace tenon
