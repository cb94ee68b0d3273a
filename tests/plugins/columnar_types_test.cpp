// SPDX-License-Identifier: Apache-2.0
//
// Columns whose files have other types, units and layouts: one meaning over all files, or an error.
// The files are those of columnar/make_mixed_files.py, and texts made here.
#include "host/data/data_stream.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/data/loader.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using nlohmann::json;
using Numbers = std::vector<int64_t>;

std::string mixed(const std::string& name) {
  return (source_dir() / "tests/plugins/columnar/mixed" / name).string();
}

std::vector<std::string> mixed_files(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    files.push_back(mixed(name));
  }
  return files;
}

DatasetProxy open_files(const std::vector<std::string>& paths,
                        const json& columns,
                        const json& options = json::object()) {
  json all = options;
  all["paths"] = paths;
  all["columns"] = columns.is_array() ? columns : json::array({columns});
  return DatasetProxy(make_component("dataset", "columnar", all.dump()));
}

Batch read_batch(DatasetProxy& source) {
  DataStream stream(source, {.batch_size = 1000000});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  std::optional<Batch> batch = stream.loader().next();
  REQUIRE(batch.has_value());
  return std::move(*batch);
}

template <class T>
std::vector<T> field_of(const Batch& batch, const std::string& name) {
  const at::Tensor* const tensor = batch.find(name);
  REQUIRE(tensor != nullptr);
  const at::Tensor whole = tensor->contiguous();
  return {whole.const_data_ptr<T>(), whole.const_data_ptr<T>() + whole.numel()};
}

// Field `name` of all rows.
template <class T = int64_t>
std::vector<T> column(const std::vector<std::string>& paths,
                      const json& columns,
                      const json& options = json::object(),
                      const std::string& name = "") {
  DatasetProxy source = open_files(paths, columns, options);
  const json& first = columns.is_array() ? columns.at(0) : columns;
  return field_of<T>(read_batch(source), name.empty() ? first.at("name").get<std::string>() : name);
}

std::vector<std::string> texts(const std::vector<std::string>& paths,
                               const json& columns,
                               const json& options = json::object()) {
  DatasetProxy source = open_files(paths, columns, options);
  const Batch batch = read_batch(source);
  const std::string name = columns.at("name");
  const auto bytes = field_of<uint8_t>(batch, name + ".values");
  const auto ends = field_of<int64_t>(batch, name + ".offsets");
  std::vector<std::string> out;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    out.emplace_back(bytes.begin() + ends[i], bytes.begin() + ends[i + 1]);
  }
  return out;
}

// The error of opening or reading; "" if there is none.
std::string failure(const std::vector<std::string>& paths,
                    const json& columns,
                    const json& options = json::object()) {
  return error_of([&] {
    DatasetProxy source = open_files(paths, columns, options);
    read_batch(source);
  });
}

const json kFilled = {{"name", "c"}, {"type", "ids"}, {"missing", "fill"}, {"fill", -1}};

}  // namespace

TEST_CASE("times of all files are in one unit", "[plugins]") {
  // golden.json is read by pyarrow.dataset with one schema.
  std::ifstream in(mixed("golden.json"));
  const json golden = json::parse(in);
  const std::vector<std::string> files =
      mixed_files({"time-s.parquet", "time-ms.parquet", "time-us.parquet", "time-ns.parquet"});
  for (const std::string unit : {"s", "ms", "us", "ns"}) {
    CAPTURE(unit);
    const auto expected = golden.at("ts_" + unit).get<Numbers>();
    CHECK(column(files, {{"name", "ts"}, {"unit", unit}}) == expected);
    std::vector<std::string> first = {mixed("time-" + unit + ".parquet")};
    first.insert(first.end(), files.begin(), files.end());
    Numbers with_first(expected.begin(), expected.begin() + 2);
    with_first.insert(with_first.end(), expected.begin(), expected.end());
    if (unit != "s") {  // Parquet has no seconds: pyarrow writes milliseconds
      CHECK(column(first, {{"name", "ts"}}) == with_first);
    }
  }
  CHECK(column(mixed_files({"time-lists-ms.feather", "time-lists.feather"}),
               {{"name", "ts"}},
               {},
               "ts.values") == Numbers{1767268800000,
                                       -315619199000,
                                       -315619199000,
                                       1767268800000,
                                       -315619199000,
                                       -315619199000});
  CHECK(column(mixed_files({"date.parquet", "date64.parquet"}), {{"name", "ts"}}) ==
        Numbers{20454, -3653, 20454, -3653});
  CHECK(column(mixed_files({"date.parquet", "time-us.parquet"}), {{"name", "ts"}, {"unit", "s"}}) ==
        Numbers{1767225600, -315619200, 1767268800, -315619199});
}

