// SPDX-License-Identifier: Apache-2.0
//
// Conditions on texts of files without types: CSV columns and KEY=VALUE folders give the same rows
// as typed columns.
#include "host/data/data_stream.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/data/loader.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

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
using Rows = std::vector<int64_t>;
using Paths = std::vector<std::string>;

json condition(const std::string& column, const std::string& op, const json& value) {
  return {{"column", column}, {"op", op}, {"value", value}};
}

// Column "i" of the rows that meet the condition; `more` are further columns of the batch.
Rows kept(const Paths& paths,
          const json& where,
          const json& more = json::array(),
          const json& options = json::object()) {
  json all = options;
  all["paths"] = paths;
  all["columns"] = json::array({json{{"name", "i"}}});
  for (const json& column : more) {
    all["columns"].push_back(column);
  }
  all["where"] = json::array({where});
  DatasetProxy source(make_component("dataset", "columnar", all.dump()));
  DataStream stream(source, {.batch_size = 1000});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  Rows rows;
  while (const std::optional<Batch> batch = stream.loader().next()) {
    const at::Tensor whole = batch->find("i")->contiguous();
    const auto* const values = whole.const_data_ptr<int64_t>();
    rows.insert(rows.end(), values, values + whole.numel());
  }
  return rows;
}

// The error of opening or reading.
std::string refused(const Paths& paths, const json& where, const json& more = json::array()) {
  return error_of([&] { kept(paths, where, more); });
}

// The error of opening, before any row is read.
std::string refused_at_start(const Paths& paths,
                             const json& where,
                             const json& more = json::array()) {
  json all = {{"paths", paths}, {"where", json::array({where})}};
  all["columns"] = json::array({json{{"name", "i"}}});
  for (const json& column : more) {
    all["columns"].push_back(column);
  }
  return error_of([&] { DatasetProxy(make_component("dataset", "columnar", all.dump())); });
}

json one(const json& column) {
  return json::array({column});
}

std::string mixed_file(const std::string& name) {
  return (source_dir() / "tests/plugins/columnar/mixed" / name).string();
}

}  // namespace

TEST_CASE("conditions compare times of CSV files as times", "[plugins]") {
  const ScratchFolder folder;
  const Paths file = {
      folder.write("a.csv", "i,t\n0,2026-01-01T12:00:00\n1,2026-01-01 12:00:00\n2,NA\n").string()};
  const json inferred = json::array();
  const json skipping = one({{"name", "t"}, {"unit", "ms"}, {"missing", "skip_row"}});
  for (const json& more : {inferred, skipping}) {
    CHECK(kept(file, condition("t", "<", "2026-01-01 13:00"), more) == Rows{0, 1});
    CHECK(kept(file, condition("t", "==", "2026-01-01 12:00"), more) == Rows{0, 1});
    CHECK(kept(file, condition("t", "!=", "2026-01-01"), more) == Rows{0, 1});
    CHECK_THAT(refused_at_start(file, condition("t", "<", "noon"), more),
               contains_text("a.csv: the column \"t\" is text, read as times, but `where` compares "
                             "it with a string, \"noon\""));
  }
  // A number is in the column's unit: seconds if inferred, else the declared one.
  CHECK(kept(file, condition("t", ">=", 1767268800), inferred) == Rows{0, 1});
  CHECK(kept(file, condition("t", ">=", 1767268800000), skipping) == Rows{0, 1});
  CHECK(kept(file, condition("t", "<", 1767268800000), skipping).empty());
}

