// SPDX-License-Identifier: Apache-2.0
//
// Computes the outputs of models with "outputs": "stored" for all samples of a run's datasets, or
// finds them in the cache, before the run allocates the model that it trains.
// Invariant: the model is allocated only in here. Values are the same for any number of ranks.
// Threads: [main]; a collective call.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace tenon {

class SignalWatch;
struct RunContext;
struct RunPlan;

// Values of the models with stored outputs, by the name of the model.
using StoredFingerprints = std::map<std::string, std::string>;

// Sets the values of the datasets' additional fields. Each rank holds a whole model and computes a
// part of the samples. Returns none if a signal ended the computation.
//
// Errors   SharedFailure: those of loading the model and of the datasets; storage.io;
//          outputs.corrupt
std::optional<StoredFingerprints> store_outputs(const RunContext& context,
                                                const RunPlan& plan,
                                                const SignalWatch& signals);

}  // namespace tenon
