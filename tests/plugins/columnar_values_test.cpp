// SPDX-License-Identifier: Apache-2.0
//
// Values that a column cannot hold: missing weights of maps, ids that would become equal, and
// integers that f64 rounds. The files are those of columnar/make_mixed_files.py, and texts made
// here.
#include "host/data/data_stream.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/data/loader.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using nlohmann::json;
using Int64s = std::vector<int64_t>;
using Floats = std::vector<float>;
using Paths = std::vector<std::string>;

std::string value_file(const std::string& name) {
  return (source_dir() / "tests/plugins/columnar/mixed" / name).string();
}

// One column of all rows of some files.
class ReadColumn {
 public:
  ReadColumn(const Paths& paths, const json& column, const json& options = json::object())
      : source_(make_component("dataset", "columnar", text_of(paths, column, options))),
        stream_(source_, {.batch_size = 1000}) {
    stream_.begin_epoch(0);
    REQUIRE(stream_.next_window());
    batch_ = stream_.loader().next();
    REQUIRE(batch_.has_value());
  }

  template <class T = int64_t>
  std::vector<T> field(const std::string& name) const {
    const at::Tensor* const tensor = batch_->find(name);
    REQUIRE(tensor != nullptr);
    const at::Tensor whole = tensor->contiguous();
    return {whole.const_data_ptr<T>(), whole.const_data_ptr<T>() + whole.numel()};
  }

 private:
  static std::string text_of(const Paths& paths, const json& column, json options) {
    options["paths"] = paths;
    options["columns"] = json::array({column});
    return options.dump();
  }

  DatasetProxy source_;
  DataStream stream_;
  std::optional<Batch> batch_;
};

// The error of reading the column; "" if there is none.
std::string value_error(const Paths& paths,
                        const json& column,
                        const json& options = json::object()) {
  return error_of([&] { ReadColumn(paths, column, options); });
}

const json kUserIds = {{"name", "u"}, {"type", "ids"}};
constexpr const char* kMixedSigns = "; a column cannot mix negative ids with ids of 2^63 and above";

}  // namespace

TEST_CASE("missing weights of maps are those of lists", "[plugins]") {
  const Paths file = {value_file("map-weights.feather")};
  const std::vector<json> columns = {
      {{"name", "m"}}, {{"name", "d"}}, {{"name", "k"}, {"weights", "w"}}};
  for (const json& plain : columns) {
    const std::string name = plain.at("name");
    CAPTURE(name);
    json column = plain;
    CHECK_THAT(value_error(file, column), contains_text("row group 0, row 0: the column \""));
    CHECK_THAT(value_error(file, column), contains_text("\" has a null; set `missing`"));
    column["missing"] = "skip_row";
    const ReadColumn skipped(file, column);
    CHECK(skipped.field(name + ".values") == Int64s{4});
    CHECK(skipped.field(name + ".offsets") == Int64s{0, 1, 1});
    CHECK(skipped.field<float>(name + ".weights") == Floats{2});
    column["missing"] = "fill";
    column["fill"] = -1;
    const ReadColumn filled(file, column);
    CHECK(filled.field(name + ".values") == Int64s{1, 2, 3, 4});
    CHECK(filled.field(name + ".offsets") == Int64s{0, 2, 3, 4, 4});
    CHECK(filled.field<float>(name + ".weights") == Floats{0.5F, -1, -1, 2});
  }
}

TEST_CASE("negative ids and ids of 2^63 and above are not mixed in a CSV file", "[plugins]") {
  const ScratchFolder folder;
  const Paths mixed = {folder.write("a.csv", "u,k\n7,0\n18446744073709551615,0\n-1,1\n").string()};
  CHECK_THAT(value_error(mixed, kUserIds),
             contains_text("a.csv: row group 0, row 2: the column \"u\" is -1, but "
                           "18446744073709551615 at "));
  CHECK_THAT(value_error(mixed, kUserIds),
             contains_text(std::string("a.csv: row group 0, row 1") + kMixedSigns));
  CHECK_THAT(value_error(mixed, {{"name", "u"}}), contains_text(kMixedSigns));
  CHECK_THAT(value_error(mixed, {{"name", "x"}, {"columns", {"k", "u"}}, {"type", "ids"}}),
             contains_text(kMixedSigns));
  // Each sign alone, other types, and rows that are not used.
  const json large = {{"where", json::array({json{{"column", "k"}, {"value", 0}}})}};
  CHECK(ReadColumn(mixed, kUserIds, large).field("u") == Int64s{7, -1});
  const json negative = {{"where", json::array({json{{"column", "k"}, {"value", 1}}})}};
  CHECK(ReadColumn(mixed, kUserIds, negative).field("u") == Int64s{-1});
  CHECK(ReadColumn(mixed, {{"name", "u"}, {"type", "f32"}}).field<float>("u") ==
        Floats{7, 0x1p64F, -1});
  CHECK(ReadColumn(mixed, {{"name", "u"}, {"hash", "farm"}}).field("u").size() == 3);
  const Paths apart = {folder.write("b.csv", "u,v\n-5,0xffffffffffffffff\n 3,1\n").string()};
  CHECK(ReadColumn(apart, {{"name", "x"}, {"columns", {"u", "v"}}, {"type", "ids"}}).field("x") ==
        Int64s{-5, -1, 3, 1});
}