TEST_CASE("a time that the unit cannot hold is an error at its row", "[plugins]") {
  const std::string wrong =
      failure(mixed_files({"time-ms.parquet", "time-fraction.parquet"}), {{"name", "ts"}});
  CHECK_THAT(wrong, contains_text("time-fraction.parquet: row group 0, row 0: the column \"ts\""));
  CHECK_THAT(wrong, contains_text("is 1500001 us, which is not exact in ms"));
}

TEST_CASE("files whose column means something else are an error that names both", "[plugins]") {
  for (const std::string other : {"time-int.parquet", "time-bool.parquet", "time-zone.parquet"}) {
    CAPTURE(other);
    const std::string wrong = failure(mixed_files({"time-us.parquet", other}), {{"name", "ts"}});
    CHECK_THAT(wrong, contains_text(other + ": the column \"ts\" is "));
    CHECK_THAT(wrong, contains_text("time-us.parquet, where it is timestamp[us]"));
  }
  CHECK(column(mixed_files({"time-us.parquet", "time-zone.parquet"}),
               {{"name", "ts"}, {"unit", "s"}}) ==
        Numbers{1767268800, -315619199, 1767268800, -315619199});
  CHECK_THAT(failure(mixed_files({"int.parquet", "bool.parquet"}), {{"name", "c"}}),
             contains_text("bool.parquet: the column \"c\" is bool and would be read as ids, but "
                           "as ids in "));
  CHECK_THAT(failure(mixed_files({"int.parquet", "double.parquet"}), {{"name", "c"}}),
             contains_text("double.parquet: the column \"c\" is double and would be read as f32, "
                           "but as ids in "));
  CHECK_THAT(failure(mixed_files({"int.parquet", "text.parquet"}), kFilled),
             contains_text("; it is int64 in " + mixed("int.parquet")));
  CHECK_THAT(failure(mixed_files({"int.parquet"}), {{"name", "c"}, {"unit", "ms"}}),
             contains_text("`unit` requires dates, times or durations"));
}

TEST_CASE("a declared type reads numbers of other types exactly, or not at all", "[plugins]") {
  CHECK(column(mixed_files({"int.parquet", "double.parquet", "bool.parquet", "half.feather"}),
               kFilled) == Numbers{1, 2, 1, -1, 1, 0, 7, 3});
  CHECK(column<double>(mixed_files({"int.parquet", "bool.parquet", "decimal.parquet"}),
                       {{"name", "c"}, {"type", "f64"}}) ==
        std::vector<double>{1, 2, 1, 0, 1.5, -2.25, 0.1});
  CHECK_THAT(failure(mixed_files({"int.parquet", "fraction.parquet"}), kFilled),
             contains_text("row 0: the column \"c\" is 1.5; ids must be integers"));
  CHECK_THAT(failure(mixed_files({"rounded.parquet"}), kFilled), contains_text("may be rounded"));
  CHECK_THAT(failure(mixed_files({"big.parquet"}), {{"name", "c"}, {"type", "f64"}}),
             contains_text("row 1: the column \"c\" is 1152921504606846977, which f64 rounds"));
  CHECK_THAT(failure(mixed_files({"negative.parquet", "unsigned.parquet"}), {{"name", "c"}}),
             contains_text("row 0: the column \"c\" is 9223372036854775809, which int64"));
  CHECK_THAT(failure(mixed_files({"unsigned.parquet", "negative.parquet"}), {{"name", "c"}}),
             contains_text("row 0: the column \"c\" is -5, which uint64"));
  // A row that is left out may have any value.
  CHECK(column(mixed_files({"fraction.parquet"}),
               kFilled,
               {{"where", json::array({json{{"column", "c"}, {"value", 2}}})}}) == Numbers{2});
  CHECK_THAT(error_of([] {
               open_files(mixed_files({"int.parquet"}),
                          {{"name", "c"}, {"type", "ids"}, {"missing", "fill"}, {"fill", 0.5}});
             }),
             contains_text("`fill` 0.5; expected an integer"));
  CHECK_THAT(failure(mixed_files({"int.parquet"}), {{"name", "c"}, {"fill", 0.5}}),
             contains_text("has ids, but `fill` 0.5"));
}

