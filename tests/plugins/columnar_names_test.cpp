// SPDX-License-Identifier: Apache-2.0
//
// Columns and files of equal names, conditions on columns of dictionaries, and files and windows
// that are skipped. The files are those of columnar/make_mixed_files.py, and texts made here.
#include "host/data/data_stream.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/data/loader.hpp"
#include "host/plugin/stateful_proxy.hpp"
#include "host/tensor/state/state_bridge.hpp"
#include "host/tensor/state/state_tree.hpp"

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
using Integers = std::vector<int64_t>;
using Names = std::vector<std::string>;

// A dataset of columnar files, and a walk through its windows.
class Walk {
 public:
  Walk(const Names& paths, const json& column, const json& options = json::object())
      : source_(make_component("dataset", "columnar", text_of(paths, column, options))),
        stream_(source_, {.batch_size = 1000}) {}

  void begin() { stream_.begin_epoch(0); }
  // Also requires that all windows can be read.
  void begin_checked() {
    begin();
    stream_.check_windows();
  }
  std::vector<std::string> left_out() { return source_.report().left_out; }

  // The first column of each window that is left.
  std::vector<Integers> rest(const std::string& field) {
    std::vector<Integers> windows;
    while (stream_.next_window()) {
      windows.emplace_back();
      while (const std::optional<Batch> batch = stream_.loader().next()) {
        const at::Tensor* const tensor = batch->find(field);
        REQUIRE(tensor != nullptr);
        const at::Tensor whole = tensor->contiguous();
        const auto* const values = whole.const_data_ptr<int64_t>();
        windows.back().insert(windows.back().end(), values, values + whole.numel());
      }
    }
    return windows;
  }

  StateTree saved() const {
    StateTree state;
    stream_.snapshot(state, "data");
    const auto proxy = StatefulProxy::of(source_.instance());
    REQUIRE(proxy.has_value());
    StateWriter writer(state, "dataset", proxy->version(), proxy->host());
    proxy->snapshot(*writer.abi());
    return state;
  }

  void load(const StateTree& state) {
    const auto proxy = StatefulProxy::of(source_.instance());
    REQUIRE(proxy.has_value());
    StateReader reader(state, "dataset", proxy->host());
    proxy->load(*reader.abi());
    stream_.load(state, "data");
  }

 private:
  static std::string text_of(const Names& paths, const json& column, json options) {
    options["paths"] = paths;
    options["columns"] = json::array({column});
    return options.dump();
  }

  DatasetProxy source_;
  DataStream stream_;
};

std::string mixed_path(const std::string& name) {
  return (source_dir() / "tests/plugins/columnar/mixed" / name).string();
}

// The error of opening a dataset with this column.
std::string refusal(const std::string& path,
                    const json& column,
                    const json& options = json::object()) {
  return error_of([&] { Walk(Names{path}, column, options); });
}

json where(const std::string& column, const std::string& op, const json& value) {
  return {{"where", json::array({json{{"column", column}, {"op", op}, {"value", value}}})}};
}

const json kByFiles = {{"windows", {{"by", "files"}}}};

}  // namespace

TEST_CASE("conditions compare the words of dictionaries of any layout", "[plugins]") {
  const auto kept = [](const std::string& column, const std::string& op, const std::string& text) {
    Walk walk({mixed_path("words.feather")}, {{"name", "c"}}, where(column, op, text));
    walk.begin();
    return walk.rest("c").at(0);
  };
  for (const std::string column : {"view", "fixed", "runs"}) {
    CAPTURE(column);
    const std::string second = column == "fixed" ? "cd" : "longer than twelve bytes";
    CHECK(kept(column, "==", "ab") == Integers{1, 3});
    CHECK(kept(column, "==", second) == Integers{2});
    CHECK(kept(column, "!=", "ab") == Integers{2});  // a null never matches
  }
}

