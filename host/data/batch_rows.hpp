// SPDX-License-Identifier: Apache-2.0
//
// Puts rows of several batches together into one: what a mixture of datasets gives. It reads and
// draws nothing.
// Threads: functions of their arguments, from any.

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
  std::vector<std::size_t> fields;  // field f of the whole is field fields[f] of the part
  std::vector<int64_t> rows;        // row i of the part becomes row rows[i] of the whole
};

// Writes the rows of all parts, which are numbered from 0 without gaps, and their counts. Where
// parts have different sizes of an axis, the smaller are padded at its end with the field's own
// value.
//
// Shapes   each field [B, ...]
// Errors   data.bad_batch, what the writer says
void write_rows(const std::vector<FieldInfo>& schema,
                std::span<const BatchPart> parts,
                tenon_batch_writer& writer);

// Why rows of such a field cannot be put together, or none if they can.
std::optional<std::string> why_not_rows(const FieldInfo& field);

}  // namespace tenon
