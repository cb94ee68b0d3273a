// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/commit_record.hpp"

#include <cstdint>
#include <string>
#include <utility>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a record of a commit has a number, a name and a checksum", "[checkpoint]") {
  // By `printf '17 step-00000085_epoch-0 ' | xxhsum -H3`.
  const std::string text = "17 step-00000085_epoch-0 d5a036b5e3c0a979\n";
  CHECK(commit_record_text(17, "step-00000085_epoch-0") == text);
  for (const uint64_t sequence : {uint64_t{1}, uint64_t{17}, kMaxSequence}) {
    for (const std::string name : {"a", "17", "step-00000085_epoch-0"}) {
      const auto record = commit_record_of(commit_record_text(sequence, name));
      REQUIRE(record.has_value());
      CHECK(record->sequence == sequence);
      CHECK(record->name == name);
      CHECK(record->has_checksum());
    }
  }
}

TEST_CASE("a record of an earlier release is a number without a checksum", "[checkpoint]") {
  for (const uint64_t sequence : {uint64_t{1}, uint64_t{20}, kMaxUncheckedSequence}) {
    const auto record = commit_record_of(std::to_string(sequence) + "\n");
    REQUIRE(record.has_value());
    CHECK(record->sequence == sequence);
    CHECK(record->name.empty());
    CHECK_FALSE(record->has_checksum());
  }
}

TEST_CASE("a flipped bit anywhere in a record of a commit is found", "[checkpoint]") {
  // The name and the checksum of the first have digits only, as the number has.
  for (const auto& [sequence, name] : {std::pair{uint64_t{1}, std::string("7")},
                                       {17, "step-00000085_epoch-0"},
                                       {kMaxSequence - 1, std::string(200, 'n')}}) {
    const std::string text = commit_record_text(sequence, name);
    REQUIRE(commit_record_of(text).has_value());
    for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      INFO("bit " << bit << ": " << flipped);
      CHECK_FALSE(commit_record_of(flipped).has_value());
    }
    for (size_t size = 0; size < text.size(); ++size) {
      INFO("cut to " << size);
      CHECK_FALSE(commit_record_of(text.substr(0, size)).has_value());
    }
  }
}

TEST_CASE("whatever else is no record of a commit", "[checkpoint]") {
  const std::string valid = commit_record_text(17, "a");
  for (const std::string& text : {std::string(),
                                  std::string("17"),  // cut
                                  std::string("17 \n"),
                                  std::string("17\n\n"),
                                  std::string(" 17\n"),
                                  std::string("017\n"),
                                  std::string("00\n"),
                                  std::string("0\n"),
                                  std::string("-1\n"),
                                  std::string("seven\n"),
                                  std::string(20, '\0'),
                                  std::to_string(kMaxUncheckedSequence + 1) + "\n",
                                  std::string("18446744073709551615\n"),
                                  std::string("18446744073709551616\n"),
                                  valid + "\n",
                                  valid + valid,
                                  valid.substr(0, valid.size() - 1) + " \n",
                                  "0" + valid,
                                  commit_record_text(0, "a"),
                                  commit_record_text(kMaxSequence + 1, "a"),
                                  commit_record_text(UINT64_MAX, "a"),
                                  commit_record_text(17, ""),
                                  commit_record_text(17, "latest"),
                                  commit_record_text(17, "../a"),
                                  commit_record_text(17, "a b")}) {
    INFO('"' << text << '"');
    CHECK_FALSE(commit_record_of(text).has_value());
  }
}

}  // namespace tenon
