// SPDX-License-Identifier: Apache-2.0
//
// Imports the initial parameters of a run from the files of another program (--import). Errors in
// the headers of the files are found before anything is allocated.
// Invariant: the files have every parameter, with its shape, and no other tensors.
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

  // Loads the parameters into the store; each rank loads what it stores. Values that do
  // not fit the store's dtype are rounded, with a warning.
  // Errors  weights.mismatch if an alias of a tensor has different values; storage.io
  void load(ParameterStore& store) const;
  // Returns the value of a parameter that the store does not keep, in the dtype of a parameter.
  // Errors  storage.io
  at::Tensor unstored(const ParameterStore& store, uint32_t parametrization) const;

 private:
  void check(const ComponentInstance& model, const ModelGraph& graph) const;

  std::string layout_;
  WeightsFolder folder_;
  WeightPlaces places_;
};

}  // namespace tenon
