// SPDX-License-Identifier: Apache-2.0
#include "host/model/model_fields.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/tensor/field_match.hpp"

#include <algorithm>

namespace tenon {

void check_model_fields(const ModelGraph& graph,
                        const std::vector<FieldInfo>& fields,
                        const std::string& dataset) {
  for (const ModelValue& value : graph.values) {
    if (value.source_kind != TENON_SOURCE_BATCH || value.is_unused) {
      continue;
    }
    const auto found = std::find_if(
        fields.begin(), fields.end(), [&](const FieldInfo& f) { return f.name == value.source; });
    if (found == fields.end() && value.is_optional) {
      continue;
    }
    if (found == fields.end()) {
      throw Error("model.field_missing",
                  std::string("the model reads field '").append(value.source) + "', which " +
                      dataset + " does not have (it has: " + field_names(fields) + ")");
    }
    const Described want{value.dtype, value.axes.has_value() ? &*value.axes : nullptr};
    if (const auto difference = mismatch({found->dtype, &found->axes}, want)) {
      throw Error("model.field_mismatch",
                  "the model's input '" + value.source + "' and the field of " + dataset +
                      " differ: " + *difference);
    }
  }
}

}  // namespace tenon
