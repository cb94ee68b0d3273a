// SPDX-License-Identifier: Apache-2.0
#include "host/tools/docs/explain_error.hpp"

#include "host/error/catalogue.hpp"
#include "host/error/error.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

std::string error_page() {
  std::ifstream file(source_dir() / "docs/reference/errors.md", std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string failure(std::string_view id) {
  try {
    explain_error(id);
  } catch (const Error& error) {
    CHECK(error.id() == "usage.bad_option");
    CHECK(error.exit_code() == ExitCode::kUsage);
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST_CASE("the page in the program is the page of the docs", "[cli]") {
  std::string built_in;
  for (const std::string_view section : error_page_sections()) {
    built_in += (built_in.empty() ? "" : "## ") + std::string(section);
  }
  CHECK(built_in == error_page());
  CHECK(error_page_sections().size() == all_errors().size() + 1);
}

TEST_CASE("each id of the catalogue is explained by its entry alone", "[cli]") {
  const std::string page = error_page();
  for (const ErrorEntry& entry : all_errors()) {
    INFO(entry.id);
    const std::string text = explain_error(entry.id);
    CHECK(text.starts_with(std::string(entry.id) + "\n\n"));
    CHECK_THAT(text, contains_text("\n- What to do: "));
    CHECK(text.find("\n## ") == std::string::npos);
    CHECK(text.back() == '\n');
    CHECK(text[text.size() - 2] != '\n');
    CHECK_THAT(page, contains_text("\n## " + text));
  }
}

TEST_CASE("an id may be pasted with the brackets that messages put around it", "[cli]") {
  CHECK(explain_error("[recipe.syntax]") == explain_error("recipe.syntax"));
  CHECK_THAT(failure("[]"), contains_text("there is no error \"[]\""));
}

TEST_CASE("all ids are listed with their statuses", "[cli]") {
  const std::string text = explain_error("all");
  for (const ErrorEntry& entry : all_errors()) {
    CHECK_THAT(text, contains_text("\n" + std::string(entry.id) + " "));
  }
  CHECK(std::ranges::count(text, '\n') > static_cast<int>(all_errors().size()));
}

TEST_CASE("an id that is not there is answered with the nearest ones", "[cli]") {
  CHECK(
      failure("recipe.unknwon_key") ==
      "--explain: there is no error \"recipe.unknwon_key\"; did you mean \"recipe.unknown_key\"?");
  CHECK_THAT(failure("com.example.own"), contains_text("--explain all lists the ids"));
  CHECK_THAT(failure("data"), contains_text("did you mean \"data."));
  CHECK_THAT(failure("# Errors"), contains_text("there is no error"));
}

TEST_CASE("an id without its area is answered with the whole id", "[cli]") {
  CHECK_THAT(failure("unknown_key"), contains_text("did you mean \"recipe.unknown_key\"?"));
}

}  // namespace tenon
