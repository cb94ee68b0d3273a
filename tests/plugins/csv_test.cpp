// SPDX-License-Identifier: Apache-2.0
#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

using nlohmann::json;

tenon::DatasetProxy open_csv(const json& options) {
  return tenon::DatasetProxy(tenon::make_component("dataset", "csv", options.dump()));
}

tenon::Batch read_csv(tenon::DatasetProxy& source,
                      const std::vector<int64_t>& indices,
                      const tenon::Window* window = nullptr) {
  tenon::BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
  source.read(window, indices, builder.writer());
  return builder.finish();
}

json options_for(const std::string& file, json fields) {
  return {{"files", {file}}, {"fields", std::move(fields)}};
}

std::string error_of_csv(const json& options) {
  return tenon::error_of([&] { open_csv(options); });
}

const json kField = json::array({{{"name", "a"}}});

}  // namespace

TEST_CASE("rows of csv are read in any order, with columns side by side", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file =
      folder.write("a.csv", "\xEF\xBB\xBFy,a,b,c\r\n1,.5,1,2\r\n\r\n2,\"1.5\",3,4\r\n3,2.5,5,6")
          .string();
  tenon::DatasetProxy csv =
      open_csv(options_for(file,
                           {{{"name", "x"}, {"columns", {"b..c", "a"}}},
                            {{"name", "label"}, {"column", "y"}, {"dtype", "i64"}},
                            {{"name", "a"}, {"dtype", "f64"}}}));
  REQUIRE(csv.size(nullptr) == 3);
  const tenon::Batch batch = read_csv(csv, {2, 0, 1});
  CHECK(batch.samples == 3);
  const at::Tensor& x = *batch.find("x");
  REQUIRE(x.sizes() == at::IntArrayRef({3, 3}));
  const std::vector<float> expected = {5, 6, 2.5f, 1, 2, .5f, 3, 4, 1.5f};
  CHECK(std::vector<float>(x.const_data_ptr<float>(), x.const_data_ptr<float>() + 9) == expected);
  const auto* const labels = batch.find("label")->const_data_ptr<int64_t>();
  CHECK(std::vector<int64_t>(labels, labels + 3) == std::vector<int64_t>{3, 1, 2});
  CHECK(batch.find("a")->const_data_ptr<double>()[2] == 1.5);
}

TEST_CASE("files of csv fit a pattern, follow each other, or are windows", "[plugins]") {
  const tenon::ScratchFolder folder;
  folder.write("2.csv", "b,a\n0,30\n");
  folder.write("1.csv", "a,b\n10,0\n20,0\n");
  json options = options_for((folder.path() / "[12].csv").string(), kField);
  SECTION("one after the other, each with its own order of columns") {
    tenon::DatasetProxy csv = open_csv(options);
    REQUIRE(csv.size(nullptr) == 3);
    const tenon::Batch batch = read_csv(csv, {2, 1, 0});
    const auto* const a = batch.find("a")->const_data_ptr<float>();
    CHECK(std::vector<float>(a, a + 3) == std::vector<float>{30, 20, 10});
    CHECK(csv.place_of(nullptr, 1) == (folder.path() / "1.csv").string() + ", line 3");
    CHECK(csv.place_of(nullptr, 2) == (folder.path() / "2.csv").string() + ", line 2");
    CHECK_THAT(tenon::error_of([&] { read_csv(csv, {3}); }),
               tenon::contains_text("row 3 is out of range [0, 3)"));
  }
  SECTION("as windows") {
    options["windows"] = "file";
    tenon::DatasetProxy csv = open_csv(options);
    csv.reset(0);
    const auto first = csv.next_window();
    REQUIRE(first);
    CHECK(first->label() == "1.csv");
    CHECK(csv.size(&*first) == 2);
    const auto second = csv.next_window();
    REQUIRE(second);
    CHECK(second->id() != first->id());
    CHECK(read_csv(csv, {0}, &*second).find("a")->const_data_ptr<float>()[0] == 30);
    CHECK_FALSE(csv.next_window());
    CHECK(csv.place_of(&*first, 1) == (folder.path() / "1.csv").string() + ", line 3");
    CHECK(csv.place_of(&*second, 0) == (folder.path() / "2.csv").string() + ", line 2");
  }
}

