// SPDX-License-Identifier: Apache-2.0
//
// Formats the shape of a tensor for messages.
// Threads: [any].

#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>

namespace tenon {

// "[2, 3]"; "[]" for a scalar.
std::string shape_text(c10::ArrayRef<int64_t> shape);

}  // namespace tenon
