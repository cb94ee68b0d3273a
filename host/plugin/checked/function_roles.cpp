// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/function_roles.hpp"

namespace tenon {

FunctionRole role_of(std::string_view kind, std::string_view function) noexcept {
  for (const FunctionRole& one : all_function_roles()) {
    if ((one.kind.empty() || one.kind == kind) && one.function == function) {
      return one;
    }
  }
  return {.table = {}, .kind = kind, .function = function};
}

std::string_view role_name(Role role) noexcept {
  switch (role) {
    case Role::kLoad:
      return "[load]";
    case Role::kMain:
      return "[main]";
    case Role::kStep:
      return "[step]";
    case Role::kWorker:
      return "[worker]";
    case Role::kAny:
      break;
  }
  return "[any]";
}

}  // namespace tenon
