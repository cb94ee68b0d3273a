// SPDX-License-Identifier: Apache-2.0
//
// The service tenon.random/1: philox.hpp for plugins.

#pragma once

#include <tenon/random.h>

namespace tenon {

// Returns the table that random.h documents.
const tenon_random_api* random_service() noexcept;

}  // namespace tenon
