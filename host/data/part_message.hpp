// SPDX-License-Identifier: Apache-2.0
//
// The message with a rank's part of a batch, from the rank that has read the batch, or with the
// error of the read. The schema and position_ids are not sent, since all ranks know them.
// Threads: any.

#pragma once

#include "host/data/data_source.hpp"
#include "host/error/error.hpp"
#include "host/tensor/batch.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tenon {

// `number` is the number of the batch in its loader. The receiver compares it.
//
// Shapes   the results u8 [n], in CPU memory
at::Tensor encode_part(const Batch& part, int64_t number);
at::Tensor encode_failure(const Error& failure, int64_t number);

// Returns the part in a message. Its tensors are views of the message.
//
// Errors   the error in the message
Batch decode_part(const at::Tensor& message, const BatchSchema& schema, int64_t number);

}  // namespace tenon
