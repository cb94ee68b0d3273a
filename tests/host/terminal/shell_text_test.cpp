// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/shell_text.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

using Words = std::vector<std::string>;

TEST_CASE("a command is written as a shell would read it again", "[cli]") {
  CHECK(shell_text(Words{"host", "--recipe=r.json", "--set", "name=\"a b\"", "it's", ""}) ==
        "host --recipe=r.json --set 'name=\"a b\"' 'it'\\''s' ''");
}

}  // namespace tenon
