// SPDX-License-Identifier: Apache-2.0
//
// The members of the zoo that no check finds, with the reasons.
#include "tests/faults/zoo/zoo_page.hpp"

namespace tenon {

std::vector<UncheckedMember> unchecked_members() {
  return {
      {"good_c", "a good plugin"},
  };
}

}  // namespace tenon
