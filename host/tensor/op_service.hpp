// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.op/1: any operator of libtorch's dispatcher by name, called through boxed
// values. `find` resolves the schema once; a call converts arguments, runs the operator, and
// returns results.
// Rationale: libtorch's stable dispatcher call rejects each schema with a Scalar, such as
// aten::add.Tensor. Boxed values support all schemas.

#pragma once

#include <tenon/op.h>

namespace tenon {

// Returns the table that op.h documents.
const tenon_op_api* op_service() noexcept;
// Makes op_service() return another table, for the checking mode of calls. Null restores it.
//
// Threads  before the first plugin is loaded
void replace_op_service(const tenon_op_api* table) noexcept;

}  // namespace tenon
