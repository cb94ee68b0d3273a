// SPDX-License-Identifier: Apache-2.0
//
// The log service for plugins: each line starts with the plugin's id.

#pragma once

#include <tenon/log.h>

namespace tenon {

// Returns the table of TENON_LOG_ID. Its `host` argument must come from a PluginHost.
const tenon_log_api* log_service() noexcept;

}  // namespace tenon
