// SPDX-License-Identifier: Apache-2.0
#include "host/journal/logged_lines.hpp"

#include "host/journal/journal.hpp"
#include "host/log/log.hpp"

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Lines {
  void read(const Stamp&, const WarningLogged& entry) {
    seen.push_back("warning " + std::string(entry.text));
  }
  void read(const Stamp&, const ErrorLogged& entry) {
    seen.push_back("error " + std::string(entry.text));
  }
  std::vector<std::string> seen;
};

struct FailingFile {
  void read(const Stamp&, const Remark&) { throw std::runtime_error("no space"); }
};

}  // namespace

TEST_CASE("warnings and errors become notices, as the log shows them", "[journal]") {
  set_up_log({.terminal = false});
  Journal journal(1, 0);
  Lines lines;
  const auto subscription = journal.subscribe_prompt(lines, "lines");
  {
    const LoggedLines logged(journal);
    log_info("no entry");
    log_to_file("no entry");
    log_warning("from s3://key:secret@host/x\x1b[2J");
    std::thread([] { log_error("[a.b] of another thread"); }).join();
  }
  log_warning("too late");
  REQUIRE(lines.seen.size() == 2);
  CHECK_THAT(lines.seen[0], contains_text("warning from s3://"));
  CHECK_THAT(lines.seen[0], !contains_text("secret"));
  CHECK_THAT(lines.seen[0], contains_text("\\x1b[2J"));
  CHECK(lines.seen[1] == "error [a.b] of another thread");
}

TEST_CASE("the first failure of a reader is logged, and becomes a notice", "[journal]") {
  set_up_log({.terminal = false});
  Journal journal(1, 0);
  Lines lines;
  FailingFile failing;
  const auto a = journal.subscribe_prompt(lines, "lines");
  const auto b = journal.subscribe_prompt(failing, "file");
  const auto c = journal.subscribe(failing, "sinks");
  const LoggedLines logged(journal);
  journal.add(Remark{"one"});
  journal.add(Remark{"two"});
  CHECK(journal.num_failures() == 4);
  CHECK(
      lines.seen ==
      std::vector<std::string>{
          "warning the reader \"file\" of the journal failed at entry 1.1 (remark): no space; the "
          "run continues, and later failures of this reader are counted",
          "warning the reader \"sinks\" of the journal failed at entry 1.1 (remark): no space; "
          "the run continues, and later failures of this reader are counted"});
}

}  // namespace tenon