TEST_CASE("conditions compare numbers and booleans of CSV files by value", "[plugins]") {
  const ScratchFolder folder;
  const Paths file = {
      folder
          .write("a.csv",
                 "i,u,f,b,big\n0,9,1.5,true,1152921504606846977\n1,10,1.50,True,0x10\n"
                 "2,95,-2,FALSE,18446744073709551615\n")
          .string()};
  const json none = json::array();
  for (const json& more : {none, one({{"name", "u"}, {"type", "ids"}}), one({{"name", "u"}})}) {
    CHECK(kept(file, condition("u", ">", "9"), more) == Rows{1, 2});
    CHECK(kept(file, condition("u", ">", 9), more) == Rows{1, 2});
    CHECK(kept(file, condition("u", "<=", "9.5"), more) == Rows{0});
    CHECK_THAT(refused_at_start(file, condition("u", "==", "ten"), more),
               contains_text("the column \"u\" is text, read as numbers, but `where` compares it "
                             "with a string, \"ten\""));
  }
  for (const json& more : {none, one({{"name", "f"}, {"type", "f64"}})}) {
    CHECK(kept(file, condition("f", "==", "1.5"), more) == Rows{0, 1});
    CHECK(kept(file, condition("f", "<", "0"), more) == Rows{2});
  }
  for (const json& more : {none, one({{"name", "b"}})}) {
    CHECK(kept(file, condition("b", "==", "true"), more) == Rows{0, 1});
    CHECK(kept(file, condition("b", "==", 1), more) == Rows{0, 1});
    CHECK(kept(file, condition("b", "!=", "TRUE"), more) == Rows{2});
  }
  CHECK(kept(file, condition("big", "==", "1152921504606846977"), none) == Rows{0});
  CHECK(kept(file, condition("big", "==", "1152921504606846976"), none).empty());
  CHECK(kept(file, condition("big", "==", 16), none) == Rows{1});
  CHECK(kept(file, condition("big", ">", "1152921504606846977"), none) == Rows{2});
  // Types of ranges are declared too, so that a bad value is an error at its row.
  const Paths bad = {folder.write("b.csv", "i,u,v\n0,5,1\n1,x,1\n").string()};
  CHECK_THAT(refused(bad,
                     condition("u", ">", "3"),
                     one({{"name", "r"}, {"columns", {"u..v"}}, {"type", "f32"}})),
             contains_text("row 1: the column \"u\" is \"x\", but `where` compares it with a "
                           "number"));
}

TEST_CASE("conditions compare texts as texts if the column is text in all files", "[plugins]") {
  const ScratchFolder folder;
  const std::string digits = folder.write("a.csv", "i,s\n0,9\n1,10\n").string();
  const std::string words = folder.write("b.csv", "i,s\n2,paris\n3,NA\n").string();
  CHECK(kept({digits}, condition("s", ">", "9")) == Rows{1});
  CHECK(kept({digits, words}, condition("s", ">", "9")) == Rows{2, 3});
  CHECK(kept({words, digits}, condition("s", ">", "9")) == Rows{2, 3});
  CHECK(kept({digits}, condition("s", "<", "9"), one({{"name", "s"}, {"type", "text"}})) ==
        Rows{1});
  CHECK(kept({digits}, condition("s", "<", "9"), one({{"name", "s"}, {"hash", "farm"}})) ==
        Rows{1});
  CHECK_THAT(refused_at_start({digits, words}, condition("s", ">", 9)),
             contains_text("the column \"s\" is text, but `where` compares it with a number; write "
                           "`value` as a string"));
}

TEST_CASE("conditions compare CSV texts by the type in Parquet files", "[plugins]") {
  const ScratchFolder folder;
  const auto rows = [&](const std::string& typed, const std::string& cell, const json& where) {
    const std::string name = where.at("column");
    const std::string csv = folder.write("a.csv", name + "\n" + cell + "\n").string();
    json all = {{"columns", json::array({json{{"name", name}}})}, {"where", {where}}};
    Rows counts;
    for (const Paths& paths : {Paths{mixed_file(typed), csv}, Paths{csv, mixed_file(typed)}}) {
      all["paths"] = paths;
      all["columns"][0]["unit"] = name == "ts" ? "s" : "auto";
      DatasetProxy source(make_component("dataset", "columnar", all.dump()));
      DataStream stream(source, {.batch_size = 1000});
      stream.begin_epoch(0);
      REQUIRE(stream.next_window());
      counts.push_back(stream.loader().next()->samples);
    }
    return counts;
  };
  // time-ms.parquet has 2026-01-01 12:00:00 and a time of 1959; int.parquet has 1 and 2.
  CHECK(rows("time-ms.parquet", "2026-01-01T12:00", condition("ts", "==", "2026-01-01 12:00")) ==
        Rows{2, 2});
  CHECK(rows("int.parquet", "10", condition("c", ">=", "2")) == Rows{2, 2});
  // Booleans of Parquet compare with the same texts as those of CSV.
  json all = {{"paths", {mixed_file("bool.parquet")}}, {"columns", {{{"name", "c"}}}}};
  all["where"] = {condition("c", "==", "true")};
  DatasetProxy source(make_component("dataset", "columnar", all.dump()));
  DataStream stream(source, {.batch_size = 1000});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  CHECK(stream.loader().next()->samples == 1);
}