TEST_CASE("negative ids and ids of 2^63 and above are not mixed over files", "[plugins]") {
  const ScratchFolder folder;
  const std::string large = folder.write("a.csv", "u\n9223372036854775808\n").string();
  const std::string negative = folder.write("b.csv", "u\n5\n -1\n").string();
  const std::string wrong = value_error({large, negative}, kUserIds);
  CHECK_THAT(wrong, contains_text("b.csv: row group 0, row 1: the column \"u\" is -1, but"));
  CHECK_THAT(wrong, contains_text(" 9223372036854775808 at "));
  CHECK_THAT(wrong, contains_text(std::string("a.csv: row group 0, row 0") + kMixedSigns));
  // Windows of a run are one column.
  DatasetProxy source(make_component(
      "dataset",
      "columnar",
      json{{"paths", {negative, large}}, {"columns", {kUserIds}}, {"windows", {{"by", "files"}}}}
          .dump()));
  DataStream stream(source, {.batch_size = 10});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  REQUIRE(stream.loader().next().has_value());
  CHECK_THAT(error_of([&] {
               REQUIRE(stream.next_window());
               stream.loader().next();
             }),
             contains_text(kMixedSigns));
}

TEST_CASE("ids of folders and of CSV files have the signs of Parquet", "[plugins]") {
  const ScratchFolder folder;
  for (const std::string shop : {"shop=-1", "shop=18446744073709551615"}) {
    const std::filesystem::path file = folder.path() / "x" / shop / "a.parquet";
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::copy_file(value_file("int.parquet"), file);
  }
  const std::string root = (folder.path() / "x").string();
  CHECK_THAT(value_error({root}, {{"name", "shop"}}), contains_text(kMixedSigns));
  CHECK_THAT(value_error({root}, {{"name", "shop"}, {"type", "ids"}}), contains_text(kMixedSigns));
  CHECK(ReadColumn({root}, {{"name", "c"}}).field("c") == Int64s{1, 2, 1, 2});

  const json ids = {{"name", "c"}, {"type", "ids"}};
  const std::string large = folder.write("large.csv", "c\n18446744073709551615\n").string();
  const std::string negative = folder.write("negative.csv", "c\n-5\n").string();
  const std::string small = folder.write("small.csv", "c\n5\n").string();
  const std::string int64s = value_file("negative.parquet");
  const std::string uint64s = value_file("unsigned.parquet");
  const std::vector<Paths> mixed = {
      {large, int64s}, {int64s, large}, {negative, uint64s}, {uint64s, negative}};
  for (const Paths& files : mixed) {
    CAPTURE(files);
    const std::string wrong = value_error(files, ids);
    CHECK_THAT(wrong, contains_text(kMixedSigns));
    CHECK_THAT(wrong, contains_text(files[0] + ": row group 0, row 0"));
    CHECK_THAT(wrong, contains_text(files[1] + ": row group 0, row 0"));
  }
  CHECK(ReadColumn({small, uint64s}, ids).field("c").size() == 6);
  CHECK(ReadColumn({large, uint64s}, ids).field("c").size() == 6);
  CHECK(ReadColumn({uint64s, large}, ids).field("c").size() == 6);
  CHECK(ReadColumn({negative, int64s}, ids).field("c") == Int64s{-5, -5});
}

TEST_CASE("integers of CSV that f64 rounds are errors at their rows", "[plugins]") {
  const ScratchFolder folder;
  const json column = {{"name", "u"}, {"type", "f64"}};
  for (const std::string text : {"1152921504606846977",
                                 "-9007199254740993",
                                 " +0009007199254740993 ",
                                 "18446744073709551615"}) {
    CAPTURE(text);
    const Paths file = {folder.write("a.csv", "u\n1\n" + text + "\n").string()};
    const std::string wrong = value_error(file, column);
    CHECK_THAT(wrong, contains_text("a.csv: row group 0, row 1: the column \"u\" is \""));
    CHECK_THAT(wrong, contains_text("\", which f64 rounds; read it as ids"));
  }
  const Paths wide = {folder.write("a.csv", "u\n18446744073709551617\n").string()};
  CHECK_THAT(value_error(wide, column),
             contains_text("is \"18446744073709551617\", which f64 rounds"));
  const Paths exact = {folder
                           .write("a.csv",
                                  "u\n1152921504606846976\n-09007199254740992\n"
                                  "18446744073709551616\n1e30\n0.1\n9007199254740993.5\ninf\n")
                           .string()};
  CHECK(ReadColumn(exact, column).field<double>("u") ==
        std::vector<double>{0x1p60, -0x1p53, 0x1p64, 1e30, 0.1, 9007199254740993.5, HUGE_VAL});
  // f32 rounds by its definition.
  const Paths rounded = {folder.write("a.csv", "u\n1152921504606846977\n").string()};
  CHECK(ReadColumn(rounded, {{"name", "u"}, {"type", "f32"}}).field<float>("u") == Floats{0x1p60F});
}

}  // namespace tenon