TEST_CASE("decimals are numbers, and ids if they are whole", "[plugins]") {
  CHECK(column<float>(mixed_files({"decimal.parquet"}), {{"name", "c"}}) ==
        std::vector<float>{1.5F, -2.25F, 0.1F});
  CHECK(column(mixed_files({"decimal-whole.parquet", "int.parquet"}), {{"name", "c"}}) ==
        Numbers{5, (int64_t{1} << 60) + 1, 1, 2});
  CHECK_THAT(failure(mixed_files({"decimal.parquet"}), {{"name", "c"}, {"type", "ids"}}),
             contains_text("is 1.5; ids must be 64-bit integers"));
  CHECK_THAT(failure(mixed_files({"decimal-big.parquet"}), {{"name", "c"}}),
             contains_text("is 1180591620717411303424; ids must be 64-bit integers"));
}

TEST_CASE("a column without values in a file is nulls, wherever the file is", "[plugins]") {
  CHECK(column(mixed_files({"int.parquet", "null.parquet"}), kFilled) == Numbers{1, 2, -1, -1});
  CHECK(column(mixed_files({"null.parquet", "int.parquet"}), kFilled) == Numbers{-1, -1, 1, 2});
  CHECK(column(mixed_files({"null.parquet"}), kFilled) == Numbers{-1, -1});
  const json lists = {{"name", "c"}, {"missing", "fill"}, {"fill", 9}};
  const std::vector<std::string> files =
      mixed_files({"null.parquet", "list-null.feather", "list.parquet"});
  CHECK(column(files, lists, {}, "c.values") == Numbers{9, 1, 2, 3});
  CHECK(column(files, lists, {}, "c.offsets") == Numbers{0, 0, 0, 0, 1, 3, 4});
  CHECK_THAT(failure(mixed_files({"int.parquet", "null.parquet"}), {{"name", "c"}}),
             contains_text("null.parquet: row group 0, row 0: the column \"c\" has a null"));
  CHECK_THAT(failure(mixed_files({"null.parquet"}), {{"name", "c"}}),
             contains_text("has no values in any file; set `type`"));
  CHECK(column(mixed_files({"object.parquet", "int.parquet"}), {{"name", "c"}}) == Numbers{1, 2});
}

TEST_CASE("a file may lack a column if the recipe says so", "[plugins]") {
  const ScratchFolder folder;
  const std::string old = folder.write("a.csv", "u\n1\n2\n").string();
  const std::string later = folder.write("b.csv", "u,n\n3,7\n").string();
  const json absent = {
      {"name", "n"}, {"type", "ids"}, {"missing", "fill"}, {"fill", -1}, {"absent", "missing"}};
  CHECK(column({old, later}, absent) == Numbers{-1, -1, 7});
  CHECK(column({later, old}, absent) == Numbers{7, -1, -1});
  CHECK_THAT(failure({old}, absent), contains_text("no column \"n\", and no other file has it"));
  json strict = absent;
  strict["absent"] = "error";
  CHECK_THAT(failure({later, old}, strict), contains_text("a.csv: no column \"n\""));
  strict = {{"name", "n"}, {"absent", "missing"}};
  CHECK_THAT(failure({later, old}, strict), contains_text("set `missing`"));
}

