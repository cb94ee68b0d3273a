// SPDX-License-Identifier: Apache-2.0
#include "host/terminal/given_options.hpp"

#include "host/cli/all_actions.hpp"
#include "host/cli/parse_command_line.hpp"

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {

TEST_CASE("a value may begin with a dash where no option has that name", "[cli]") {
  CHECK(parse_command_line({"--recipe", "-", "--set", "-x=1"}).sets == Words{"-x=1"});
}

TEST_CASE("a value that is not UTF-8 is refused with its option and byte", "[cli]") {
  CHECK(usage_failure({"--recipe", "a.json", "--run-dir", "caf\xe9"}) ==
        "usage.bad_option: --run-dir is not valid UTF-8: byte 4 of \"caf\xef\xbf\xbd\" is 0xe9; "
        "rename the file or folder, or use another path");
  CHECK_THAT(usage_failure({"--plugin-dir=\xff", "--recipe", "a.json"}),
             contains_text("--plugin-dir is not valid UTF-8: byte 1 of"));
  CHECK_THAT(usage_failure({"--recipe", "a\xc0\xaf.json"}), contains_text("--recipe is not valid"));
  CHECK_THAT(
      usage_failure({"--recipe", "a", "--set", "data.train.options.files=[\"\xed\xa0\x80\"]"}),
      contains_text("--set is not valid UTF-8: byte 28 of"));
  CHECK_THAT(usage_failure({"\xe9"}), contains_text("an argument is not valid UTF-8"));
  CHECK(parse_command_line({"--recipe", "caf\xc3\xa9"}).recipe == "caf\xc3\xa9");
}

TEST_CASE("an option does not take the next one for its value", "[cli]") {
  CHECK_THAT(usage_failure({"--recipe", "--validate"}), contains_text("--recipe needs a value"));
  CHECK_THAT(usage_failure({"--set", "--recipe=a"}), contains_text("--set needs a value"));
  CHECK(parse_command_line({"--recipe=--quiet"}).recipe == "--quiet");
}

TEST_CASE("two traces are compared, and not one or three", "[cli]") {
  const CommandLine line = parse_command_line({"--trace-diff", "a", "b"});
  CHECK(line.action == &kCompareTracesAction);
  CHECK(line.traces == Words{"a", "b"});
  CHECK(usage_failure({"--trace-diff", "a"}) ==
        "usage.bad_option: --trace-diff: expected 2 values, found 1; give --trace-diff A B");
  CHECK_THAT(usage_failure({"--trace-diff", "a", "b", "c"}),
             contains_text("expected 2 values, found 3"));
  CHECK_THAT(usage_failure({"--trace-diff"}), contains_text("--trace-diff needs a value"));
  CHECK_THAT(usage_failure({"--trace-diff", "a", "b", "--trace-diff", "c", "d"}),
             contains_text("is given twice"));
  CHECK_THAT(usage_failure({"--trace-diff", "a", "b", "--json"}), contains_text("has no effect"));
}

TEST_CASE("an option that is not there is answered with the nearest name", "[cli]") {
  CHECK(usage_failure({"--recpie", "a.json"}) ==
        "usage.bad_option: there is no option --recpie; did you mean \"--recipe\"?");
  CHECK(usage_failure({"--recipe", "a.json", "--plugin_dir=b"}) ==
        "usage.bad_option: there is no option --plugin_dir; did you mean \"--plugin-dir\"?");
  CHECK(usage_failure({"-recipe", "a.json"}) ==
        "usage.bad_option: there is no option -recipe; did you mean \"--recipe\"?");
  CHECK(usage_failure({"--frobnicate"}) ==
        "usage.bad_option: there is no option --frobnicate; --help lists all options");
}

TEST_CASE("an abbreviation is not guessed", "[cli]") {
  CHECK_THAT(usage_failure({"--rec", "a.json"}),
             contains_text("there is no option --rec; did you mean"));
}

TEST_CASE("an argument without an option is refused with what was likely meant", "[cli]") {
  const ScratchFolder folder;
  CHECK(
      usage_failure({"recipes/a b.json"}) ==
      "usage.bad_option: no option takes the argument \"recipes/a b.json\"; did you mean --recipe "
      "'recipes/a b.json'?");
  CHECK_THAT(usage_failure({"--recipe", "a.json", "train.steps=3"}),
             contains_text("did you mean --set train.steps=3?"));
  CHECK_THAT(usage_failure({folder.path().string()}), contains_text("did you mean --plugin-dir /"));
  CHECK_THAT(usage_failure({"Train"}), contains_text("\"Train\"; --help lists all options"));
  CHECK_THAT(usage_failure({"--recipe", "a.json", "--", "b.json"}), contains_text("\"b.json\""));
}

TEST_CASE("an option that needs a value says so, and one without takes none", "[cli]") {
  CHECK(usage_failure({"--recipe"}) == "usage.bad_option: --recipe needs a value: --recipe FILE");
  CHECK(usage_failure({"--recipe="}) == "usage.bad_option: --recipe needs a value: --recipe FILE");
  CHECK(usage_failure({"--recipe", ""}) ==
        "usage.bad_option: --recipe needs a value: --recipe FILE");
  CHECK(usage_failure({"--quiet=yes"}) == "usage.bad_option: --quiet takes no value");
}

TEST_CASE("an option that stands for one thing is given once", "[cli]") {
  CHECK(usage_failure({"--recipe", "a", "--recipe", "b"}) ==
        "usage.bad_option: --recipe is given twice: \"a\" and \"b\"");
}

}  // namespace tenon
