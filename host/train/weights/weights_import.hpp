// SPDX-License-Identifier: Apache-2.0
//
// The first parameters of a run from the files of another program: --import. What can be known to
// be wrong from the headers of the files is found before anything is allocated.
// Invariant: each parameter is there, with its shape, and nothing else is.
// Threads: [main], then the train thread.
#pragma once

#include "host/checkpoint/weights_folder.hpp"
#include "host/model/parameter_store.hpp"
#include "host/train/weights/weight_places.hpp"
#include "host/train/weights/weights_request.hpp"

#include <string>

namespace tenon {

class WeightsImport {
 public:
  // Errors  weights.bad_folder; weights.mismatch with each difference between the files and the
  //         model; weights.no_layout, weights.bad_layout; checkpoint.damaged; storage.io
  WeightsImport(const ComponentInstance& model,
                const ModelGraph& graph,
                const WeightsImportRequest& request);

  // Gives the store its parameters: of each rank what it keeps. Numbers of a wider type are
  // rounded, with a warning; others are the same.
  // Errors  weights.mismatch if a second name of a tensor has other values; storage.io
  void load(ParameterStore& store) const;

 private:
  void check(const ComponentInstance& model, const ModelGraph& graph) const;

  std::string layout_;
  WeightsFolder folder_;
  WeightPlaces places_;
};

}  // namespace tenon
