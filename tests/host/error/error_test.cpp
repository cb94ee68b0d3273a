// SPDX-License-Identifier: Apache-2.0
#include "host/error/error.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("an error shows its id before its message", "[error]") {
  const Error error("plugin.crashed", "libfoo.so crashed; run it under a debugger");
  CHECK(error.id() == "plugin.crashed");
  CHECK(error.message() == "libfoo.so crashed; run it under a debugger");
  CHECK(std::string(error.what()) == "[plugin.crashed] libfoo.so crashed; run it under a debugger");
}

TEST_CASE("an error is a std::exception and survives being copied", "[error]") {
  std::string what;
  try {
    const Error original("data.empty", "no sample");
    throw Error(original);
  } catch (const std::exception& caught) {
    what = caught.what();
  }
  CHECK(what == "[data.empty] no sample");
}

TEST_CASE("context stands before the message and keeps the id", "[error]") {
  const Error inner("data.empty", "no sample");
  const Error outer = inner.with_context("dataset \"text\"");
  CHECK(std::string(outer.what()) == "[data.empty] dataset \"text\": no sample");
  CHECK(std::string(inner.what()) == "[data.empty] no sample");
}

TEST_CASE("an error knows the exit status of its id", "[error]") {
  CHECK(Error("usage.bad_option", "x").exit_code() == ExitCode::kUsage);
  CHECK(Error("recipe.syntax", "x").exit_code() == ExitCode::kRecipe);
  CHECK(Error("plugin.crashed", "x").exit_code() == ExitCode::kPlugin);
  CHECK(Error("run.internal", "x").exit_code() == ExitCode::kFailed);
  CHECK(Error("com.example.own", "an id of a plugin's own").exit_code() == ExitCode::kFailed);
}

}  // namespace tenon
