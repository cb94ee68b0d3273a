// SPDX-License-Identifier: Apache-2.0
#include "tests/support/members.hpp"

#include <cstdlib>
#include <string_view>

namespace tenon {

bool runs_all_members() {
  const char* const members = std::getenv("TENON_TEST_MEMBERS");
  return members != nullptr && std::string_view(members) == "all";
}

}  // namespace tenon
