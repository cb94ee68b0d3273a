// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.tensor/1: tensor functions for plugins that do not use libtorch's headers.

#pragma once

#include <tenon/tensor.h>

namespace tenon {

// Returns the table that tensor.h documents.
const tenon_tensor_api* tensor_service() noexcept;
// Makes tensor_service() return another table, for the checking mode of calls. Null restores it.
//
// Threads  before the first plugin is loaded
void replace_tensor_service(const tenon_tensor_api* table) noexcept;

}  // namespace tenon
