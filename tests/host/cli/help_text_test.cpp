// SPDX-License-Identifier: Apache-2.0
#include "host/cli/help_text.hpp"

#include "host/cli/all_actions.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("the help names every option, in lines that fit a terminal", "[cli]") {
  const std::string help = help_text("tenon");
  for (const std::string name : {"recipe FILE",
                                 "plugin-dir DIR",
                                 "set PATH=VALUE",
                                 "run-dir DIR",
                                 "resume auto|none|PATH",
                                 "quiet",
                                 "log-level LEVEL",
                                 "profile steps=A..B",
                                 "no-vet-cache",
                                 "eval-only",
                                 "validate",
                                 "print-recipe",
                                 "list-plugins",
                                 "describe KIND:TYPE",
                                 "new-plugin KIND NAME",
                                 "explain ERROR-ID",
                                 "trace-diff A B",
                                 "table NAME",
                                 "import-tables DIR",
                                 "export-tables DIR",
                                 "export-slots",
                                 "json",
                                 "version",
                                 "help"}) {
    CHECK_THAT(help, contains_text("--" + name));
  }
  for (const Action* const action : all_actions().subspan(1)) {
    const std::string alias = action == &kPrintHelpAction ? "-h, --" : "--";
    CHECK_THAT(help,
               contains_text("\n  " + std::string(action->verb) + ", " + alias +
                             std::string(action->option.name)));
  }
  CHECK(help.rfind("usage: tenon --recipe FILE", 0) == 0);
  for (std::size_t start = 0; start < help.size();) {
    const std::size_t end = help.find('\n', start);
    INFO(help.substr(start, end - start));
    CHECK(end - start <= 100);
    start = end + 1;
  }
}

}  // namespace tenon
