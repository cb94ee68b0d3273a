// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.tensor/1: tensor functions for plugins that do not use libtorch's headers.

#pragma once

#include <tenon/tensor.h>

namespace tenon {

// Returns the table that tensor.h documents.
const tenon_tensor_api* tensor_service() noexcept;

}  // namespace tenon
