// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/source_record.hpp"

#include "host/error/error.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

SourceRecord three_files() {
  SourceRecord record{.place = "/data/train",
                      .files = {{.name = "/d/a.csv", .bytes = 10, .hash = "whole:1"},
                                {.name = "/d/x/b.csv", .bytes = 20, .hash = "whole:2"},
                                {.name = "/d/c.csv", .bytes = 10, .hash = "whole:3"}}};
  shorten(record);
  return record;
}

}  // namespace

TEST_CASE("a record keeps names below the common folder", "[checkpoint]") {
  const SourceRecord record = three_files();
  CHECK(record.files[0].name == "a.csv");
  CHECK(record.files[1].name == "x/b.csv");
  SourceRecord one{.place = "/data/train", .files = {{.name = "/data/b/\xe9.csv"}}};
  shorten(one);
  CHECK(one.files[0].name == "\xef\xbf\xbd.csv");
  SourceRecord long_name{.place = "", .files = {{.name = std::string(4000, 'n')}}};
  shorten(long_name);
  CHECK(long_name.files[0].name.size() < 200);
}

TEST_CASE("a record is read as it was written", "[checkpoint]") {
  const SourceRecord record = three_files();
  const SourceRecord read = record_of(record_text(record));
  CHECK(read.place == record.place);
  CHECK(record_difference(record, read).empty());
  for (const char* const text : {"",
                                 "[]",
                                 R"({"place": 1, "files": []})",
                                 R"({"place": ""})",
                                 R"({"place": "", "files": [["a", "b", "c"]]})",
                                 R"({"place": "", "files": [["a", 1e30, "c"]]})",
                                 R"({"place": "", "files": [[]]})"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(record_of(std::string(text)), contains_text("[checkpoint.damaged]"));
  }
}

TEST_CASE("a difference of files is named with what was expected", "[checkpoint]") {
  const SourceRecord then = three_files();
  SourceRecord now = three_files();
  CHECK(record_difference(then, now).empty());
  now.files[0].name = "z.csv";  // moved, with the same content
  CHECK(record_difference(then, now).empty());
  now.files[0].name_counts = true;
  CHECK(record_difference(then, now) == "z.csv has another name (expected a.csv)");

  now = three_files();
  now.files[1].bytes = 21;
  CHECK(record_difference(then, now) == "x/b.csv has 21 bytes (expected 20)");
  now = three_files();
  now.files[2].hash = "whole:4";
  CHECK_THAT(record_difference(then, now), contains_text("c.csv has other content (same size"));
  now.files[2].hash = "blocks-64:4";  // does not compare
  CHECK(record_difference(then, now).empty());
  now.files[2].hash = "";
  CHECK(record_difference(then, now).empty());

  now = three_files();
  std::swap(now.files[0], now.files[2]);
  CHECK(record_difference(then, now) ==
        "the files are in another order (file 1 is c.csv, expected a.csv)");
  now = three_files();
  now.files.push_back({.name = "d.csv"});
  CHECK(record_difference(then, now) == "the data has 4 files (expected 3; new: d.csv)");
  CHECK(record_difference(now, then) == "the data has 3 files (expected 4; missing: d.csv)");
}

TEST_CASE("a record of many files stays small, and still finds a change", "[checkpoint]") {
  const auto many = [](int changed) {
    SourceRecord record{.place = "/data/train", .files = {}};
    for (int i = 0; i < 10000; ++i) {
      record.files.push_back({.name = "/d/part-" + std::to_string(i),
                              .bytes = 7,
                              .hash = "whole:" + std::to_string(i == changed ? -1 : i)});
    }
    shorten(record);
    return record;
  };
  const SourceRecord then = many(-1);
  CHECK(then.files.size() == 2048);
  CHECK(record_text(then).size() < (size_t{1} << 20));
  CHECK(record_difference(then, many(-1)).empty());
  CHECK_THAT(record_difference(then, many(4321)), contains_text("part-432"));
}

}  // namespace tenon
