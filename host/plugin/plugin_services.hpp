// SPDX-License-Identifier: Apache-2.0
//
// The services that this folder implements: log, memory and options. Services that need a device, a
// run or a rank are in other folders.

#pragma once

#include "host/plugin/plugin_host.hpp"

namespace tenon {

// Adds the tables of TENON_LOG_ID, TENON_MEMORY_ID and TENON_OPTIONS_ID.
void add_plugin_services(ServiceTable& services);

}  // namespace tenon
