// SPDX-License-Identifier: Apache-2.0
//
// Upper limits of the options that size a model. Each is far above the models that exist, and low
// enough that the sizes of all parameters and activations are computed without overflow.
#pragma once

#include <cstdint>

namespace tenon {

constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxWidth = int64_t{1} << 28;  // of a layer
constexpr int64_t kMaxRowWidth = 65'536;         // of a table row, as in the recipe's `tables`
constexpr int64_t kMaxVocabulary = int64_t{1} << 28;
constexpr int64_t kMaxPositions = int64_t{1} << 28;  // of a sequence

}  // namespace tenon
