// SPDX-License-Identifier: Apache-2.0
#include "host/cli/version_text.hpp"

#include <tenon/abi.h>

#include "host/text/formatted.hpp"

#include <tenon_build.hpp>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("the version names program, ABI and libtorch in one line", "[cli]") {
  const std::string text = version_text();
  const std::string start =
      formatted("tenon {} (ABI {}, libtorch {}", kVersion, TENON_ABI_STRING, kTorchVersion);
  CHECK(text.substr(0, start.size()) == start);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.back() == ')');
}

}  // namespace tenon
