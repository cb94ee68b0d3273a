// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_index.hpp"

#include <tenon/state.h>

#include "host/error/error.hpp"

#include <nlohmann/json.hpp>

#include <string>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using nlohmann::json;

// An index of one tensor, 't', of 6 elements in a file of 100 bytes.
json index_of_one_tensor() {
  CheckpointIndex index;
  index.files = {{.name = "f", .bytes = 100, .header_xxh3 = 0}};
  index.shared.tensors["t"] = {.dtype = "F32",
                               .shape = {2, 3},
                               .scope = TENON_STATE_REPLICATED,
                               .pieces = {{.file = "f", .begin = 64, .end = 88, .numel = 6}}};
  index.shared.numbers["n"] = {.value = int64_t{5}, .scope = TENON_STATE_REPLICATED};
  index.versions["v"] = 1;
  index.by_rank.resize(1);
  return json::parse(index_text(index));
}

std::string refusal_of_index(const std::string& text) {
  try {
    index_of(text, "ckpt");
  } catch (const Error& error) {
    CHECK(error.id() == "checkpoint.damaged");
    return error.message();
  }
  return "no error";
}

// The refusal of the index with one value replaced.
std::string refusal_with(const char* pointer, const json& value) {
  json index = index_of_one_tensor();
  index.at(json::json_pointer(pointer)) = value;
  return refusal_of_index(index.dump());
}

// Written by release 0.4.
constexpr char kOfEarlierRelease[] = R"({
 "format": "tenon.checkpoint",
 "version": 1,
 "facts": {
  "at": "step",
  "checkpoint": "step-00000002",
  "compute_threads": 1,
  "device": "cpu",
  "epochs": 0,
  "evaluated_step": null,
  "figures": {
   "train/loss": "0x1p-1"
  },
  "kind": "full",
  "machine": "x86-64",
  "plugins": [],
  "precision": "fp32",
  "run": "a",
  "samples": 8,
  "step": 2,
  "tenon": "0.4.0",
  "time": "2026-01-31T12:00:00Z",
  "tokens": 0,
  "torch": "2.9.1",
  "updates": 2,
  "windows": 0
 },
 "files": [
  {
   "bytes": 100,
   "header_xxh3": "0000000000000000",
   "name": "rank-0-of-2.safetensors"
  },
  {
   "bytes": 100,
   "header_xxh3": "0000000000000000",
   "name": "rank-1-of-2.safetensors"
  }
 ],
 "versions": {
  "": 1
 },
 "shared": {
  "numbers": {
   "run/step": {
    "int": 2,
    "scope": "replicated"
   }
  },
  "tensors": {
   "w": {
    "dtype": "F32",
    "pieces": [
     {
      "begin": 64,
      "end": 80,
      "file": "rank-0-of-2.safetensors",
      "first": 0,
      "numel": 4,
      "xxh3": "0123456789abcdef"
     },
     {
      "begin": 64,
      "end": 72,
      "file": "rank-1-of-2.safetensors",
      "first": 4,
      "numel": 2,
      "xxh3": "0123456789abcdef"
     }
    ],
    "scope": "replicated",
    "shape": [
     2,
     3
    ]
   }
  }
 },
 "by_rank": [
  {
   "numbers": {},
   "tensors": {}
  },
  {
   "numbers": {},
   "tensors": {}
  }
 ]
}
)";

constexpr char kShape[] = "/shared/tensors/t/shape";
constexpr char kPiece[] = "/shared/tensors/t/pieces/0";

}  // namespace

TEST_CASE("an index that was written is read", "[checkpoint]") {
  CHECK(refusal_of_index(index_of_one_tensor().dump()) == "no error");
}

TEST_CASE("an index has the version of gradient norms, and 0 if an earlier release wrote it",
          "[checkpoint]") {
  CheckpointIndex index = index_of(index_of_one_tensor().dump(), "ckpt");
  CHECK(index.metadata.norm_version == 0);
  CHECK_FALSE(json::parse(index_text(index))["facts"].contains("norm_version"));
  index.metadata.norm_version = kNormVersion;
  CHECK(index_of(index_text(index), "ckpt").metadata.norm_version == kNormVersion);
}

