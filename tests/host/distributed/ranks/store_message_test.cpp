// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/store_message.hpp"

#include "host/distributed/ranks/key_table.hpp"

#include <stdexcept>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

StoreMessage store_request(StoreRequest kind, std::vector<std::string> texts, int64_t number = 0) {
  return {static_cast<uint8_t>(kind), number, std::move(texts)};
}

bool is_refused(const StoreMessage& answer) {
  return answer.kind == static_cast<uint8_t>(StoreAnswer::kRefused);
}

}  // namespace

TEST_CASE("a message to the store arrives whole, in any pieces", "[distributed]") {
  const std::string zero("with\0zero", 9);
  const std::string bytes = to_bytes(store_request(StoreRequest::kSet, {"key", zero, ""}, -5)) +
                            to_bytes(store_request(StoreRequest::kCount, {}));
  for (const size_t piece : {size_t{1}, size_t{7}, bytes.size()}) {
    StoreMessageReader reader;
    std::vector<StoreMessage> found;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (auto message = reader.next()) {
        found.push_back(std::move(*message));
      }
    }
    REQUIRE(found.size() == 2);
    CHECK(found[0].kind == static_cast<uint8_t>(StoreRequest::kSet));
    CHECK(found[0].number == -5);
    CHECK(found[0].texts == std::vector<std::string>{"key", zero, ""});
    CHECK(found[1].texts.empty());
    CHECK(reader.is_empty());
  }
}

TEST_CASE("a message to the store that is too long or malformed is refused", "[distributed]") {
  StoreMessageReader longest;
  CHECK_THROWS_AS(longest.add(std::string("\xff\xff\xff\xff", 4)), std::length_error);
  CHECK_THROWS_AS(
      to_bytes(store_request(StoreRequest::kSet, {"key", std::string(kMaxMessage, 'x')})),
      std::length_error);
  const std::string good = to_bytes(store_request(StoreRequest::kSet, {"key", "value"}));
  for (size_t at = 4; at < good.size(); ++at) {  // each byte of the body set to 255
    std::string bad = good;
    bad[at] = '\xff';
    StoreMessageReader reader;
    reader.add(bad);
    bool is_read = false;
    try {
      is_read = reader.next().has_value();
    } catch (const std::invalid_argument&) {  // NOLINT(bugprone-empty-catch): checked below
    }
    CHECK((is_read || at >= 13));  // a size is malformed; kinds, numbers and texts are not
  }
}

TEST_CASE("the keys of a store behave as those of c10d", "[distributed]") {
  KeyTable table;
  CHECK(table.answer(store_request(StoreRequest::kAdd, {"n"}, 3)).number == 3);
  CHECK(table.answer(store_request(StoreRequest::kAdd, {"n"}, -1)).number == 2);
  CHECK(table.at("n") == "2");
  CHECK(table.answer(store_request(StoreRequest::kCompareSet, {"a", "", "1"})).texts.at(0) == "1");
  CHECK(table.answer(store_request(StoreRequest::kCompareSet, {"a", "", "2"})).texts.at(0) == "1");
  CHECK(table.answer(store_request(StoreRequest::kCompareSet, {"a", "1", "2"})).texts.at(0) == "2");
  CHECK(table.answer(store_request(StoreRequest::kCompareSet, {"b", "1", "2"})).texts.at(0) == "1");
  CHECK_FALSE(table.has("b"));
  CHECK(table.answer(store_request(StoreRequest::kCheck, {"a", "n"})).number == 1);
  CHECK(table.answer(store_request(StoreRequest::kCheck, {"a", "b"})).number == 0);
  CHECK(table.answer(store_request(StoreRequest::kCount, {})).number == 2);
  CHECK(table.answer(store_request(StoreRequest::kDelete, {"a"})).number == 1);
  CHECK(table.answer(store_request(StoreRequest::kDelete, {"a"})).number == 0);
  CHECK(is_refused(table.answer(store_request(StoreRequest::kSet, {"only a key"}))));
  CHECK(is_refused(table.answer(store_request(static_cast<StoreRequest>(200), {}))));
  table.answer(store_request(StoreRequest::kSet, {"text", "x"}));
  CHECK(is_refused(table.answer(store_request(StoreRequest::kAdd, {"text"}, 1))));
}

TEST_CASE("the number and the size of keys are bounded", "[distributed]") {
  KeyTable table({.keys = 2, .bytes = 10});
  CHECK_FALSE(is_refused(table.answer(store_request(StoreRequest::kSet, {"a", "1234"}))));
  CHECK(is_refused(table.answer(store_request(StoreRequest::kSet, {"b", "12345"}))));
  CHECK_FALSE(is_refused(table.answer(store_request(StoreRequest::kSet, {"b", "1234"}))));
  CHECK(is_refused(table.answer(store_request(StoreRequest::kSet, {"c", ""}))));
  CHECK_FALSE(is_refused(table.answer(store_request(StoreRequest::kSet, {"a", "4321"}))));
  CHECK_FALSE(is_refused(table.answer(store_request(StoreRequest::kDelete, {"a"}))));
  CHECK_FALSE(is_refused(table.answer(store_request(StoreRequest::kAdd, {"c"}, 1))));
}

}  // namespace tenon
