// SPDX-License-Identifier: Apache-2.0
//
// The host's log as plugins see it: each line carries the plugin's id.

#pragma once

#include <tenon/log.h>

namespace tenon {

// The table of TENON_LOG_ID. Its `host` argument must be one of PluginHost's.
const tenon_log_api* log_service() noexcept;

}  // namespace tenon