TEST_CASE("columns and fields of one name are an error if they are used", "[plugins]") {
  const std::string path = mixed_path("equal-names.feather");
  const auto twice = [&](const std::string& name) {
    return contains_text(path + ": 2 columns are named \"" + name + "\"");
  };
  CHECK_THAT(refusal(path, {{"name", "t"}}), twice("t"));
  CHECK_THAT(refusal(path, {{"name", "s.a"}}), twice("s.a"));
  CHECK_THAT(refusal(path, {{"name", "t.a"}}), twice("t"));
  CHECK_THAT(refusal(path, {{"name", "u.a"}}), twice("u"));
  CHECK_THAT(refusal(path, {{"name", "v.x"}}), twice("v.x"));
  CHECK_THAT(refusal(path, {{"name", "v.x.a"}}), twice("v.x"));
  CHECK_THAT(refusal(path, {{"name", "r"}, {"columns", {"s..v"}}}), twice("t"));
  CHECK_THAT(
      refusal(path, {{"name", "t.a"}, {"type", "ids"}, {"missing", "fill"}, {"absent", "missing"}}),
      twice("t"));
  CHECK_THAT(refusal(path, {{"name", "s.b"}}, where("s.a", "==", 1)), twice("s.a"));
  CHECK_THAT(refusal(path, {{"name", "s.b"}}, where("t.a", "==", 1)), twice("t"));

  Walk walk({path}, {{"name", "b"}, {"column", "s.b"}});
  walk.begin();
  CHECK(walk.rest("b") == std::vector<Integers>{{4, 5, 6}});

  const ScratchFolder folder;
  const std::string csv = folder.write("a.csv", "a,b,b,c\n1,2,3,4\n").string();
  CHECK_THAT(refusal(csv, {{"name", "r"}, {"columns", {"a..c"}}}),
             contains_text("a.csv: 2 columns are named \"b\""));
}

TEST_CASE("equal files of two folders are windows of their own", "[plugins]") {
  const ScratchFolder folder;
  folder.write("a/x.csv", "u\n1\n");
  folder.write("b/x.csv", "u\n2\n");
  const std::string a = (folder.path() / "a").string();
  const std::string b = (folder.path() / "b").string();
  const auto windows = [](const Names& paths) {
    Walk walk(paths, {{"name", "u"}}, kByFiles);
    walk.begin();
    return walk.rest("u");
  };
  CHECK(windows({a, b}) == std::vector<Integers>{{1}, {2}});
  CHECK(windows({a + "/x.csv", b + "/x.csv"}) == std::vector<Integers>{{1}, {2}});
  CHECK(windows({a + "/*.csv", b + "/*.csv"}) == std::vector<Integers>{{1}, {2}});
  CHECK(windows({a, a + "/x.csv", a + "/*.csv"}) == std::vector<Integers>{{1}});  // one file

  SECTION("also in a resumed run") {
    Walk first({a, b}, {{"name", "u"}}, kByFiles);
    first.begin();
    first.rest("u");
    const StateTree state = first.saved();
    folder.write("a/y.csv", "u\n3\n");
    folder.write("b/y.csv", "u\n4\n");
    Walk second({a, b}, {{"name", "u"}}, kByFiles);
    second.load(state);
    CHECK(second.rest("u") == std::vector<Integers>{{3}, {4}});
  }
  SECTION("also if folders are added and left out") {
    Walk first({a, b}, {{"name", "u"}}, kByFiles);
    first.begin();
    first.rest("u");
    const StateTree state = first.saved();
    folder.write("c/x.csv", "u\n5\n");
    Walk second({b, (folder.path() / "c").string()}, {{"name", "u"}}, kByFiles);
    second.load(state);
    CHECK(second.rest("u") == std::vector<Integers>{{5}});
  }
  SECTION("also if all folders have moved") {
    Walk first({a, b}, {{"name", "u"}}, kByFiles);
    first.begin();
    first.rest("u");
    const StateTree state = first.saved();
    folder.write("new/a/x.csv", "u\n1\n");
    folder.write("new/b/x.csv", "u\n2\n");
    folder.write("new/b/y.csv", "u\n6\n");
    const std::string now = (folder.path() / "new").string();
    Walk second({now + "/a", now + "/b"}, {{"name", "u"}}, kByFiles);
    second.load(state);
    CHECK(second.rest("u") == std::vector<Integers>{{6}});
  }
}

