// SPDX-License-Identifier: Apache-2.0
//
// The host's services in the checking mode: tensor and operator services that record handles and
// recognize wrong ones, and services that may not be called in any thread role.
// Threads: those of the services.
#pragma once

#include <tenon/op.h>
#include <tenon/tensor.h>

#include <string_view>

namespace tenon {

// Return the services with checks. `real` is the service to call.
const tenon_tensor_api* checked_tensor_service(const tenon_tensor_api& real);
const tenon_op_api* checked_op_service(const tenon_op_api& real);

// Returns the table of a service that is to be used in place of `table`, which may be the same.
const void* checked_service(std::string_view id, const void* table);

}  // namespace tenon
