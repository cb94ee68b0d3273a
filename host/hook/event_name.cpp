// SPDX-License-Identifier: Apache-2.0
#include "host/hook/event_name.hpp"

#include <tenon/cpp/event_names.hpp>

namespace tenon {

const char* event_name(uint32_t event) {
  const char* const name = find_event_name(event);
  return name != nullptr ? name : "";
}

}  // namespace tenon