TEST_CASE("files in checkpoints of earlier releases are not read again", "[plugins]") {
  const ScratchFolder folder;
  folder.write("a/x.csv", "u\n1\n");
  folder.write("b/y.csv", "u\n2\n");
  const Names paths = {(folder.path() / "a").string(), (folder.path() / "b").string()};
  StateTree old;
  {
    Walk walk(paths, {{"name", "u"}}, kByFiles);
    walk.begin();
    REQUIRE(walk.rest("u") == std::vector<Integers>{{1}, {2}});
    const StateTree state = walk.saved();
    for (const auto& [name, entry] : state.entries()) {
      if (name == "dataset/windows/0") {
        // What an earlier release saved: the marks do not depend on folders.
        old.put_bytes(name,
                      "16493080413715347333 0 1 2837275963926174347 x.csv\n"
                      "4477959249112187918 0 1 9107261557630319464 y.csv\n");
      } else if (!name.starts_with("dataset/folders/")) {
        old.put_entry(name, entry);
      }
    }
    for (const auto& [name, version] : state.versions()) {
      old.set_version(name, version);
    }
    REQUIRE(old.find("dataset/windows/0") != nullptr);
  }
  folder.write("b/z.csv", "u\n3\n");
  Walk second(paths, {{"name", "u"}}, kByFiles);
  second.load(old);
  CHECK(second.rest("u") == std::vector<Integers>{{3}});

  // The old marks stay old when they are saved again.
  const StateTree state = second.saved();
  folder.write("a/z.csv", "u\n4\n");
  Walk third(paths, {{"name", "u"}}, kByFiles);
  third.load(state);
  CHECK(third.rest("u") == std::vector<Integers>{{4}});
}

TEST_CASE("a column that no file has yet is missing, if windows may bring it", "[plugins]") {
  const ScratchFolder folder;
  folder.write("x.csv", "u\n1\n2\n");
  const Names paths = {folder.path().string()};
  const json column = {
      {"name", "v"}, {"type", "ids"}, {"missing", "fill"}, {"fill", -1}, {"absent", "missing"}};
  json hashed = column;
  hashed.erase("type");
  hashed["hash"] = "farm";
  for (const json& each : {column, hashed}) {
    INFO(each);
    Walk walk(paths, each, kByFiles);
    walk.begin();
    CHECK(walk.rest("v") == std::vector<Integers>{{-1, -1}});
  }
  CHECK_THAT(refusal(paths[0], column), contains_text("no column \"v\", and no other file has it"));
  json open = column;
  open.erase("type");
  CHECK_THAT(refusal(paths[0], open, kByFiles), contains_text("set `type` to begin before"));

  // A followed folder may bring the column.
  const json followed = {{"windows", {{"by", "files"}, {"follow", {{"poll_seconds", 0.01}}}}}};
  Walk walk(paths, hashed, followed);
  walk.begin();
  CHECK(walk.rest("v") == std::vector<Integers>{{-1, -1}});
  folder.write("z.csv", "u,v\n3,seven\n");
  const std::vector<Integers> brought = walk.rest("v");
  Walk whole(paths, hashed, kByFiles);
  whole.begin();
  const std::vector<Integers> expected = whole.rest("v");
  REQUIRE(expected.size() == 2);
  CHECK(brought == std::vector<Integers>{expected[1]});
  CHECK(expected[1].at(0) != -1);
  std::filesystem::remove(folder.path() / "z.csv");

  // The next command finds the column.
  folder.write("y.csv", "u,v\n3,7\n");
  Walk later(paths, column, kByFiles);
  later.begin();
  CHECK(later.rest("v") == std::vector<Integers>{{-1, -1}, {7}});
}

TEST_CASE("fields of structs that are all null in a file are null there", "[plugins]") {
  for (const std::string ending : {".parquet", ".feather"}) {
    CAPTURE(ending);
    // In either order, so that either file is the first.
    for (const bool is_null_first : {false, true}) {
      CAPTURE(is_null_first);
      Names paths = {mixed_path("struct" + ending), mixed_path("struct-null" + ending)};
      if (is_null_first) {
        std::swap(paths[0], paths[1]);
      }
      const auto read = [&](json column, const std::string& field) {
        column["name"] = "v";
        column["missing"] = "fill";
        column["fill"] = -1;
        Walk walk(paths, column, kByFiles);
        walk.begin();
        std::vector<Integers> windows = walk.rest(field);
        if (is_null_first) {
          std::swap(windows.at(0), windows.at(1));
        }
        return windows;
      };
      CHECK(read({{"column", "user.id"}}, "v") == std::vector<Integers>{{5, 6, -1}, {-1, -1, -1}});
      const json item = {{"column", "ev.item"}};
      CHECK(read(item, "v.values") == std::vector<Integers>{{1, 2, 3}, {}});
      CHECK(read(item, "v.offsets") == std::vector<Integers>{{0, 1, 1, 3}, {0, 0, 0, 0}});
    }
    json options = where("user.id", "==", 6);
    options.update(kByFiles);
    options["empty_windows"] = "skip";
    Walk walk({mixed_path("struct-null" + ending), mixed_path("struct" + ending)},
              {{"name", "v"}, {"column", "user.id"}},
              options);
    walk.begin();
    CHECK(walk.rest("v") == std::vector<Integers>{{}, {6}});  // a null never matches
    const std::string alone = mixed_path("struct-null" + ending);
    CHECK_THAT(refusal(alone, {{"name", "v"}, {"column", "user.id"}}),
               contains_text("has no values in any file"));
    CHECK_THAT(refusal(alone, {{"name", "v"}, {"column", "nobody.id"}}),
               contains_text("no column \"nobody.id\""));
  }
}

