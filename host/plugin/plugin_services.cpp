// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/plugin_services.hpp"

#include <tenon/log.h>
#include <tenon/memory.h>
#include <tenon/options.h>

#include "host/plugin/log_service.hpp"
#include "host/plugin/memory_service.hpp"
#include "host/plugin/options_service.hpp"

namespace tenon {

void add_plugin_services(ServiceTable& services) {
  services[TENON_LOG_ID] = log_service();
  services[TENON_MEMORY_ID] = memory_service();
  services[TENON_OPTIONS_ID] = options_service();
}

}  // namespace tenon
