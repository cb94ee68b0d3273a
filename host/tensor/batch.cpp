// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/batch.hpp"

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

const at::Tensor* Batch::find(std::string_view name) const noexcept {
  if (schema == nullptr) {
    return nullptr;
  }
  const std::optional<size_t> index = find_field(*schema, name);
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
