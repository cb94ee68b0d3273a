// SPDX-License-Identifier: Apache-2.0
//
// Combines rows of several batches into one batch of a mix. Reads and draws nothing.
// Threads: any; pure functions.

#pragma once

#include <tenon/dataset.h>

#include "host/tensor/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

struct BatchPart {
  Batch batch;
  std::vector<std::size_t> fields;  // field f of the result is field fields[f] of the part
  std::vector<int64_t> rows;        // row i of the part becomes row rows[i] of the result
};

// Writes the rows of all parts, which are numbered from 0 without gaps, their counts and lengths.
// If parts differ in the size of an axis, smaller parts are padded at the end of the axis with the
// padding value of the field.
//
// Shapes   each field [B, ...]
// Errors   data.bad_batch, as the writer reports
void write_rows(const std::vector<FieldInfo>& schema,
                std::span<const BatchPart> parts,
                tenon_batch_writer& writer);

// Returns why rows of such a field cannot be combined, or nothing if they can.
std::optional<std::string> why_not_rows(const FieldInfo& field);

}  // namespace tenon
