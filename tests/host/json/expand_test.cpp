// SPDX-License-Identifier: Apache-2.0
#include "host/json/expand.hpp"

#include "host/json/json_source.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

std::optional<std::string> test_environment(const std::string& name) {
  if (name == "DATA") {
    return "/data";
  }
  if (name == "EMPTY") {
    return "";
  }
  if (name == "TRICK") {
    return "${ENV:DATA}";
  }
  if (name == "BYTES") {
    return "\xff";
  }
  return std::nullopt;
}

struct Outcome {
  json value;
  PlaceMap places;
  ProblemList problems;
};

Outcome expand(const json& value) {
  Outcome outcome;
  outcome.value = parse_json(value.dump(), "a.json", outcome.places);
  expand_environment(outcome.value, test_environment, outcome.places, outcome.problems);
  return outcome;
}

std::string expanded(const std::string& text) {
  const Outcome outcome = expand({text});
  CHECK(outcome.problems.empty());
  return outcome.value[0];
}

std::string refusal(const std::string& text) {
  const Outcome outcome = expand({text});
  REQUIRE(outcome.problems.size() == 1);
  CHECK(outcome.problems.kept()[0].place.text().starts_with("a.json:1"));
  CHECK(outcome.problems.kept()[0].pointer == "/0");
  return outcome.problems.kept()[0].id + ": " + outcome.problems.kept()[0].what;
}

}  // namespace

TEST_CASE("a variable is replaced wherever it stands in a string", "[recipe]") {
  CHECK(expanded("${ENV:DATA}") == "/data");
  CHECK(expanded("${ENV:DATA}/x/${ENV:DATA}") == "/data/x//data");
  CHECK(expanded("a${ENV:EMPTY}b") == "ab");
  CHECK(expanded("no variable, $5 and {x}") == "no variable, $5 and {x}");
}

TEST_CASE("a doubled dollar sign keeps the brace", "[recipe]") {
  CHECK(expanded("$${ENV:DATA}") == "${ENV:DATA}");
  CHECK(expanded("$$${ENV:DATA}") == "$${ENV:DATA}");
  CHECK(expanded("$$") == "$$");
}

TEST_CASE("what a variable holds is not expanded again", "[recipe]") {
  CHECK(expanded("${ENV:TRICK}") == "${ENV:DATA}");
}

TEST_CASE("values in lists and objects are expanded, keys are not", "[recipe]") {
  const Outcome outcome = expand({{"${ENV:DATA}", json::array({1, {{"k", "${ENV:DATA}"}}})}});
  CHECK(outcome.problems.empty());
  CHECK(outcome.value["${ENV:DATA}"][1]["k"] == "/data");
  CHECK(outcome.value["${ENV:DATA}"][0] == 1);
}

TEST_CASE("the place of an expanded value names the variable", "[recipe]") {
  const Outcome outcome = expand({{"a", "${ENV:DATA}"}, {"b", "$${x}"}});
  CHECK(outcome.places.at("/a").text() == "a.json:1 via ${ENV:DATA}");
  CHECK(outcome.places.at("/b").text() == "a.json:1");
}

TEST_CASE("a variable that is not set is an error", "[recipe]") {
  CHECK(refusal("x${ENV:NOPE}") == "recipe.env_unset: the environment variable NOPE is not set");
  CHECK(refusal("${ENV:BYTES}") ==
        "recipe.not_utf8: the environment variable BYTES is not valid UTF-8");
  CHECK(expand({"${ENV:NOPE} ${ENV:NADA}"}).problems.size() == 2);
}

TEST_CASE("a brace that is no variable is an error", "[recipe]") {
  for (const char* const text :
       {"${HOME}", "${ENV:DATA", "${ENV:}", "${ENV:1A}", "${ENV:A B}", "${", "${env:DATA}"}) {
    INFO(text);
    CHECK(refusal(text) == "recipe.bad_env: a \"${\" that is no ${ENV:NAME}");
  }
}

TEST_CASE("an escaped text expands to itself", "[recipe]") {
  for (const char* const text : {"", "plain", "${ENV:DATA}", "$${x", "$$${", "a$", "${${"}) {
    INFO(text);
    CHECK(expanded(escape_environment(text)) == text);
  }
}

TEST_CASE("the process environment is read", "[recipe]") {
  CHECK(process_environment()("PATH").has_value());
  CHECK_FALSE(process_environment()("TENON_NO_SUCH_VARIABLE").has_value());
}

TEST_CASE("an expansion keeps the strings as written, and a fingerprint of each value",
          "[recipe]") {
  json value = {{"a", "x${ENV:DATA}${ENV:DATA}"}, {"b", "$${ENV:DATA}"}, {"c", {"${ENV:EMPTY}"}}};
  PlaceMap places;
  ProblemList problems;
  const ExpandedStrings strings = expand_environment(value, test_environment, places, problems);
  CHECK(strings.by_pointer.size() == 2);
  CHECK(strings.by_pointer.at("/a").written == "x${ENV:DATA}${ENV:DATA}");
  CHECK(strings.by_pointer.at("/a").expanded == "x/data/data");
  CHECK(strings.by_pointer.at("/c/0").written == "${ENV:EMPTY}");
  CHECK(strings.fingerprints.size() == 2);
  CHECK(strings.fingerprints.at("DATA") == value_fingerprint("/data"));
}

TEST_CASE("a fingerprint has so few bits that many values share it", "[recipe]") {
  CHECK(value_fingerprint("a") != value_fingerprint("b"));
  std::map<std::string, int> num_values;
  for (int i = 0; i < 200'000; ++i) {
    ++num_values[value_fingerprint(std::to_string(i))];
  }
  CHECK(num_values.begin()->first.size() == 4);
  CHECK(num_values.size() > 60'000);   // all of 65,536 are in use,
  CHECK(num_values.size() <= 65'536);  // about three times each
}

}  // namespace tenon
