// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/batch.hpp"

#include <tenon/tensor.h>

#include <algorithm>

namespace tenon {

std::optional<size_t> find_field(const std::vector<FieldInfo>& schema,
                                 std::string_view name) noexcept {
  const auto field = std::ranges::find(schema, name, &FieldInfo::name);
  if (field == schema.end()) {
    return std::nullopt;
  }
  return static_cast<size_t>(field - schema.begin());
}

std::vector<FieldInfo> readable_fields(const std::vector<FieldInfo>& schema) {
  std::vector<FieldInfo> fields = schema;
  const bool has_positions = std::ranges::any_of(schema, [](const FieldInfo& field) {
    return std::ranges::any_of(field.axes, [](const Axis& axis) { return axis.name == "T"; });
  });
  if (has_positions && !find_field(schema, kLengthsField)) {
    fields.push_back(
        {.name = std::string(kLengthsField), .dtype = TENON_I64, .axes = {{.name = "B"}}});
  }
  return fields;
}

const at::Tensor* Batch::find(std::string_view name) const noexcept {
  if (schema == nullptr) {
    return nullptr;
  }
  const std::optional<size_t> index = find_field(*schema, name);
  if (!index && name == kLengthsField && lengths.defined()) {
    return &lengths;
  }
  if (!index && name == kPositionsField && positions.has_value()) {
    return &positions->position_ids;
  }
  return index && *index < fields.size() && fields[*index].defined() ? &fields[*index] : nullptr;
}

size_t Batch::num_bytes() const {
  size_t bytes = 0;
  for (const at::Tensor& field : fields) {
    bytes += field.defined() ? field.nbytes() : 0;
  }
  return bytes;
}

}  // namespace tenon