TEST_CASE("NaN is missing where nulls are filled or skipped", "[plugins]") {
  const json filled = {{"name", "c"}, {"type", "f32"}, {"missing", "fill"}, {"fill", -1}};
  CHECK(column<float>(mixed_files({"nan.parquet"}), filled) == std::vector<float>{1, -1, 3});
  CHECK(column(mixed_files({"nan.parquet"}), kFilled) == Numbers{1, -1, 3});
  CHECK(column<float>(mixed_files({"nan.parquet"}), {{"name", "c"}, {"missing", "skip_row"}}) ==
        std::vector<float>{1, 3});
  CHECK(std::isnan(column<float>(mixed_files({"nan.parquet"}), {{"name", "c"}}).at(1)));
}

TEST_CASE("conditions compare 64-bit integers and times exactly", "[plugins]") {
  const auto kept = [](const std::string& file, const std::string& op, const json& value) {
    return column(mixed_files({file}),
                  json{{"name", "c"}},
                  {{"where", json::array({json{{"column", "c"}, {"op", op}, {"value", value}}})}});
  };
  constexpr int64_t kBig = int64_t{1} << 60;
  const uint64_t large = (uint64_t{1} << 63) + 1;
  CHECK(kept("unsigned.parquet", "==", kBig + 1) == Numbers{kBig + 1});
  CHECK(kept("unsigned.parquet", "<", kBig + 2) == Numbers{5, kBig + 1});
  CHECK(kept("unsigned.parquet", "==", large) == Numbers{static_cast<int64_t>(large)});
  CHECK(kept("unsigned.parquet", ">", uint64_t{1} << 62) ==
        Numbers{static_cast<int64_t>(large), -1});
  CHECK(kept("unsigned.parquet", "==", "18446744073709551615") == Numbers{-1});
  CHECK(kept("big.parquet", "==", kBig + 1) == Numbers{kBig + 1});
  CHECK(kept("big.parquet", "<=", 1152921504606846976.0) == Numbers{kBig});
  CHECK(kept("big.parquet", ">", 0.5).size() == 3);
  CHECK(kept("negative.parquet", "<", 0.5) == Numbers{-5});
  const auto times = [](const std::vector<std::string>& files, const json& value, json more = {}) {
    more = more.is_null() ? json::object() : more;
    more["name"] = "ts";
    return column(
               mixed_files(files),
               more,
               {{"where", json::array({json{{"column", "ts"}, {"op", ">="}, {"value", value}}})}})
        .size();
  };
  const std::vector<std::string> files = {
      "time-ms.parquet", "time-us.parquet", "time-ns.parquet", "date.parquet"};
  CHECK(times(files, 1767268800000) == 3);
  CHECK(times(files, "2026-01-01 12:00:00") == 3);
  CHECK(times(files, "2026-01-01") == 4);
  CHECK(times(files, 1767268800, {{"unit", "s"}}) == 3);
  CHECK_THAT(failure(mixed_files({"time-ms.parquet"}),
                     json{{"name", "ts"}},
                     {{"where", json::array({json{{"column", "ts"}, {"value", "noon"}}})}}),
             contains_text("compares it with a string, \"noon\""));
}

TEST_CASE("views, fixed sizes and runs are read as their plain types", "[plugins]") {
  const std::vector<std::string> files = mixed_files({"views.feather"});
  CHECK(texts(files, {{"name", "c"}, {"missing", "fill"}}) ==
        std::vector<std::string>{"a", "a longer text than twelve bytes", ""});
  CHECK(texts(files, {{"name", "d"}}) == std::vector<std::string>{"ab", "cd", "ef"});
  CHECK(column(files, {{"name", "e"}}, {}, "e.values") == Numbers{1, 2, 3});
  CHECK(column(files, {{"name", "e"}}, {}, "e.offsets") == Numbers{0, 1, 3, 3});
  CHECK(column(files, {{"name", "f"}}) == Numbers{7, 7, 8});
  CHECK(texts(files, {{"name", "g"}}) == std::vector<std::string>{"x", "y", "x"});
  const std::vector<std::string> fixed = mixed_files({"fixed-null.feather"});
  CHECK(column<float>(fixed, {{"name", "v"}, {"missing", "fill"}, {"fill", -1}}) ==
        std::vector<float>{1, 2, -1, -1, 3, 4});
  CHECK(column<float>(fixed, {{"name", "v"}, {"missing", "skip_row"}}) ==
        std::vector<float>{1, 2, 3, 4});
  CHECK_THAT(failure(fixed, {{"name", "v"}}), contains_text("row 1: the column \"v\" has a null"));
}