TEST_CASE("a missing value of csv is an error, filled in, or leaves its row out", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.csv", "a,b\n1,x\n-,x\n3,x\n").string();
  json options = options_for(file, {{{"name", "a"}, {"dtype", "i64"}}});
  options["missing_marks"] = {"-"};
  CHECK_THAT(error_of_csv(options), tenon::contains_text(file + ":3: column \"a\": missing value"));
  options["fields"][0]["missing"] = "fill";
  options["fields"][0]["fill"] = -100;
  tenon::DatasetProxy filled = open_csv(options);
  CHECK(read_csv(filled, {1}).find("a")->const_data_ptr<int64_t>()[0] == -100);
  options["fields"][0]["missing"] = "skip_row";
  tenon::DatasetProxy skipped = open_csv(options);
  REQUIRE(skipped.size(nullptr) == 2);
  CHECK(read_csv(skipped, {1}).find("a")->const_data_ptr<int64_t>()[0] == 3);
}

TEST_CASE("what is wrong in a csv file is named with file, line and column", "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto error = [&](const std::string& text, json field = {{"name", "a"}}) {
    const std::string file = folder.write("a.csv", text).string();
    return error_of_csv(options_for(file, json::array({std::move(field)})));
  };
  const json whole = {{"name", "a"}, {"dtype", "i64"}};
  CHECK_THAT(error("a,b\n1,2\n\nx,2\n"),
             tenon::contains_text("a.csv:4: column \"a\": \"x\" is not a number (f32)"));
  CHECK_THAT(error("a,b\n1.5,2\n", whole), tenon::contains_text("is not an integer (i64)"));
  CHECK_THAT(error("a\n1e39\n"),
             tenon::contains_text("a.csv:2: column \"a\": \"1e39\" is too large"));
  CHECK_THAT(error("a\nnan\n"), tenon::contains_text("`missing_marks`"));
  CHECK_THAT(error("a,b\n1,2\n1\n"),
             tenon::contains_text("a.csv:3: the row has 1 field, but the header has 2"));
  CHECK_THAT(error("a,b\n1,\"2\n3,4\n"),
             tenon::contains_text("a.csv:2: column 1 (\"b\"): unclosed quote"));
  CHECK_THAT(error("a,\"b\nc\"\n1,\"2\n"),
             tenon::contains_text("a.csv:3: column 1 (\"b\\nc\"): unclosed quote"));
  CHECK_THAT(error("b\n1\n"), tenon::contains_text("no column \"a\""));
  CHECK_THAT(error("a,a\n1,2\n"), tenon::contains_text("two columns are named \"a\""));
  CHECK_THAT(error(""), tenon::contains_text("a.csv is empty"));
  CHECK_THAT(error("a\n"), tenon::contains_text("has no rows to read"));
  CHECK_THAT(error("a\n11\n", {{"name", "a"}, {"max", 9}}),
             tenon::contains_text("\"11\" is out of range; the field \"a\" allows at most 9"));
  CHECK_THAT(error_of_csv(options_for((folder.path() / "no.csv").string(), kField)),
             tenon::contains_text("No such file"));
  CHECK_THAT(error_of_csv(options_for((folder.path() / "no*.csv").string(), kField)),
             tenon::contains_text("no file matches the pattern"));
}

TEST_CASE("options of csv that contradict each other are refused", "[plugins]") {
  json options = options_for("a.csv", kField);
  options["separator"] = "a\"";
  CHECK_THAT(error_of_csv(options), tenon::contains_text("expected a text without quotes"));
  CHECK_THAT(error_of_csv(options_for("a.csv", {{{"name", "a"}}, {{"name", "a"}}})),
             tenon::contains_text("two fields are named \"a\""));
  CHECK_THAT(
      error_of_csv(options_for("a.csv", {{{"name", "a"}, {"column", "b"}, {"columns", {"c"}}}})),
      tenon::contains_text("both `column` and `columns`"));
}

TEST_CASE("a csv file that changes while it is read is an error", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string file = folder.write("a.csv", "a\n1\n2\n3\n").string();
  tenon::DatasetProxy csv = open_csv(options_for(file, kField));
  SECTION("it was cut") {
    std::filesystem::resize_file(file, 5);
    CHECK_THAT(tenon::error_of([&] { read_csv(csv, {2}); }),
               tenon::contains_text("ends at offset"));
  }
  SECTION("it grew") {
    std::filesystem::resize_file(file, 12);
    CHECK_THAT(tenon::error_of([&] { read_csv(csv, {0}); }), tenon::contains_text("was changed"));
  }
}
