// SPDX-License-Identifier: Apache-2.0
#include "host/trust/vet_answer.hpp"

#include "tests/support/catch.hpp"

using namespace tenon;

TEST_CASE("an answer of a vetting child is read as it was sent", "[plugin]") {
  const Verdict bad{.id = "plugin.bad_schema", .message = "a.so: \"lr\" is wrong", .details = {}};
  for (const Verdict& sent : {Verdict(), bad}) {
    const std::optional<Verdict> read = verdict_of_answer(vet_answer_text(sent));
    REQUIRE(read);
    CHECK(read->id == sent.id);
    CHECK(read->message == sent.message);
  }
}

TEST_CASE("what a plugin sends in place of an answer is no verdict", "[plugin]") {
  for (const char* const text : {"",
                                 "{",
                                 "[]",
                                 "null",
                                 "{}",
                                 R"({"id": ""})",
                                 R"({"id": 1, "message": ""})",
                                 R"({"id": "plugin.crashed", "message": []})",
                                 R"({"id": null, "message": "x"})"}) {
    INFO(text);
    CHECK_FALSE(verdict_of_answer(text));
  }
}