TEST_CASE("fields of structs in views of lists are columns", "[plugins]") {
  for (const std::string list : {"ev", "large"}) {
    const auto read = [&](const std::string& field) {
      Walk walk({mixed_path("struct-views.feather")}, {{"name", "v"}, {"column", list + ".item"}});
      walk.begin();
      return walk.rest(field).at(0);
    };
    CHECK(read("v.values") == Integers{2, 3, 1});
    CHECK(read("v.offsets") == Integers{0, 2, 2, 3});
  }
}

TEST_CASE("windows by time are skipped by time, however it is written", "[plugins]") {
  const ScratchFolder folder;
  for (const std::string month : {"1", "2", "10", "11"}) {
    folder.write("y=2026/m=" + month + "/a.csv", "u\n" + month + "\n");
  }
  const Names paths = {folder.path().string()};
  const auto options = [](const std::string& key, const std::string& value) {
    return json{{"windows", {{"by", "time"}, {"pattern", "y=%Y/m=%m"}, {key, value}}}};
  };
  const auto months = [&](const std::string& key, const std::string& value) {
    Walk walk(paths, {{"name", "u"}}, options(key, value));
    walk.begin();
    Integers all;
    for (const Integers& window : walk.rest("u")) {
      all.insert(all.end(), window.begin(), window.end());
    }
    return all;
  };
  CHECK(months("skip_before", "2026-2") == Integers{2, 10, 11});
  CHECK(months("skip_before", "2026-02") == Integers{2, 10, 11});
  CHECK(months("skip_before", "2026-1-8") == Integers{2, 10, 11});
  CHECK(months("skip_before", "2026-10-01 00:00") == Integers{10, 11});
  CHECK(months("skip_before", "2026") == Integers{1, 2, 10, 11});
  CHECK(months("skip_after", "2026-2") == Integers{1, 2});
  CHECK(months("skip_after", "2026-10-1T7") == Integers{1, 2, 10});
  CHECK(months("skip_after", "2026") == Integers{1, 2, 10, 11});
  CHECK(months("skip_after", "2025-12-31") == Integers{});
  for (const std::string value : {"20260201", "February", "2026-13", "2026-02-", "2026-2-30"}) {
    CHECK_THAT(refusal(paths[0], {{"name", "u"}}, options("skip_before", value)),
               contains_text("`windows` has `skip_before` \"" + value + "\"; expected a time"));
  }
}

TEST_CASE("a file of another type ends the run, with a way past the file that came first",
          "[plugins]") {
  const ScratchFolder folder;
  const std::vector<std::pair<std::string, std::string>> days = {
      {"2025-12-31", "text"}, {"2026-01-01", "int"}, {"2026-01-02", "int"}};
  for (const auto& [day, name] : days) {
    std::filesystem::create_directories(folder.path() / ("dt=" + day));
    std::filesystem::copy_file(mixed_path(name + ".parquet"),
                               folder.path() / ("dt=" + day) / "a.parquet");
  }
  const Names paths = {folder.path().string()};
  for (const char* const bad_files : {"fail", "skip", "wait"}) {
    CAPTURE(bad_files);
    json options = {
        {"windows", {{"by", "time"}, {"pattern", "dt=%Y-%m-%d"}, {"bad_files", bad_files}}}};
    Walk walk(paths, {{"name", "c"}}, options);
    const std::string wrong = error_of([&] { walk.begin_checked(); });
    CHECK_THAT(wrong, contains_text("window 2026-01-01 cannot be read: "));
    CHECK_THAT(wrong, contains_text("the column \"c\" is int64"));
    CHECK_THAT(wrong, contains_text("dt=2025-12-31/a.parquet, where it is string"));
    CHECK_THAT(wrong, contains_text("window 2025-12-31 determines the type"));
    CHECK_THAT(wrong, contains_text("skip it with `windows.skip_before`"));

    Walk declared(paths, {{"name", "c"}, {"type", "ids"}}, options);
    CHECK_THAT(error_of([&] { declared.begin_checked(); }),
               contains_text("window 2025-12-31 cannot be read: "));

    options["windows"]["skip_before"] = "2026-01-01";
    Walk skipping(paths, {{"name", "c"}}, options);
    skipping.begin_checked();
    CHECK(skipping.rest("c") == std::vector<Integers>{{1, 2}, {1, 2}});
    CHECK(skipping.left_out().empty());
  }
}

