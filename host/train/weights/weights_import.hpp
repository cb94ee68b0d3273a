// SPDX-License-Identifier: Apache-2.0
//
// Imports the initial parameters of a run from the files of another program (--import). Errors in
// the headers of the files are found before anything is allocated.
// Invariant: the files have every parameter, with its shape, and no other tensors.
// Threads: [main], then the train thread.
#pragma once

#include "host/checkpoint/weights_folder.hpp"
#include "host/model/parameter_store.hpp"
#include "host/train/weights/layout_map.hpp"
#include "host/train/weights/weights_request.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tenon {

class WeightsImport {
 public:
  // Errors  weights.bad_folder; weights.mismatch with each difference between the files and the
  //         model; weights.no_layout, weights.bad_layout; checkpoint.damaged; storage.io
  WeightsImport(const ComponentInstance& model,
                const ModelGraph& graph,
                const WeightsImportRequest& request);

  // Content of a text file of the folder, as WeightsFolder::text.
  std::optional<std::string> text(const std::string& name) const { return folder_.text(name); }

  // Loads the parameters into the store; each rank loads what it stores. Values that do
  // not fit the store's dtype are rounded, with a warning.
  // Errors  weights.mismatch if an alias of a tensor has different values; storage.io
  void load(ParameterStore& store) const;
  // Returns the value of a parameter that the store does not keep, in the dtype of a parameter.
  // Errors  storage.io
  at::Tensor unstored(const ParameterStore& store, uint32_t parametrization) const;

 private:
  // `of_names` has the lines of names in the folder that are equal in the layout.
  void check(const ComponentInstance& model,
             const ModelGraph& graph,
             const std::string& of_names) const;
  std::string config_differences(const ComponentInstance& model) const;
  // The tensor of the folder that has a name of the layout; null if there is none.
  const WeightTensor* find(const std::string& name) const;
  // Its source; requires that it exists.
  std::shared_ptr<const TensorSource> source(const std::string& name) const;

  std::string layout_;
  WeightsFolder folder_;
  LayoutMap map_;
  std::map<std::string, std::string> there_of_;  // names in the folder, by names of the layout
};

}  // namespace tenon