TEST_CASE("fields of structs are columns by their paths", "[plugins]") {
  for (const std::string name : {"struct.parquet", "struct.feather"}) {
    CAPTURE(name);
    const std::vector<std::string> files = mixed_files({name});
    const json filled = {{"missing", "fill"}, {"fill", -1}};
    json id = filled;
    id["name"] = "u";
    id["column"] = "user.id";
    CHECK(column(files, id) == Numbers{5, 6, -1});
    json city = {{"name", "city"}, {"column", "user.at.city"}, {"missing", "fill"}};
    CHECK(texts(files, city) == std::vector<std::string>{"a", "", ""});
    json items = filled;
    items["name"] = "items";
    items["column"] = "ev.item";
    items["weights"] = "ev.w";
    CHECK(column(files, items, {}, "items.values") == Numbers{1, 2, 3});
    CHECK(column(files, items, {}, "items.offsets") == Numbers{0, 1, 1, 3});
    CHECK(column<float>(files, items, {}, "items.weights") ==
          std::vector<float>{0.5F, 0.25F, 0.75F});
    CHECK(column(
              files,
              id,
              {{"where", json::array({json{{"column", "user.id"}, {"op", ">"}, {"value", 5}}})}}) ==
          Numbers{6});
  }
}

TEST_CASE("Arrow streams are read as the files of Hugging Face datasets", "[plugins]") {
  CHECK(column(mixed_files({"stream.arrow"}), {{"name", "c"}}) == Numbers{1, 2, 3, 4, 5});
  const ScratchFolder folder;
  std::filesystem::copy_file(mixed("stream.arrow"), folder.path() / "data-00000-of-00001.arrow");
  folder.write("dataset_info.json", "{}");
  folder.write("state.json", "{}");
  CHECK(column({folder.path().string()}, {{"name", "c"}}, {{"read_rows", 1}}).size() == 5);
}

TEST_CASE("folders KEY=VALUE follow the declaration", "[plugins]") {
  const ScratchFolder folder;
  const auto place = [&](const std::string& below) {
    const std::filesystem::path file = folder.path() / below / "a.parquet";
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::copy_file(mixed("int.parquet"), file);
    return (folder.path() / below.substr(0, below.find('/'))).string();
  };
  const auto twice = [](const std::vector<std::string>& some) {
    std::vector<std::string> out;
    for (const std::string& text : some) {
      out.insert(out.end(), 2, text);
    }
    return out;
  };
  SECTION("names and values are percent-decoded") {
    const std::string root = place("x/ci%74y=San%20Francisco");
    place("x/ci%74y=a%2Fb");
    CHECK(texts({root}, {{"name", "city"}}) == twice({"San Francisco", "a/b"}));
    CHECK(column({root},
                 {{"name", "c"}},
                 {{"where", json::array({json{{"column", "city"}, {"value", "a/b"}}})}})
              .size() == 2);
  }
  SECTION("the default partition of Hive is a null") {
    const std::string root = place("x/shop=12");
    place("x/shop=13");
    place("x/shop=__HIVE_DEFAULT_PARTITION__");
    CHECK(column({root}, {{"name", "shop"}, {"missing", "fill"}, {"fill", -1}}) ==
          Numbers{12, 12, 13, 13, -1, -1});
    CHECK(column({root}, {{"name", "shop"}, {"missing", "skip_row"}}).size() == 4);
    CHECK_THAT(failure({root}, {{"name", "shop"}}), contains_text("has a null"));
    CHECK(column({root},
                 {{"name", "c"}},
                 {{"where", json::array({json{{"column", "shop"}, {"op", "!="}, {"value", 12}}})}})
              .size() == 2);
  }
  SECTION("text stays text, and one type is that of all folders") {
    const std::string root = place("x/region=01");
    place("x/region=1");
    CHECK(texts({root}, {{"name", "region"}, {"type", "text"}}) == twice({"01", "1"}));
    const Numbers hashes = column({root}, {{"name", "region"}, {"hash", "farm"}});
    CHECK(hashes.front() != hashes.back());
    CHECK(column({root}, {{"name", "region"}}) == Numbers{1, 1, 1, 1});
    place("x/region=paris");
    CHECK(texts({root}, {{"name", "region"}}) == twice({"01", "1", "paris"}));
    CHECK_THAT(failure({root}, {{"name", "region"}, {"type", "ids"}}),
               contains_text("is \"paris\", which is not a 64-bit integer"));
  }
  SECTION("parts of a time may have one digit") {
    const std::string root = place("x/year=2026/month=1/day=5/hour=9");
    place("x/year=2026/month=1/day=5/hour=10");
    place("x/year=2026/month=1/day=5/hour=11");
    DatasetProxy source =
        open_files({root},
                   {{"name", "hour"}},
                   {{"windows", {{"by", "time"}, {"pattern", "year=%Y/month=%m/day=%d/hour=%H"}}}});
    DataStream stream(source, {.batch_size = 10});
    stream.begin_epoch(0);
    std::vector<std::string> labels;
    Numbers hours;
    while (stream.next_window()) {
      labels.push_back(stream.window_label());
      hours.push_back(field_of<int64_t>(*stream.loader().next(), "hour").front());
    }
    CHECK(labels == std::vector<std::string>{"2026-01-05/09", "2026-01-05/10", "2026-01-05/11"});
    CHECK(hours == Numbers{9, 10, 11});
  }
}

