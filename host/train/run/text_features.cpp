// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/text_features.hpp"

#include <tenon/tensor.h>

#include "host/recipe/recipe.hpp"
#include "host/train/components/recipe_features.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

namespace tenon {
namespace {

constexpr const char* kGiven[] = {"input_ids", "segment_ids"};

FieldInfo token_field(const char* name) {
  return {.name = name,
          .dtype = TENON_I64,
          .flags = 0,
          .axes = {{.name = "B"}, {.name = "T", .size = -1}}};
}

// Whether a column named in `from` is one of `known`, or a column of one of them ("ngrams.0").
bool is_column_of(const std::vector<std::string>& known, const std::string& column) {
  return std::ranges::any_of(known, [&](const std::string& name) {
    return column == name || column.starts_with(name + ".");
  });
}

std::vector<const FeatureUse*> features_of_tokens(const Recipe& recipe) {
  std::vector<std::string> known(std::begin(kGiven), std::end(kGiven));
  std::vector<const FeatureUse*> found;
  for (const FeatureUse& feature : recipe.features) {
    if (std::ranges::all_of(feature.from,
                            [&](const std::string& from) { return is_column_of(known, from); })) {
      known.push_back(feature.name);
      found.push_back(&feature);
    }
  }
  return found;
}

}  // namespace

TextFeatures::TextFeatures(ComponentFactory& factory) {
  std::vector<FieldInfo> given;
  for (const char* const name : kGiven) {
    given.push_back(token_field(name));
  }
  given_ = std::make_shared<const std::vector<FieldInfo>>(given);
  std::vector<const FeatureUse*> features = features_of_tokens(factory.recipe());
  if (features.empty()) {
    return;
  }
  const FeaturePlan plan = plan_features(factory, std::move(features));
  graph_.emplace(plan.definitions, given, "the text to continue", plan.exec, plan.make);
  const std::vector<FieldInfo>& all = *graph_->schema();
  fields_.assign(all.begin() + static_cast<std::ptrdiff_t>(given.size()), all.end());
}

std::vector<at::Tensor> TextFeatures::values(const std::vector<int64_t>& ids) {
  if (!graph_) {
    return {};
  }
  const auto length = static_cast<int64_t>(ids.size());
  at::Tensor tokens = at::empty({1, length}, at::kLong);
  std::ranges::copy(ids, tokens.mutable_data_ptr<int64_t>());
  Batch batch;
  batch.schema = given_;
  batch.samples = 1;
  batch.tokens = length;
  batch.fields = {std::move(tokens), at::zeros({1, length}, at::kLong)};
  return graph_->run(batch);
}

}  // namespace tenon
