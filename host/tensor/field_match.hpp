// SPDX-License-Identifier: Apache-2.0
//
// Whether a tensor of one description fits where another is wanted: fields of a dataset, values of
// a model, ports of a loss. It compares declarations, never tensors.
#pragma once

#include "host/tensor/batch.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// One side of a match: a dtype or a class of ports.h, and axes where they are declared.
struct Described {
  uint32_t dtype = 0;
  const std::vector<Axis>* axes = nullptr;  // null: any shape
};

// "f32 [B, T, 256]".
std::string describe(const Described& what);

// "user_id, label": for messages that say what there is.
std::string field_names(const std::vector<FieldInfo>& fields);

// Nothing if `have` may be used where `want` is asked for, else both sides in words.
// Floating-point fields fit the compute and parameter classes: the host converts them.
std::optional<std::string> mismatch(const Described& have, const Described& want);

}  // namespace tenon