namespace {

std::vector<std::string> csv_texts(const std::string& text,
                                   const json& column,
                                   const json& csv = json::object()) {
  const ScratchFolder folder;
  return texts({folder.write("a.csv", text).string()}, column, {{"csv", csv}});
}

template <class T>
std::vector<T> csv_column(const std::string& text,
                          const json& columns,
                          const json& csv = json::object()) {
  const ScratchFolder folder;
  return column<T>({folder.write("a.csv", text).string()}, columns, {{"csv", csv}});
}

std::string csv_failure(const std::string& text,
                        const json& columns,
                        const json& csv = json::object()) {
  const ScratchFolder folder;
  return failure({folder.write("a.csv", text).string()}, columns, {{"csv", csv}});
}

}  // namespace

TEST_CASE("missing texts of CSV are the empty one and the declared marks", "[plugins]") {
  CHECK(csv_texts("s,n\n\"\",\"\"\n", {{"name", "s"}, {"type", "text"}}) ==
        std::vector<std::string>{""});
  CHECK_THAT(csv_failure("s,n\n\"\",\"\"\n", {{"name", "n"}, {"type", "f32"}}),
             contains_text("the column \"n\" has a null"));
  const std::string text = "s,n\nNA,1\n,2\nUS,NA\nnull,\n-,4\n";
  const json filled = {{"name", "s"}, {"missing", "fill"}};
  CHECK(csv_texts(text, filled) == std::vector<std::string>{"NA", "", "US", "null", "-"});
  CHECK_THAT(csv_failure(text, {{"name", "s"}}),
             contains_text("row 1: the column \"s\" has a null"));
  const json skipped = {{"name", "s"}, {"missing", "skip_row"}};
  CHECK(csv_texts(text, skipped) == std::vector<std::string>{"NA", "US", "null", "-"});
  CHECK(csv_texts(text, skipped, {{"missing_marks", {"-"}}}) ==
        std::vector<std::string>{"NA", "US", "null"});
  const json numbers = {{"name", "n"}, {"type", "ids"}, {"missing", "fill"}, {"fill", -1}};
  CHECK(csv_column<int64_t>(text, numbers) == Numbers{1, 2, -1, -1, 4});
  const json hashed = {{"name", "s"}, {"hash", "farm"}, {"missing", "fill"}, {"fill", -1}};
  CHECK(csv_column<int64_t>(text, hashed).at(1) == -1);
  CHECK_FALSE(csv_column<int64_t>(text, hashed).at(0) == -1);
}

