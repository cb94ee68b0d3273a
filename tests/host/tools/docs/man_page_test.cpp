// SPDX-License-Identifier: Apache-2.0
#include "host/tools/docs/man_page.hpp"

#include "host/cli/all_actions.hpp"
#include "host/terminal/help_notes.hpp"

#include <sstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

std::string without_escapes(const std::string& page) {
  std::string text;
  for (std::size_t i = 0; i < page.size(); ++i) {
    if (page[i] == '\\' && i + 1 < page.size()) {
      i += page[i + 1] == 'f' ? 2 : 0;  // \fB
      continue;
    }
    text += page[i];
  }
  return text;
}

}  // namespace

TEST_CASE("the man page has every option, its help and each exit status", "[cli]") {
  const std::string page = man_page(all_actions());
  CHECK(page.rfind(".TH TENON 1 ", 0) == 0);
  const std::string text = without_escapes(page);
  for (const Option& option : options_of(all_actions())) {
    CAPTURE(std::string(option.name));
    CHECK_THAT(text, contains_text("--" + std::string(option.name)));
    const std::string help(option.help.substr(0, option.help.find('\n')));
    CHECK_THAT(text, contains_text(help));
  }
  for (const HelpNote& note : kExitStatusNotes) {
    CHECK_THAT(text, contains_text(std::string(note.text)));
  }
  for (const char* const section : {"NAME", "SYNOPSIS", "OPTIONS", "ENVIRONMENT", "FILES"}) {
    CHECK_THAT(page, contains_text(std::string(".SH ") + section + "\n"));
  }
}

TEST_CASE("no line of the man page is a request by accident", "[cli]") {
  std::istringstream lines(man_page(all_actions()));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK_FALSE(line.empty());
    CHECK(line.front() != '\'');
    if (line.front() == '.') {
      const std::string request = line.substr(1, line.find(' ') - 1);
      CHECK((request == "TH" || request == "SH" || request == "TP" || request == "RS" ||
             request == "RE" || request == "PP" || request == "br" || request == "nf" ||
             request == "fi"));
    }
  }
}

TEST_CASE("groff formats the man page without a warning", "[cli]") {
  if (run_subprocess({"bash", "-c", "command -v groff"}).exit_code != 0) {
    TENON_SKIP("groff is not installed");
  }
  const ScratchFolder scratch;
  const std::string file = scratch.write("tenon.1", man_page(all_actions())).string();
  const SubprocessResult result = run_subprocess({"groff", "-man", "-Tascii", "-ww", "-z", file});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "");
}

}  // namespace tenon