TEST_CASE("an index has the number of the journal that its checkpoint covers", "[checkpoint]") {
  CheckpointIndex index = index_of(index_of_one_tensor().dump(), "ckpt");
  CHECK_FALSE(index.metadata.journal.has_value());
  CHECK_FALSE(json::parse(index_text(index))["facts"].contains("journal"));
  index.metadata.journal = JournalNumber{2, uint64_t{1} << 63};
  CHECK(index_of(index_text(index), "ckpt").metadata.journal == index.metadata.journal);
  for (const json& damaged : {json(3), json{{"attempt", -1}, {"n", 1}}, json{{"attempt", 1}}}) {
    json foreign = json::parse(index_text(index));
    foreign["facts"]["journal"] = damaged;
    CHECK(refusal_of_index(foreign.dump()) != "no error");
  }
}

TEST_CASE("sizes of an index that wrap are refused", "[checkpoint]") {
  const json piece = index_of_one_tensor().at(json::json_pointer(kPiece));
  const auto with_piece = [&](const json& shape, const json& changes) {
    json index = index_of_one_tensor();
    index.at(json::json_pointer(kShape)) = shape;
    index.at(json::json_pointer(kPiece)).update(changes);
    return refusal_of_index(index.dump());
  };
  // 2^64 elements, that is 0, in no byte.
  const json nothing = {{"numel", 0}, {"begin", 0}, {"end", 0}};
  const int64_t half = int64_t{1} << 32;
  CHECK_THAT(with_piece({half, half}, nothing),
             contains_text("'t' has a shape of more bytes than"));
  CHECK_THAT(with_piece({int64_t{1} << 62}, nothing), contains_text("of more bytes than 63 bits"));
  // 2^62 elements of four bytes, that is 0 bytes.
  CHECK_THAT(with_piece({int64_t{1} << 60}, {{"numel", int64_t{1} << 62}, {"end", 64}}),
             contains_text("'t' has a piece at an invalid position"));
  CHECK_THAT(with_piece({2, 3}, {{"numel", 7}, {"end", 92}}),
             contains_text("'t' has a piece at an invalid position"));
  CHECK_THAT(with_piece({2, -3}, nothing), contains_text("'t' has a negative size"));
  CHECK_THAT(with_piece({2, 3}, {{"begin", 80}, {"end", 104}}),
             contains_text("in a file that the checkpoint does not have"));
}

TEST_CASE("numbers of an index that are no whole numbers are refused", "[checkpoint]") {
  CHECK_THAT(refusal_with("/facts/step", -1), contains_text("'-1' is not a whole number of 0"));
  CHECK_THAT(refusal_with("/facts/step", 1.5), contains_text("'1.5' is not a whole number"));
  CHECK_THAT(refusal_with("/facts/tokens", 1e300), contains_text("is not a whole number of 64"));
  CHECK_THAT(refusal_with("/facts/evaluated_step", -7),
             contains_text("'-7' is not a whole number"));
  CHECK_THAT(refusal_with("/files/0/bytes", -1), contains_text("is not a whole number"));
  CHECK_THAT(refusal_with("/versions/v", uint64_t{1} << 32), contains_text("is not a version"));
  CHECK_THAT(refusal_with("/shared/numbers/n/int", 0.5), contains_text("is not a whole number"));
  CHECK_THAT(refusal_with(kShape, {2, 3.5}), contains_text("is not a whole number"));
  CHECK_THAT(refusal_with("/shared/tensors/t/pieces/0/end", -1), contains_text("a whole number"));
}

