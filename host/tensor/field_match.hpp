// SPDX-License-Identifier: Apache-2.0
//
// Checks whether a tensor of one description fits another: fields of a dataset, values of a model,
// ports of a loss. Compares declarations, never tensors.
#pragma once

#include "host/tensor/batch.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// One side of a match: a dtype or a class of ports.h, and axes if they are declared.
struct Described {
  uint32_t dtype = 0;
  const std::vector<Axis>* axes = nullptr;  // null: any shape
};

// "f32 [B, T, 256]".
std::string describe(const Described& what);

// "user_id, label": for messages that list the available fields.
std::string field_names(const std::vector<FieldInfo>& fields);

// Returns nothing if `have` fits `want`, else a description of both sides. Floating-point fields
// fit the compute and parameter classes, because the host converts them.
std::optional<std::string> mismatch(const Described& have, const Described& want);

}  // namespace tenon
