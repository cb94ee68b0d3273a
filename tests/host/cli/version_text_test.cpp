// SPDX-License-Identifier: Apache-2.0
#include "host/cli/version_text.hpp"

#include <tenon/abi.h>

#include <tenon_build.hpp>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("the version names program, ABI and libtorch in one line", "[cli]") {
  const std::string text = version_text();
  CHECK(text.rfind(std::string("tenon ") + kVersion + " (ABI " TENON_ABI_STRING ", libtorch " +
                       kTorchVersion,
                   0) == 0);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.back() == ')');
}

}  // namespace tenon