TEST_CASE("ranges of CSV columns have the declared type in all rows", "[plugins]") {
  std::string text = "d1,d2,c1,c2\n";
  constexpr int kRows = 100000;
  for (int i = 0; i < kRows; ++i) {
    text += std::to_string(i % 7) + ",," + "05140644,12e5\n";
  }
  text += "0.5,3,x,00000001\n";
  const auto dense = csv_column<float>(
      text, {{"name", "d"}, {"columns", {"d1..d2"}}, {"type", "f32"}, {"missing", "fill"}});
  REQUIRE(dense.size() == 2 * (kRows + 1));
  CHECK(dense[2 * kRows] == 0.5F);
  CHECK(dense[2 * kRows + 1] == 3);
  const auto hashes =
      csv_column<int64_t>(text, {{"name", "c"}, {"columns", {"c1..c2"}}, {"hash", "farm"}});
  CHECK(hashes.size() == 2 * (kRows + 1));
  // Without a declared type, the whole file counts.
  CHECK(csv_column<float>(text, {{"name", "d1"}}).back() == 0.5F);
  CHECK(csv_texts(text, {{"name", "c1"}}).back() == "x");
}

TEST_CASE("types of CSV columns without a declaration are those of all files", "[plugins]") {
  const ScratchFolder folder;
  const std::string whole = folder.write("a.csv", "c\n1\n2\n").string();
  const std::string real = folder.write("b.csv", "c\n0.5\n").string();
  const std::string word = folder.write("c.csv", "c\nparis\n").string();
  CHECK(column<float>({whole, real}, {{"name", "c"}}) == std::vector<float>{1, 2, 0.5F});
  CHECK(texts({whole, word}, {{"name", "c"}}) == std::vector<std::string>{"1", "2", "paris"});
  CHECK(column({mixed("int.parquet"), whole}, {{"name", "c"}}) == Numbers{1, 2, 1, 2});
  CHECK_THAT(failure({mixed("int.parquet"), real}, {{"name", "c"}}),
             contains_text("b.csv: the column \"c\" is text, read as f32"));
  CHECK_THAT(failure({whole, real}, {{"name", "c"}, {"type", "ids"}}),
             contains_text("row 0: the column \"c\" is \"0.5\", which is not a 64-bit integer"));
  const std::string times = "t,b\n2026-01-01,true\n2026-01-02 00:00:01,false\n";
  CHECK(csv_column<int64_t>(times, {{"name", "t"}}) == Numbers{1767225600, 1767312001});
  CHECK(csv_column<int64_t>(times, {{"name", "t"}, {"unit", "ms"}}) ==
        Numbers{1767225600000, 1767312001000});
  CHECK(csv_column<int64_t>(times, {{"name", "b"}}) == Numbers{1, 0});
}

