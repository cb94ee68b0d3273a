// SPDX-License-Identifier: Apache-2.0
//
// A dataset of the recipe, or a mix of several, with the recipe's features, and packed if the
// recipe says so. In a mix, features are computed from the batches of the mix, and the samples of
// all its datasets are packed together. Threads: [main] for this class; see DataSource for the
// source.
#pragma once

#include "host/data/dataset_proxy.hpp"
#include "host/data/feature_source.hpp"
#include "host/data/mix_source.hpp"
#include "host/data/packed_source.hpp"
#include "host/data/stored_source.hpp"
#include "host/recipe/recipe.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/reported_component.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// Fields of values that are computed before the run, see StoredSource.
struct StoredFields {
  std::vector<std::string> names;
  at::ScalarType dtype = at::kFloat;
};

class RunDataset {
 public:
  // `role` is the role of a single dataset, or of the first dataset of a mix: "data/train". `seed`
  // and `shuffle` must equal the loader's.
  //
  // Errors   errors of the datasets; data.bad_mix; errors of FeatureGraph; data.cannot_pack;
  //          data.cannot_store
  RunDataset(ComponentFactory& factory,
             const DatasetUse& use,
             const std::string& role,
             uint64_t seed,
             bool shuffle,
             const StoredFields& stored = {});
  RunDataset(const RunDataset&) = delete;
  RunDataset& operator=(const RunDataset&) = delete;

  // Null if there are no stored fields.
  StoredSource* stored() { return stored_ ? &*stored_ : nullptr; }
  DataSource& source() { return packed_ ? static_cast<DataSource&>(*packed_) : unpacked(); }

  // The datasets, in the order of a mix.
  std::vector<const ComponentInstance*> instances() const;

  // Returns the lines for the report: one line, or one for each source of a mix, named ROLE/NAME.
  std::vector<ReportedComponent> reported(const std::string& role);
  // Returns the lines for features: one line for each type.
  std::vector<ReportedComponent> reported_features() const;

 private:
  DataSource& without_features() {
    return mix_ ? static_cast<DataSource&>(*mix_) : datasets_.front();
  }
  DataSource& without_stored() {
    return with_features_ ? static_cast<DataSource&>(*with_features_) : without_features();
  }
  DataSource& unpacked() { return stored_ ? static_cast<DataSource&>(*stored_) : without_stored(); }
  void create_sources(ComponentFactory& factory,
                      const std::string& role,
                      uint64_t seed,
                      bool shuffle);
  void add_features(ComponentFactory& factory);

  const DatasetUse& use_;
  std::deque<DatasetProxy> datasets_;  // a mix borrows them
  std::optional<MixSource> mix_;
  std::optional<FeatureGraph> features_;
  std::optional<FeatureSource> with_features_;
  std::optional<StoredSource> stored_;
  std::optional<PackedSource> packed_;
};

}  // namespace tenon
