// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/judge_error.hpp"

#include "host/error/catalogue.hpp"

namespace tenon {

std::string judge_error(const Error& error) {
  if (find_error(error.id()) == nullptr) {
    throw FuzzFinding("the catalogue has no error " + error.id());
  }
  check_fuzz_message(error.id(), error.message());
  return error.id();
}

}  // namespace tenon
