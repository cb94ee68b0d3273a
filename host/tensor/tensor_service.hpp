// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.tensor/1: what a plugin without libtorch's headers does with tensors.

#pragma once

#include <tenon/tensor.h>

namespace tenon {

// The table, as tensor.h documents it.
const tenon_tensor_api* tensor_service() noexcept;

}  // namespace tenon
