// SPDX-License-Identifier: Apache-2.0
//
// The services of this host, collected from the folders that implement them.

#pragma once

#include "host/plugin/plugin_host.hpp"

namespace tenon {

// Returns all services that plugins can request.
ServiceTable make_service_table();

}  // namespace tenon