TEST_CASE("files that are skipped because they are corrupt are not late", "[plugins]") {
  const ScratchFolder folder;
  folder.write("dt=2026-01-01/a.csv", "u\n1\n");
  folder.write("dt=2026-01-01/b.csv", "u\n\"2\n");
  const Names paths = {folder.path().string()};
  const auto options = [](const std::string& by) {
    json windows = {{"by", by}, {"bad_files", "skip"}};
    if (by == "time") {
      windows["pattern"] = "dt=%Y-%m-%d";
    } else {
      windows["count"] = 2;
    }
    return json{{"windows", windows}};
  };
  for (const std::string by : {"time", "files"}) {
    CAPTURE(by);
    std::filesystem::remove_all(folder.path() / "dt=2026-01-02");
    Walk first(paths, {{"name", "u"}}, options(by));
    first.begin_checked();
    CHECK(first.rest("u") == std::vector<Integers>{{1}});
    REQUIRE(first.left_out().size() == 1);
    CHECK_THAT(first.left_out()[0], contains_text("b.csv is skipped, in window"));
    const StateTree state = first.saved();
    folder.write("dt=2026-01-02/a.csv", "u\n3\n");
    folder.write("dt=2026-01-02/b.csv", "u\n4\n");
    Walk second(paths, {{"name", "u"}}, options(by));
    second.load(state);
    CHECK(second.rest("u") == std::vector<Integers>{{3, 4}});
    CHECK(second.left_out().size() == 1);
  }
}

TEST_CASE("a corrupt file does not end a run without windows that skips it", "[plugins]") {
  const ScratchFolder folder;
  folder.write("a.csv", "u\n\"1\n");
  folder.write("b.csv", "u\n2\n");
  const Names paths = {folder.path().string()};
  Walk walk(paths, {{"name", "u"}}, {{"windows", {{"bad_files", "skip"}}}});
  walk.begin();
  CHECK(walk.rest("u") == std::vector<Integers>{{2}});
  CHECK(walk.left_out().size() == 1);
  CHECK_THAT(refusal(paths[0], {{"name", "u"}}), contains_text("a.csv:"));
}

TEST_CASE("files of CSV that are something else are named so", "[plugins]") {
  using namespace std::string_literals;
  const ScratchFolder folder;
  const auto error = [&](const std::string& text) {
    return refusal(folder.write("a.csv", text).string(), {{"name", "u"}});
  };
  CHECK_THAT(error("\x1f\x8b\x08\0\0\0"s),
             contains_text("a.csv is compressed by gzip; decompress it"));
  CHECK_THAT(error("\xff\xfeu\0\n\0"
                   "1\0\n\0"s),
             contains_text("a.csv is in UTF-16; convert it to UTF-8"));
  // Names may begin as other formats do.
  Walk walk({folder.write("b.csv", "PAR1,BZh\n1,2\n").string()}, {{"name", "PAR1"}});
  walk.begin();
  CHECK(walk.rest("PAR1") == std::vector<Integers>{{1}});
}

TEST_CASE("a pattern that matches folders only is named", "[plugins]") {
  const ScratchFolder folder;
  folder.write("dt=2026-01-05/a.csv", "u\n1\n");
  const std::string folders = (folder.path() / "dt=2026-01-0[5-9]").string();
  CHECK_THAT(refusal(folders, {{"name", "u"}}),
             contains_text("no file matches `paths`: " + folders + " matches folders only; add"));
  const std::string none = (folder.path() / "dt=2025*/*.csv").string();
  CHECK_THAT(refusal(none, {{"name", "u"}}), contains_text("no file matches `paths`: " + none));
}

TEST_CASE("a column of a file comes before a folder of its name", "[plugins]") {
  const ScratchFolder folder;
  const std::string path = folder.write("u=9/a.csv", "u\n1\n").string();
  Walk walk({path}, {{"name", "u"}});
  walk.begin();
  CHECK(walk.rest("u") == std::vector<Integers>{{1}});
}

}  // namespace tenon
