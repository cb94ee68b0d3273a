// SPDX-License-Identifier: Apache-2.0
//
// The features of a recipe that follow from the tokens of a text alone, for models that read them.
// Threads: as TextFields.
#pragma once

#include "host/data/feature_graph.hpp"
#include "host/model/text_fields.hpp"
#include "host/train/components/component_factory.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tenon {

class TextFeatures final : public TextFields {
 public:
  // Creates the features of the factory's recipe that read only `input_ids`, `segment_ids` (a text
  // is one segment) and each other. Skips all others.
  // Errors  data.bad_feature; errors of the plugins
  explicit TextFeatures(ComponentFactory& factory);

  const std::vector<FieldInfo>& fields() const override { return fields_; }
  std::vector<at::Tensor> values(const std::vector<int64_t>& ids) override;

 private:
  std::optional<FeatureGraph> graph_;  // nothing: there are no such features
  BatchSchema given_;
  std::vector<FieldInfo> fields_;
};

}  // namespace tenon