TEST_CASE("CSV files of any shape are read to the byte", "[plugins]") {
  SECTION("a row longer than several blocks") {
    const std::string large(5000000, 'q');
    CHECK(csv_texts("s\na\n" + large + "\nb\n", {{"name", "s"}}) ==
          std::vector<std::string>{"a", large, "b"});
  }
  SECTION("200,000 columns") {
    std::string header = "c0";
    std::string row = "7";
    for (int i = 1; i < 200000; ++i) {
      header += ",c" + std::to_string(i);
      row += ",1";
    }
    CHECK(csv_column<int64_t>(header + "\n" + row + "\n" + row + "\n", {{"name", "c0"}}) ==
          Numbers{7, 7});
  }
  SECTION("a quoted line break at the end of a block") {
    for (int shift = -4; shift <= 4; ++shift) {
      CAPTURE(shift);
      const std::string cut =
          std::string((1 << 20) - 5 + static_cast<size_t>(shift + 4) - 4, 'z') + "A\r\nB";
      CHECK(csv_texts("s\r\n\"" + cut + "\"\r\n\"plain\"\r\n", {{"name", "s"}}) ==
            std::vector<std::string>{cut, "plain"});
    }
  }
  SECTION("separators of several bytes, and without a header") {
    CHECK(csv_column<int64_t>("1::1193::5\n2::661::3\n",
                              {{"name", "u"}, {"column", "f1"}},
                              {{"separator", "::"}, {"header", false}}) == Numbers{1193, 661});
  }
  SECTION("numbers of all kinds") {
    CHECK(csv_column<int64_t>("u\n0x10\n 12 \n+5\n18446744073709551615\n0xffffffffffffffff\n",
                              {{"name", "u"}, {"type", "ids"}}) == Numbers{16, 12, 5, -1, -1});
    CHECK(csv_column<float>("u\ninf\n-Infinity\n1e-50\n", {{"name", "u"}, {"type", "f32"}}) ==
          std::vector<float>{INFINITY, -INFINITY, 0});
    CHECK_THAT(csv_failure("u\n1e400\n", {{"name", "u"}, {"type", "f32"}}),
               contains_text("is \"1e400\", which is too large"));
    CHECK_THAT(csv_failure("u\n1,5\n", {{"name", "u"}}),
               contains_text("a.csv:2: the row has 2 fields (expected 1)"));
  }
  SECTION("files without rows") {
    const ScratchFolder folder;
    std::vector<std::string> files = {folder.write("a.csv", "u\n5\n6\n").string()};
    int k = 0;
    for (const char* const empty : {"u\n", "u", "", "\n", "\xEF\xBB\xBF"}) {
      files.push_back(folder.write("b" + std::to_string(k++) + ".csv", empty).string());
    }
    files.push_back(folder.write("c.csv", "u\n7\n").string());
    CHECK(column(files, {{"name", "u"}}) == Numbers{5, 6, 7});
    std::swap(files.front(), files.at(1));
    CHECK(column(files, {{"name", "u"}, {"type", "ids"}}) == Numbers{5, 6, 7});
  }
}

TEST_CASE("skipped windows are not opened", "[plugins]") {
  const ScratchFolder folder;
  folder.write("dt=2026-01-01/a.csv", "u\n1\n");
  folder.write("dt=2026-01-02/a.parquet", "garbage");
  folder.write("dt=2026-01-03/a.csv", "u,n\n3,30\n");
  for (const std::string check : {"all", "first"}) {
    DatasetProxy source = open_files(
        {folder.path().string()},
        {{{"name", "u"}}, {{"name", "n"}}},
        {{"check", check},
         {"windows", {{"by", "time"}, {"pattern", "dt=%Y-%m-%d"}, {"skip_before", "2026-01-03"}}}});
    DataStream stream(source, {.batch_size = 10});
    stream.begin_epoch(0);
    REQUIRE(stream.next_window());
    CHECK(field_of<int64_t>(*stream.loader().next(), "n") == Numbers{30});
    CHECK_FALSE(stream.next_window());
  }
}

TEST_CASE("a resumed run keeps the unit of its times", "[plugins]") {
  const ScratchFolder folder;
  std::filesystem::copy_file(mixed("time-ms.parquet"), folder.path() / "b.parquet");
  const auto open = [&](const json& column) {
    return open_files({folder.path().string()}, column);
  };
  StateTree state;
  {
    DatasetProxy source = open({{"name", "ts"}});
    DataStream stream(source, {.batch_size = 1});
    stream.begin_epoch(0);
    REQUIRE(stream.next_window());
    REQUIRE(stream.loader().next().has_value());
    stream.snapshot(state, "data");
  }
  std::filesystem::remove(folder.path() / "b.parquet");
  std::filesystem::copy_file(mixed("time-us.parquet"), folder.path() / "b.parquet");
  {
    DatasetProxy source = open({{"name", "ts"}});
    DataStream stream(source, {.batch_size = 1});
    CHECK_THAT(error_of([&] { stream.load(state, "data"); }),
               contains_text("(expected ts in ms, found ts in us); set `unit`"));
  }
  DatasetProxy source = open({{"name", "ts"}, {"unit", "ms"}});
  DataStream stream(source, {.batch_size = 1});
  stream.load(state, "data");
  CHECK(field_of<int64_t>(*stream.loader().next(), "ts") == Numbers{-315619199000});
}

}  // namespace tenon