TEST_CASE("conditions on KEY=VALUE folders compare by the meaning of all folders", "[plugins]") {
  const ScratchFolder folder;
  const auto place = [&](const std::string& key, const std::string& value, int row) {
    folder.write(key + "s/" + key + "=" + value + "/a.csv", "i\n" + std::to_string(row) + "\n");
    return (folder.path() / (key + "s")).string();
  };
  std::string hours;
  for (const int hour : {7, 8, 10}) {
    hours = place("hour", std::to_string(hour), hour);
  }
  const Rows all = {10, 7, 8};  // folders are listed by name
  for (const json& more : {json::array(), one({{"name", "hour"}, {"type", "ids"}})}) {
    CHECK(kept({hours}, condition("hour", ">=", "7"), more) == all);
    CHECK(kept({hours}, condition("hour", ">", 7.5), more) == Rows{10, 8});
    CHECK_THAT(refused_at_start({hours}, condition("hour", "==", "noon"), more),
               contains_text("the column \"hour\" is text, read as numbers, but"));
  }
  CHECK(kept({hours}, condition("hour", "<", "2"), one({{"name", "hour"}, {"type", "text"}})) ==
        Rows{10});

  place("dt", "2026-01-01", 0);
  place("dt", "2026-01-02", 1);
  const std::string days = place("dt", "__HIVE_DEFAULT_PARTITION__", 2);
  CHECK(kept({days}, condition("dt", ">=", "2026-01-02 00:00")) == Rows{1});
  CHECK(kept({days}, condition("dt", "<", "2026-01-01 12:00")) == Rows{0});
  CHECK(kept({days}, condition("dt", "==", 20455)) == Rows{1});
  CHECK(kept({days}, condition("dt", "!=", "2026-01-02")) == Rows{0});
  const json seconds = one({{"name", "dt"}, {"unit", "s"}, {"missing", "skip_row"}});
  CHECK(kept({days}, condition("dt", ">", 1767225600), seconds) == Rows{1});

  place("region", "1", 0);
  place("region", "10", 1);
  place("region", "9", 2);
  const std::string regions = place("region", "US", 3);
  CHECK(kept({regions}, condition("region", "<", "9")) == Rows{0, 1});
  CHECK(kept({regions}, condition("region", "!=", "1")) == Rows{1, 2, 3});
}

TEST_CASE("a value of a later file that a condition cannot compare is an error", "[plugins]") {
  const ScratchFolder folder;
  const std::string good = folder.write("x/k=1/a.csv", "i,t\n0,2026-01-01\n").string();
  const std::string bad = folder.write("x/k=1/b.csv", "i,t\n1,noon\n").string();
  const json first = {{"check", "first"}};
  CHECK_THAT(error_of([&] {
               kept({good, bad}, condition("t", ">", "2025-12-31"), json::array(), first);
             }),
             contains_text("b.csv: row group 0, row 0: the column \"t\" is \"noon\", but `where` "
                           "compares it with a time"));
}

TEST_CASE("rows of files that lack a column match no condition on it", "[plugins]") {
  const ScratchFolder folder;
  const std::string old = folder.write("a.csv", "i\n1\n2\n").string();
  const std::string later = folder.write("b.csv", "i,n\n3,7\n4,8\n").string();
  const json absent = {
      {"name", "n"}, {"type", "ids"}, {"missing", "fill"}, {"fill", -1}, {"absent", "missing"}};
  for (const Paths& paths : {Paths{old, later}, Paths{later, old}}) {
    CHECK(kept(paths, condition("n", "==", 7), one(absent)) == Rows{3});
    CHECK(kept(paths, condition("n", "!=", "7"), one(absent)) == Rows{4});
  }
  const std::string parquet = mixed_file("int.parquet");  // column c only
  const std::string csv = folder.write("c.csv", "c,n\n5,7\n").string();
  json all = {{"paths", {parquet, csv}}, {"where", {condition("n", "<", 9)}}};
  all["columns"] = {{{"name", "c"}}, absent};
  DatasetProxy source(make_component("dataset", "columnar", all.dump()));
  DataStream stream(source, {.batch_size = 1000});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  CHECK(stream.loader().next()->find("c")->item<int64_t>() == 5);

  CHECK_THAT(refused_at_start({later, old}, condition("n", "==", 7)),
             contains_text("a.csv: no column \"n\", which `where` refers to"));
}

}  // namespace tenon
