// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/plugin_waits.hpp"

#include "host/plugin/plugin_host.hpp"

namespace tenon {

void PluginWaits::wait_for(const tenon_host* host) {
  ++by_plugin_[plugin_of(host).id];
  gpu_.synchronize();
}

}  // namespace tenon
