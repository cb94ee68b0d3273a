// SPDX-License-Identifier: Apache-2.0
//
// A component of a run, as the run's header and summary list it.
// Threads: any.
#pragma once

#include "host/plugin/instance.hpp"

#include <string>
#include <utility>

namespace tenon {

struct ReportedComponent {
  std::string role;  // "model", "loss lm"
  std::string type;
  std::string plugin;  // "org.tenon.llama 0.1.0"
  std::string detail;  // "869,504 parameters in 6 blocks"; may be ""
};

inline ReportedComponent reported(std::string role,
                                  const ComponentInstance& instance,
                                  std::string detail = "") {
  const PluginContext& plugin = instance.plugin();
  return {std::move(role), instance.type(), plugin.id + " " + plugin.version, std::move(detail)};
}

}  // namespace tenon
