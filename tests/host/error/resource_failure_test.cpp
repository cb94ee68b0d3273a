// SPDX-License-Identifier: Apache-2.0
#include "host/error/resource_failure.hpp"

#include <cerrno>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a limit is named with its reason and the way out", "[error]") {
  const Error processes = resource_failure("cannot start a helper: fork", EAGAIN);
  CHECK(processes.id() == "run.out_of_resources");
  CHECK(processes.exit_code() == ExitCode::kFailed);
  CHECK_THAT(processes.message(),
             contains_text("cannot start a helper: fork: Resource temporarily unavailable; "));
  CHECK_THAT(processes.message(), contains_text("ulimit -u"));
  CHECK_THAT(resource_failure("x", EMFILE).message(), contains_text("raise ulimit -n"));
  CHECK_THAT(resource_failure("x", ENOMEM).message(), contains_text("ulimit -v"));
  CHECK_THAT(resource_failure("x", EPERM).message(), contains_text("ulimit -a"));
}

TEST_CASE("only errors of a limit have its advice", "[error]") {
  for (const int limit : {EAGAIN, EMFILE, ENFILE, ENOMEM}) {
    CHECK(std::string(resource_advice(limit)) != "");
  }
  for (const int other : {0, EPERM, ENOENT, EIO}) {
    CHECK(std::string(resource_advice(other)).empty());
  }
}

}  // namespace tenon
