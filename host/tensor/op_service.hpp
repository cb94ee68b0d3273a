// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.op/1: any operator of libtorch's dispatcher by name, called through boxed
// values. What a schema takes is worked out once, in `find`; a call converts, calls, and hands
// results out. Rationale: libtorch's stable dispatcher call refuses each schema that has a Scalar,
// aten::add.Tensor among them; boxed values take them all.

#pragma once

#include <tenon/op.h>

namespace tenon {

// The table, as op.h documents it.
const tenon_op_api* op_service() noexcept;

}  // namespace tenon
