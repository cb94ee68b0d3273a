// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/safetensors.hpp"

#include "host/error/error.hpp"

#include <cstring>
#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// A file of this header and `data_bytes` zeros.
SafetensorsContent read_file_of(const std::string& header, size_t data_bytes = 0) {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header + std::string(data_bytes, '\0');
  return read_safetensors_header(
      file.size(),
      [&file](uint64_t at, std::span<std::byte> out) {
        std::memcpy(out.data(), file.data() + at, out.size());
      },
      "f");
}

std::string refusal_of_header(const std::string& header, size_t data_bytes = 0) {
  try {
    read_file_of(header, data_bytes);
  } catch (const Error& error) {
    CHECK(error.id() == "checkpoint.damaged");
    CHECK(error.message().size() < 300);
    return error.message();
  }
  return "no error";
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(": {"dtype": "F32", "shape": )" + shape + R"(, "data_offsets": )" +
         offsets + "}";
}

}  // namespace

TEST_CASE("a header that nests without bound is refused, and none of it is built", "[checkpoint]") {
  const std::string deep(20'000'000, '[');
  CHECK_THAT(refusal_of_header(deep), contains_text("its header cannot be read: it is not an obj"));
  CHECK_THAT(refusal_of_header("{\"a\": " + deep), contains_text("the value of 'a' has another"));
  CHECK_THAT(refusal_of_header(R"({"a": {"shape": )" + deep),
             contains_text("the value of 'shape' has another type"));
  CHECK_THAT(refusal_of_header(R"({"a": {"unknown": )" + deep),
             contains_text("it is nested more than 128 levels deep"));
  CHECK_THAT(refusal_of_header(R"({"__metadata__": {"a": )" + deep),
             contains_text("the value of 'a' has another type"));
}

TEST_CASE("keys that the format does not specify are skipped", "[checkpoint]") {
  const SafetensorsContent content = read_file_of(
      R"({"a": {"dtype": "F32", "more": {"shape": [[7], {"b": null}]}, "shape": [1], "x": -1.5,)"
      R"( "data_offsets": [0, 4], "y": [true]}})",
      4);
  REQUIRE(content.tensors.size() == 1);
  CHECK(content.tensors[0].name == "a");
  CHECK(content.tensors[0].shape == std::vector<int64_t>{1});
  CHECK(read_file_of("{}").tensors.empty());
}

TEST_CASE("sizes of a header that wrap are refused", "[checkpoint]") {
  const auto refused = [](const std::string& shape, const std::string& offsets) {
    return refusal_of_header("{" + tensor("a", shape, offsets) + "}", 4);
  };
  const std::string mismatch = "'a' has a shape that does not match its byte range";
  // 2^64 elements, that is 0.
  CHECK_THAT(refused("[4294967296, 4294967296]", "[0, 0]"), contains_text(mismatch));
  CHECK_THAT(refused("[4611686018427387904]", "[0, 0]"), contains_text(mismatch));  // 2^64 bytes
  CHECK_THAT(refused("[4611686018427387905]", "[0, 4]"), contains_text(mismatch));
  CHECK_THAT(refused("[9223372036854775808]", "[0, 0]"),
             contains_text("'a' has a shape that no tensor can have"));
  CHECK_THAT(refused("[-1]", "[0, 4]"), contains_text("the value of 'shape' has another type"));
  const std::string outside = "'a' has offsets outside the file";
  CHECK_THAT(refused("[1]", "[18446744073709551612, 18446744073709551615]"),
             contains_text(outside));
  CHECK_THAT(refused("[1]", "[4, 0]"), contains_text(outside));
  CHECK_THAT(refused("[2]", "[0, 8]"), contains_text(outside));
  CHECK_THAT(refused("[1]", "[0, 4.0]"), contains_text("has another type"));
  CHECK_THAT(refused("[1]", "[0, 4, 4]"), contains_text("'a' has more than two offsets"));
  CHECK_THAT(refused("[1]", "[0]"), contains_text("lacks its dtype, its shape or one of its two"));
  CHECK(refused("[1]", "[0, 4]") == "no error");
}

TEST_CASE("a shape of more dimensions than libtorch supports is refused", "[checkpoint]") {
  const auto ones = [](size_t size) {
    std::string text = "[1";
    for (size_t i = 1; i < size; ++i) {
      text += ",1";
    }
    return "{" + tensor("a", text + "]", "[0, 4]") + "}";
  };
  CHECK(refusal_of_header(ones(64), 4) == "no error");
  CHECK_THAT(refusal_of_header(ones(65), 4), contains_text("has a shape that no tensor can have"));
  CHECK_THAT(refusal_of_header(ones(5'000'000), 4), contains_text("that no tensor can have"));
}

TEST_CASE("a name that occurs twice in a header is refused", "[checkpoint]") {
  const std::string a = tensor("a", "[1]", "[0, 4]");
  CHECK_THAT(refusal_of_header("{" + a + ", " + tensor("a", "[1]", "[4, 8]") + "}", 8),
             contains_text("it has the name 'a' twice"));
  CHECK_THAT(refusal_of_header("{" + a + ", " + tensor("\\u0061", "[1]", "[4, 8]") + "}", 8),
             contains_text("it has the name 'a' twice"));
  CHECK_THAT(refusal_of_header(R"({"__metadata__": {"k": "1", "k": "2"}})"),
             contains_text("it has the name 'k' twice"));
  CHECK_THAT(refusal_of_header(R"({"__metadata__": {}, "__metadata__": {}})"),
             contains_text("it has the name '__metadata__' twice"));
  CHECK_THAT(refusal_of_header(R"({"a": {"dtype": "F32", "shape": [1], "shape": [2])", 4),
             contains_text("it has the name 'shape' twice"));
}

TEST_CASE("a header of another form is refused with what is wrong", "[checkpoint]") {
  CHECK_THAT(refusal_of_header("null"), contains_text("it is not an object"));
  CHECK_THAT(refusal_of_header(R"({"__metadata__": {"a": 1}})"), contains_text("the value of 'a'"));
  CHECK_THAT(refusal_of_header(R"({"a": 1})"), contains_text("the value of 'a'"));
  CHECK_THAT(refusal_of_header(R"({"a": {"dtype": 1}})"), contains_text("the value of 'dtype'"));
  CHECK_THAT(refusal_of_header(R"({"a": {"dtype": "F32", "shape": []}})"),
             contains_text("'a' lacks its dtype"));
  CHECK_THAT(refusal_of_header(R"({"a": {}})"), contains_text("'a' lacks its dtype"));
  CHECK_THAT(
      refusal_of_header(R"({"a": {"dtype": "C64", "shape": [], "data_offsets": [0, 8]}})", 8),
      contains_text("'a' has the dtype 'C64', which is not supported"));
  CHECK_THAT(refusal_of_header("{"), contains_text("it is not valid JSON at byte 2"));
  CHECK_THAT(refusal_of_header("{} x"), contains_text("it is not valid JSON at byte 4"));
  // The message quotes only the start of a long name.
  const std::string name(1'000'000, 'n');
  CHECK_THAT(refusal_of_header("{" + tensor(name, "[2]", "[0, 4]") + "}", 4),
             contains_text("nnn...' (1000000 bytes) has a shape"));
}

}  // namespace tenon