TEST_CASE("checksums and numbers of an index have no sign, no blanks and no other text",
          "[checkpoint]") {
  const std::string sum = std::string(kPiece) + "/xxh3";
  for (const char* const text : {"-000000000000001", " 000000000000001", "0x00000000000001", ""}) {
    CHECK(refusal_with(sum.c_str(), text) != "no error");
  }
  json index = index_of_one_tensor();
  for (const char* const text : {"0x1.8p+1", "-inf", "nan:7ff8000000000000", "-0x0p+0"}) {
    index["shared"]["numbers"]["n"] = {{"scope", "replicated"}, {"double", text}};
    CHECK(refusal_of_index(index.dump()) == "no error");
  }
  for (const char* const text : {"", " 1", "+1", "1 ", "nan:", "nan:7ff8x", "nan:-1"}) {
    index["shared"]["numbers"]["n"] = {{"scope", "replicated"}, {"double", text}};
    CHECK(refusal_of_index(index.dump()) != "no error");
  }
}

TEST_CASE("an index that nests without bound or repeats a name is refused", "[checkpoint]") {
  CHECK_THAT(refusal_of_index(R"({"format": )" + std::string(10'000'000, '[')),
             contains_text("it is nested more than 128 levels deep"));
  std::string text = index_of_one_tensor().dump();
  text.replace(text.find("\"n\":"), 4, R"("n":{"int":6,"scope":"replicated"},"n":)");
  CHECK_THAT(refusal_of_index(text), contains_text("it has the key 'n' twice in one object"));
}

TEST_CASE("an index of an earlier release is read, and written as it was", "[checkpoint]") {
  const CheckpointIndex index = index_of(kOfEarlierRelease, "ckpt");
  const auto& pieces = index.shared.tensors.at("w").pieces;
  REQUIRE(pieces.size() == 2);
  CHECK_FALSE(pieces[0].box.has_value());
  CHECK(pieces[1].first == 4);
  CHECK(index_text(index) == kOfEarlierRelease);
}

TEST_CASE("an index with boxes is read, has a version of its own, and is verified",
          "[checkpoint]") {
  json index = index_of_one_tensor();
  CHECK(index.at("version") == 1);
  json& pieces = index.at(json::json_pointer("/shared/tensors/t/pieces"));
  json left = pieces[0];
  left.update({{"start", {0, 0}}, {"size", {2, 2}}, {"numel", 4}, {"end", 80}});
  json right = pieces[0];
  right.update({{"start", {0, 2}}, {"size", {2, 1}}, {"numel", 2}, {"begin", 80}});
  pieces = {left, right};
  CHECK(refusal_of_index(index.dump()) == "no error");
  const json written = json::parse(index_text(index_of(index.dump(), "ckpt")));
  CHECK(written.at("version") == 2);
  CHECK(written.at("shared") == index.at("shared"));

  const auto refusal = [&](const json& changes) {
    json changed = index;
    changed.at(json::json_pointer(kPiece)).update(changes);
    return refusal_of_index(changed.dump());
  };
  CHECK_THAT(refusal({{"start", {0, 1}}}), contains_text("'t' lacks the elements from 0 on"));
  CHECK_THAT(refusal({{"size", {2, 3}}, {"numel", 6}, {"end", 88}}),
             contains_text("'t' has duplicate elements from 2 on"));
  CHECK_THAT(refusal({{"size", {2, 1}}}), contains_text("'t' has a piece at an invalid position"));
  CHECK_THAT(refusal({{"start", {-1, 0}}}), contains_text("'t' has a piece with an invalid box"));
  CHECK_THAT(refusal({{"start", {0}}}), contains_text("'t' has a piece with an invalid box"));
  CHECK_THAT(refusal({{"size", {int64_t{1} << 62, 4}}}), contains_text("with an invalid box"));
  CHECK_THAT(refusal({{"size", {2.5, 2}}}), contains_text("is not a whole number"));
  CHECK_THAT(refusal({{"size", "2"}}), contains_text("is not a whole number"));
  json without_size = index;
  without_size.at(json::json_pointer(kPiece)).erase("size");
  CHECK_THAT(refusal_of_index(without_size.dump()), contains_text("key 'size' not found"));
}

}  // namespace tenon
