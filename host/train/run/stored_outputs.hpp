// SPDX-License-Identifier: Apache-2.0
//
// Computes the outputs of models with "outputs": "stored" for all samples of a run's datasets, or
// finds them in the cache, before the run allocates the model that it trains.
// Invariant: the model is allocated only in here. Values are the same for any number of ranks.
// Threads: [main]; a collective call.
#pragma once

namespace tenon {

class RunComponents;
struct RunContext;
class SignalWatch;

// Sets the values of the datasets' additional fields. Each rank holds a whole model and computes a
// part of the samples. Returns false if a signal ended the computation.
//
// Errors   SharedFailure: those of loading the model and of the datasets; storage.io;
//          outputs.corrupt
bool store_outputs(const RunContext& context,
                   RunComponents& components,
                   const SignalWatch& signals);

}  // namespace tenon
