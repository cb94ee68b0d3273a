// SPDX-License-Identifier: Apache-2.0
//
// Shapes and formulas of the files are those of columnar/make_files.py.
#include "host/data/data_stream.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/data/loader.hpp"
#include "host/embedding/parquet_module.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace {

using nlohmann::json;

constexpr int64_t kRows = 100;  // of basic.*

std::string file(const std::string& name) {
  return (tenon::source_dir() / "tests/plugins/columnar" / name).string();
}

tenon::DatasetProxy open(const std::vector<std::string>& paths,
                         const json& columns,
                         json options = {}) {
  options = options.is_null() ? json::object() : options;
  options["paths"] = paths;
  options["columns"] = columns;
  return tenon::DatasetProxy(tenon::make_component("dataset", "columnar", options.dump()));
}

std::string problem(const std::vector<std::string>& paths, const json& columns, json options = {}) {
  return tenon::error_of([&] { open(paths, columns, std::move(options)); });
}

template <class T>
std::vector<T> values(const tenon::Batch& batch, const std::string& field) {
  const at::Tensor* const tensor = batch.find(field);
  REQUIRE(tensor != nullptr);
  const at::Tensor whole = tensor->contiguous();
  return {whole.const_data_ptr<T>(), whole.const_data_ptr<T>() + whole.numel()};
}

// A ragged column as lists.
template <class T>
std::vector<std::vector<T>> lists(const tenon::Batch& batch, const std::string& column) {
  const auto all = values<T>(batch, column + ".values");
  const auto offsets = values<int64_t>(batch, column + ".offsets");
  REQUIRE(offsets.size() == static_cast<size_t>(batch.samples) + 1);
  REQUIRE(offsets.front() == 0);
  REQUIRE(offsets.back() == static_cast<int64_t>(all.size()));
  std::vector<std::vector<T>> out;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    REQUIRE(offsets[i] <= offsets[i + 1]);
    out.emplace_back(all.begin() + offsets[i], all.begin() + offsets[i + 1]);
  }
  return out;
}

// All of the first window, or of the whole, as one batch.
tenon::Batch read_all(tenon::DatasetProxy& source) {
  tenon::DataStream stream(source, {.batch_size = 100000});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  std::optional<tenon::Batch> batch = stream.loader().next();
  REQUIRE(batch.has_value());
  return std::move(*batch);
}

std::string read_problem(const std::vector<std::string>& paths,
                         const json& columns,
                         json options = {}) {
  return tenon::error_of([&] {
    tenon::DatasetProxy source = open(paths, columns, std::move(options));
    read_all(source);
  });
}

const std::vector<std::string> kFormats = {"basic.parquet", "basic.orc", "basic.feather"};

}  // namespace

TEST_CASE("columns with one value a row come in their types from all formats", "[plugins]") {
  for (const std::string name : {"basic.parquet", "basic.orc", "basic.feather", "basic.csv.gz"}) {
    CAPTURE(name);
    auto source = open({file(name)},
                       {{{"name", "user_id"}},
                        {{"name", "age"}},
                        {{"name", "cost"}, {"column", "price"}, {"type", "f64"}},
                        {{"name", "label"}},
                        {{"name", "flag"}},
                        {{"name", "both"}, {"columns", {"price", "label"}}, {"type", "f32"}}});
    const tenon::Batch batch = read_all(source);
    REQUIRE(batch.samples == kRows);
    CHECK(batch.find("both")->sizes() == at::IntArrayRef({kRows, 2}));
    const auto ids = values<int64_t>(batch, "user_id");
    const auto ages = values<int64_t>(batch, "age");
    const auto costs = values<double>(batch, "cost");
    const auto labels = values<float>(batch, "label");
    const auto flags = values<int64_t>(batch, "flag");
    const auto both = values<float>(batch, "both");
    bool is_right = true;
    for (int64_t i = 0; i < kRows; ++i) {
      const auto at = static_cast<size_t>(i);
      is_right = is_right && ids[at] == 1000 + i && ages[at] == i % 50 &&
                 costs[at] == 0.25 * static_cast<double>(i) && labels[at] == (i % 3 == 0 ? 1 : 0) &&
                 flags[at] == (i % 2 == 0 ? 1 : 0) &&
                 both[2 * at] == 0.25F * static_cast<float>(i) && both[2 * at + 1] == labels[at];
    }
    CHECK(is_right);
  }
}

TEST_CASE("lists come as values and offsets, with their weights", "[plugins]") {
  for (const std::string& name : kFormats) {
    CAPTURE(name);
    auto source = open({file(name)},
                       {{{"name", "clicks"}, {"weights", "times"}},
                        {{"name", "bag"}},
                        {{"name", "pair"}, {"length", 2}},
                        {{"name", "sessions"}}});
    const tenon::Batch batch = read_all(source);
    const auto clicks = lists<int64_t>(batch, "clicks");
    const auto bag = lists<int64_t>(batch, "bag");
    const auto weights = values<float>(batch, "clicks.weights");
    const auto bag_weights = values<float>(batch, "bag.weights");
    const auto pairs = values<float>(batch, "pair");
    CHECK(batch.find("pair")->sizes() == at::IntArrayRef({kRows, 2}));
    size_t click = 0;
    size_t item = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      const auto at = static_cast<size_t>(i);
      std::vector<int64_t> wanted;
      for (int64_t j = 0; j < i % 4; ++j) {
        wanted.push_back(10 * i + j);
        CHECK(weights.at(click++) == 0.5F * static_cast<float>(j) + static_cast<float>(i));
      }
      CHECK(clicks.at(at) == wanted);
      wanted.clear();
      for (int64_t j = 0; j < i % 3; ++j) {
        wanted.push_back(5 * i + j);
        CHECK(bag_weights.at(item++) == static_cast<float>(j) + 0.5F);
      }
      CHECK(bag.at(at) == wanted);
      CHECK(pairs.at(2 * at) == static_cast<float>(i));
      CHECK(pairs.at(2 * at + 1) == -static_cast<float>(i));
    }
    // Two levels: sessions of a row, and what each has.
    const auto outer = values<int64_t>(batch, "sessions.offsets");
    const auto inner = values<int64_t>(batch, "sessions.offsets.1");
    const auto all = values<int64_t>(batch, "sessions.values");
    REQUIRE(outer.back() + 1 == static_cast<int64_t>(inner.size()));
    REQUIRE(inner.back() == static_cast<int64_t>(all.size()));
    CHECK(outer[5] - outer[4] == 1);  // row 4 has one session, and nothing in it
    CHECK(outer[6] - outer[5] == 2);  // row 5 has two, of 0 and 1
    CHECK(all.at(static_cast<size_t>(inner.at(static_cast<size_t>(outer[5]) + 1))) == 510);
  }
}

TEST_CASE("strings come as text or as hashes", "[plugins]") {
  for (const std::string& name : kFormats) {
    CAPTURE(name);
    auto source = open({file(name)},
                       {{{"name", "name"}},
                        {{"name", "tags"}},
                        {{"name", "farm"}, {"column", "name"}, {"hash", "farm"}},
                        {{"name", "murmur"}, {"column", "tags"}, {"hash", "murmur64"}}});
    CHECK((*source.info().schema)[0].flags == TENON_FIELD_TEXT);
    const tenon::Batch batch = read_all(source);
    const auto names = lists<uint8_t>(batch, "name");
    CHECK(std::string(names[42].begin(), names[42].end()) == "user-42");
    const auto rows = values<int64_t>(batch, "tags.offsets");
    const auto words = values<int64_t>(batch, "tags.offsets.1");
    const auto bytes = values<uint8_t>(batch, "tags.values");
    const auto word = static_cast<size_t>(rows[43]) + 2;  // the last of three
    CHECK(std::string(bytes.begin() + words[word], bytes.begin() + words[word + 1]) == "tt43");
    CHECK(values<int64_t>(batch, "farm").size() == kRows);
    CHECK(lists<int64_t>(batch, "murmur")[43].size() == 3);
  }
}

TEST_CASE("hashes of strings are those of FarmHash and MurmurHash", "[plugins]") {
  // From the library pyfarmhash 0.4 and from libstdc++'s std::_Hash_bytes, of the first n letters
  // of a..za..z...
  struct Golden {
    size_t size;
    uint64_t farm;
    uint64_t murmur;
  };
  const std::vector<Golden> goldens = {
      {0, 11160318154034397263ULL, 0ULL},
      {1, 12917804110809363939ULL, 510903276987443985ULL},
      {3, 2640714258260161385ULL, 11297775770902552315ULL},
      {5, 13992479962126222548ULL, 1261737182030650295ULL},
      {9, 3687479239766293058ULL, 14535887056033573570ULL},
      {17, 11394395984755135400ULL, 1124046681825084455ULL},
      {33, 2004761416539416594ULL, 3677849976342211410ULL},
      {65, 2608948203458330154ULL, 18124246833463518486ULL},
      {129, 11176984671211548628ULL, 16050383949422404197ULL},
      {200, 2725806534515858166ULL, 11156343041956876469ULL},
  };
  const tenon::ScratchFolder folder;
  std::string csv = "text\n";
  for (const Golden& golden : goldens) {
    std::string text;
    for (size_t i = 0; i < golden.size; ++i) {
      text += static_cast<char>('a' + i % 26);
    }
    csv += "\"" + text + "\"\n";
  }
  const std::string path = folder.write("a.csv", csv).string();
  auto source = open({path},
                     {{{"name", "farm"}, {"column", "text"}, {"hash", "farm"}},
                      {{"name", "murmur"}, {"column", "text"}, {"hash", "murmur64"}}});
  const tenon::Batch batch = read_all(source);
  const auto farm = values<int64_t>(batch, "farm");
  const auto murmur = values<int64_t>(batch, "murmur");
  REQUIRE(farm.size() == goldens.size());
  for (size_t i = 0; i < goldens.size(); ++i) {
    CAPTURE(goldens[i].size);
    CHECK(static_cast<uint64_t>(farm[i]) == goldens[i].farm);
    CHECK(static_cast<uint64_t>(murmur[i]) == goldens[i].murmur);
  }
}

TEST_CASE("nulls are errors, are filled, or leave their rows out", "[plugins]") {
  for (const std::string name : {"basic.parquet", "basic.orc", "basic.feather", "basic.csv.gz"}) {
    CAPTURE(name);
    const std::string wrong = read_problem({file(name)}, json::array({json{{"name", "maybe"}}}));
    CHECK(wrong.find("basic") != std::string::npos);
    CHECK(wrong.find("row group 0, row 3: the column \"maybe\" has a null") != std::string::npos);
    auto filled = open({file(name)},
                       json::array({json{{"name", "maybe"}, {"missing", "fill"}, {"fill", -1}}}));
    const auto all = values<int64_t>(read_all(filled), "maybe");
    REQUIRE(all.size() == kRows);
    CHECK(all[3] == -1);
    CHECK(all[4] == 4);
    auto skipped =
        open({file(name)}, {{{"name", "maybe"}, {"missing", "skip_row"}}, {{"name", "user_id"}}});
    const tenon::Batch batch = read_all(skipped);
    CHECK(batch.samples == 86);
    CHECK(values<int64_t>(batch, "maybe")[3] == 4);
    CHECK(values<int64_t>(batch, "user_id")[3] == 1004);
  }
}

TEST_CASE("null lists and null entries obey the same policy", "[plugins]") {
  for (const std::string& name : kFormats) {
    CAPTURE(name);
    const std::string wrong = read_problem({file(name)}, json::array({json{{"name", "holes"}}}));
    CHECK(wrong.find("row 2: the column \"holes\" has a null") != std::string::npos);
    auto filled = open({file(name)},
                       json::array({json{{"name", "holes"}, {"missing", "fill"}, {"fill", 7}}}));
    const auto all = lists<int64_t>(read_all(filled), "holes");
    CHECK(all[2].empty());
    CHECK(all[4] == std::vector<int64_t>{4, 7});
    auto skipped =
        open({file(name)}, json::array({json{{"name", "holes"}, {"missing", "skip_row"}}}));
    CHECK(read_all(skipped).samples == 60);
  }
}

TEST_CASE("conditions leave rows out, and row groups where none fits are not read", "[plugins]") {
  const json ids = json::array({json{{"name", "user_id"}}});
  for (const std::string name : {"basic.parquet", "basic.orc", "basic.feather", "basic.csv.gz"}) {
    CAPTURE(name);
    auto source = open({file(name)},
                       ids,
                       {{"where",
                         json::array({json{{"column", "user_id"}, {"op", ">="}, {"value", 1065}},
                                      json{{"column", "price"}, {"op", "<"}, {"value", 22.5}}})}});
    const auto found = values<int64_t>(read_all(source), "user_id");
    REQUIRE(found.size() == 25);
    CHECK(found.front() == 1065);
    CHECK(found.back() == 1089);
  }
  auto text = open({file("basic.parquet")},
                   ids,
                   {{"where", json::array({json{{"column", "city"}, {"value", "city-2"}}})}});
  CHECK(values<int64_t>(read_all(text), "user_id").size() == 20);

  // A file whose third row group is damaged is read where the statistics pass it over.
  std::ifstream in(file("basic.parquet"), std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const tenon::ScratchFolder folder;
  std::fill(bytes.begin() + 4, bytes.begin() + 400, '\x5a');
  const std::string damaged = folder.write("a.parquet", bytes).string();
  CHECK(read_problem({damaged}, ids).find("a.parquet") != std::string::npos);
  auto last =
      open({damaged},
           ids,
           {{"where", json::array({json{{"column", "user_id"}, {"op", ">"}, {"value", 1089}}})}});
  CHECK(values<int64_t>(read_all(last), "user_id").size() == 10);
}

namespace {

// What loaders give of a stream, from wherever it is: ids of each batch of each window.
using Batches = std::vector<std::vector<int64_t>>;

Batches read_batches(tenon::DataStream& stream, size_t most = SIZE_MAX) {
  Batches out;
  while (out.size() < most) {
    if (!stream.has_window() && !stream.next_window()) {
      break;
    }
    if (std::optional<tenon::Batch> batch = stream.loader().next()) {
      out.push_back(values<int64_t>(*batch, "user_id"));
    } else if (!stream.next_window()) {
      break;
    }
  }
  return out;
}

std::vector<int64_t> sorted_ids(const Batches& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::vector<int64_t> ids_from(int64_t first, int64_t n) {
  std::vector<int64_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

const json kIds = json::array({json{{"name", "user_id"}}});

}  // namespace

TEST_CASE("each row comes once, however it is dealt out, and the same for any number of threads",
          "[plugins]") {
  for (const std::string& name : kFormats) {
    for (const std::string deal : {"rows", "row_groups", "files"}) {
      for (const int shuffle : {0, 1, 3}) {
        CAPTURE(name, deal, shuffle);
        Batches first;
        for (const int threads : {0, 1, 3, 7}) {
          auto source = open(
              {file(name)},
              kIds,
              {{"shards", 3}, {"deal_by", deal}, {"shuffle_groups", shuffle}, {"read_rows", 8}});
          tenon::DataStream stream(source,
                                   {.batch_size = 7, .num_threads = threads, .prefetch = 4});
          stream.begin_epoch(0);
          const Batches batches = read_batches(stream);
          CHECK(sorted_ids(batches) == ids_from(1000, kRows));
          if (threads == 0) {
            first = batches;
          }
          CHECK(batches == first);
        }
      }
    }
  }
}

TEST_CASE("the order is another one for another epoch, seed and shard alone", "[plugins]") {
  const json options = {{"shuffle_groups", 4}};
  auto source = open({file("basic.parquet")}, kIds, options);
  const auto order = [&](uint64_t epoch, int64_t batch) {
    tenon::DataStream stream(source, {.batch_size = batch});
    stream.begin_epoch(epoch);
    std::vector<int64_t> all;
    for (const auto& ids : read_batches(stream)) {
      all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  };
  const std::vector<int64_t> first = order(0, 10);
  CHECK(first != ids_from(1000, kRows));
  CHECK(order(0, 10) == first);
  CHECK(order(0, 33) == first);
  CHECK(order(1, 10) != first);
}

TEST_CASE("a stream taken at any batch goes on with the very next row", "[plugins]") {
  for (const int shuffle : {0, 2}) {
    for (const bool is_filtered : {false, true}) {
      CAPTURE(shuffle, is_filtered);
      json options = {{"shards", 2},
                      {"deal_by", "row_groups"},
                      {"shuffle_groups", shuffle},
                      {"read_rows", 9},
                      {"windows", {{"by", "files"}, {"count", 2}}}};
      if (is_filtered) {
        options["where"] = json::array({json{{"column", "user_id"}, {"op", "!="}, {"value", 101}}});
      }
      const std::vector<std::string> paths = {file("small-0.parquet"),
                                              file("small-1.parquet"),
                                              file("small-2.parquet"),
                                              file("basic.parquet")};
      auto source = open(paths, kIds, options);
      const tenon::LoaderOptions loader{.batch_size = 4, .num_threads = 2, .prefetch = 3};
      tenon::DataStream whole(source, loader);
      whole.begin_epoch(0);
      const Batches all = read_batches(whole);
      REQUIRE(all.size() > 20);
      for (size_t stop = 0; stop <= all.size(); ++stop) {
        tenon::StateTree state;
        {
          tenon::DataStream stream(source, loader);
          stream.begin_epoch(0);
          CHECK(read_batches(stream, stop).size() == stop);
          stream.snapshot(state, "data");
        }
        auto again = open(paths, kIds, options);
        tenon::DataStream stream(again, loader);
        stream.load(state, "data");
        const Batches rest = read_batches(stream);
        REQUIRE(rest == Batches(all.begin() + static_cast<std::ptrdiff_t>(stop), all.end()));
      }
    }
  }
}

TEST_CASE("a position of other files is refused", "[plugins]") {
  tenon::StateTree state;
  {
    auto source = open({file("basic.parquet")}, kIds);
    tenon::DataStream stream(source, {.batch_size = 4});
    stream.begin_epoch(0);
    read_batches(stream, 3);
    stream.snapshot(state, "data");
  }
  auto other = open({file("basic.orc")}, kIds);
  tenon::DataStream stream(other, {.batch_size = 4});
  const std::string wrong = tenon::error_of([&] { stream.load(state, "data"); });
  CHECK(wrong.find("differ from those of the saved position") != std::string::npos);
}

namespace {

struct SeenWindow {
  std::string label;
  uint64_t id = 0;
  std::vector<int64_t> ids;
  bool operator==(const SeenWindow&) const = default;
};

std::vector<SeenWindow> windows_of(tenon::DatasetProxy& source) {
  tenon::DataStream stream(source, {.batch_size = 1000});
  stream.begin_epoch(0);
  std::vector<SeenWindow> out;
  while (stream.next_window()) {
    SeenWindow seen{stream.window_label(), stream.window()->id(), {}};
    while (std::optional<tenon::Batch> batch = stream.loader().next()) {
      const auto ids = values<int64_t>(*batch, "user_id");
      seen.ids.insert(seen.ids.end(), ids.begin(), ids.end());
    }
    out.push_back(std::move(seen));
  }
  return out;
}

std::vector<std::string> labels_of(const std::vector<SeenWindow>& windows) {
  std::vector<std::string> labels;
  for (const SeenWindow& window : windows) {
    labels.push_back(window.label);
  }
  return labels;
}

// small-k.parquet as a file of a folder: k * 100 and on.
void place(int k, const std::filesystem::path& to) {
  std::filesystem::create_directories(to.parent_path());
  std::filesystem::copy_file(file("small-" + std::to_string(k) + ".parquet"), to);
}

}  // namespace

TEST_CASE("windows are files, rows, or the files of a time", "[plugins]") {
  const tenon::ScratchFolder folder;
  place(0, folder.path() / "dt=2026-11-20/hr=07/b.parquet");
  place(1, folder.path() / "dt=2026-11-20/hr=06/a.parquet");
  place(2, folder.path() / "dt=2026-11-20/hr=07/a.parquet");
  place(3, folder.path() / "dt=2026-11-21/hr=00/a.parquet");
  folder.write("dt=2026-11-21/hr=00/_SUCCESS", "");
  folder.write("dt=2026-11-21/hr=00/half.parquet.tmp", "no file yet");
  const std::string root = folder.path().string();

  SECTION("files") {
    auto source = open({root}, kIds, {{"windows", {{"by", "files"}, {"count", 3}}}});
    const auto windows = windows_of(source);
    REQUIRE(windows.size() == 2);
    CHECK(windows[0].label == "dt=2026-11-20/hr=06/a.parquet");
    CHECK(windows[0].ids ==
          std::vector<int64_t>{100, 101, 102, 103, 200, 201, 202, 203, 204, 0, 1, 2});
    CHECK(windows[1].ids == ids_from(300, 6));
  }
  SECTION("rows, across files") {
    auto source = open({root}, kIds, {{"windows", {{"by", "rows"}, {"count", 5}}}, {"shards", 2}});
    const auto windows = windows_of(source);
    REQUIRE(windows.size() == 4);
    CHECK(windows[0].ids.size() == 5);
    CHECK(windows[3].ids.size() == 3);
    CHECK(windows[3].label == "rows 000000000015");
    CHECK(windows[3].id == 3);
    std::vector<int64_t> all;
    for (const auto& window : windows) {
      all.insert(all.end(), window.ids.begin(), window.ids.end());
    }
    std::sort(all.begin(), all.end());
    CHECK(all ==
          std::vector<int64_t>{
              0, 1, 2, 100, 101, 102, 103, 200, 201, 202, 203, 204, 300, 301, 302, 303, 304, 305});
  }
  SECTION("times, with the ids of their seconds") {
    auto source =
        open({root}, kIds, {{"windows", {{"by", "time"}, {"pattern", "dt=%Y-%m-%d/hr=%H"}}}});
    const auto windows = windows_of(source);
    REQUIRE(labels_of(windows) ==
            std::vector<std::string>{"2026-11-20/06", "2026-11-20/07", "2026-11-21/00"});
    CHECK(windows[0].id == 1795154400);  // date -u -d '2026-11-20 06:00' +%s
    CHECK(windows[1].ids == std::vector<int64_t>{200, 201, 202, 203, 204, 0, 1, 2});
    CHECK((windows_of(source) == windows));
  }
  SECTION("days, of which some are passed over") {
    auto source = open(
        {root},
        {{{"name", "user_id"}}, {{"name", "hour"}, {"column", "hr"}}},
        {{"windows", {{"by", "time"}, {"pattern", "dt=%Y-%m-%d"}, {"skip_before", "2026-11-21"}}}});
    const auto windows = windows_of(source);
    CHECK(labels_of(windows) == std::vector<std::string>{"2026-11-21"});
  }
  SECTION("columns and conditions of the folders") {
    auto source = open({root},
                       {{{"name", "user_id"}},
                        {{"name", "hour"}, {"column", "hr"}},
                        {{"name", "day"}, {"column", "dt"}, {"hash", "farm"}}},
                       {{"where",
                         json::array({json{{"column", "hr"}, {"value", 7}},
                                      json{{"column", "dt"}, {"value", "2026-11-20"}}})}});
    const tenon::Batch batch = read_all(source);
    CHECK(values<int64_t>(batch, "user_id") ==
          std::vector<int64_t>{200, 201, 202, 203, 204, 0, 1, 2});
    CHECK(values<int64_t>(batch, "hour") == std::vector<int64_t>(8, 7));
    CHECK(values<int64_t>(batch, "day").front() == values<int64_t>(batch, "day").back());
  }
  SECTION("patterns of paths") {
    auto source = open({root + "/dt=*/hr=0[67]/*.parquet"}, kIds);
    CHECK(read_all(source).samples == 12);
  }
}

TEST_CASE("two shares of a window have all of it, and nothing twice", "[plugins]") {
  std::vector<int64_t> both;
  for (const auto& [from, to] : {std::pair{0, 9}, std::pair{9, 10}}) {
    auto source = open({file("basic.parquet")},
                       kIds,
                       {{"share", {{"from", from}, {"to", to}, {"of", 10}}}, {"shards", 2}});
    tenon::DataStream stream(source, {.batch_size = 8});
    stream.begin_epoch(0);
    const auto ids = sorted_ids(read_batches(stream));
    CHECK(ids.size() == (from == 0 ? 90 : 10));
    both.insert(both.end(), ids.begin(), ids.end());
  }
  std::sort(both.begin(), both.end());
  CHECK(both == ids_from(1000, kRows));
}

TEST_CASE("what is wrong with columnar files is said before they are read", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string good = file("basic.parquet");
  const auto is_in = [](const std::string& part, const std::string& whole) {
    CAPTURE(whole);
    CHECK(whole.find(part) != std::string::npos);
  };
  const auto one = [](json column) { return json::array({std::move(column)}); };

  is_in("no column \"nobody\"; the file has user_id, age",
        problem({good}, one({{"name", "nobody"}})));
  is_in("user_id\" is string; set `hash`",
        problem({file("other_type.parquet")}, one({{"name", "user_id"}, {"type", "ids"}})));
  is_in("would be read as text, but as ids in",
        tenon::error_of([&] {
          open({file("small-0.parquet"), file("other_type.parquet")}, kIds);
        }) + problem({file("small-0.parquet"), file("other_type.parquet")},
                     one({{"name", "user_id"}})));
  is_in("age\" is int32; `hash` requires strings",
        problem({good}, one({{"name", "age"}, {"hash", "farm"}})));
  is_in("row 1: the column \"price\" is 0.25; ids must be integers",
        read_problem({good}, one({{"name", "price"}, {"type", "ids"}})));
  is_in("weights \"age\" of the column \"clicks\" are int32",
        problem({good}, one({{"name", "clicks"}, {"weights", "age"}})));
  is_in("set only one",
        problem({good}, one({{"name", "a"}, {"column", "age"}, {"columns", {"age"}}})));
  is_in("two columns are named \"age\"", problem({good}, {{{"name", "age"}}, {{"name", "age"}}}));
  is_in("which `where` refers to",
        problem({good}, kIds, {{"where", one({{"column", "nobody"}, {"value", 1}})}}));
  is_in("compares it with a string",
        problem({good}, kIds, {{"where", one({{"column", "age"}, {"value", "x"}})}}));
  is_in("does not exist", problem({(folder.path() / "none.parquet").string()}, kIds));
  const std::string fifo = (folder.path() / "fifo.parquet").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  is_in(fifo + " is a FIFO, a device or a socket", problem({fifo}, kIds));
  is_in("/dev/zero is a FIFO, a device or a socket", problem({"/dev/zero"}, kIds));
  is_in("no file matches `paths`", problem({(folder.path() / "*.parquet").string()}, kIds));
  is_in("has no rows to read", problem({file("empty.parquet")}, kIds));
  is_in("has an unknown extension (expected .parquet",
        problem({folder.write("a.txt", "x").string()}, kIds));
  is_in("cannot read", problem({folder.write("b.parquet", "no parquet").string()}, kIds));
  is_in("`share` has from ",
        problem({good}, kIds, {{"share", {{"from", 2}, {"to", 2}, {"of", 3}}}}));
  is_in("expected a text without quotes", problem({good}, kIds, {{"csv", {{"separator", ";\n"}}}}));
  is_in("requires `pattern` if `by` is \"time\"",
        problem({good}, kIds, {{"windows", {{"by", "time"}}}}));
  is_in("has no time in its path",
        problem({good}, kIds, {{"windows", {{"by", "time"}, {"pattern", "dt=%Y-%m-%d"}}}}));
  is_in("row 0: the column \"clicks\" has 0 entries, but `length` is 2",
        read_problem({good}, one({{"name", "clicks"}, {"length", 2}})));
  is_in("row group 0, row 0: the column \"clicks\" has corrupt offsets",
        read_problem({file("bad_offsets.feather")}, one({{"name", "clicks"}})));

  std::ifstream in(good, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  is_in("cut.parquet",
        problem({folder.write("cut.parquet", bytes.substr(0, bytes.size() / 2)).string()}, kIds));
}

TEST_CASE("a file that goes or changes while windows are read is an error", "[plugins]") {
  const tenon::ScratchFolder folder;
  for (int k = 0; k < 3; ++k) {
    place(k, folder.path() / ("f" + std::to_string(k) + ".parquet"));
  }
  auto source = open({folder.path().string()}, kIds, {{"windows", {{"by", "files"}}}});
  tenon::DataStream stream(source, {.batch_size = 10});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  REQUIRE(stream.loader().next().has_value());
  std::filesystem::remove(folder.path() / "f1.parquet");
  REQUIRE(stream.next_window());
  const std::string gone = tenon::error_of([&] { stream.loader().next(); });
  CHECK(gone.find("f1.parquet was removed after its window was listed") != std::string::npos);
  std::ofstream(folder.path() / "f2.parquet", std::ios::app) << "more";
  REQUIRE(stream.next_window());
  const std::string changed = tenon::error_of([&] { stream.loader().next(); });
  CHECK(changed.find("f2.parquet changed after its window was listed") != std::string::npos);
}

TEST_CASE("a window without a row is an error, or passed over", "[plugins]") {
  const std::vector<std::string> paths = {
      file("small-0.parquet"), file("empty.parquet"), file("small-1.parquet")};
  const json windows = {{"by", "files"}};
  auto strict = open(paths, kIds, {{"windows", windows}});
  const std::string wrong = tenon::error_of([&] { windows_of(strict); });
  CHECK(wrong.find("window empty.parquet: no rows left") != std::string::npos);
  auto applies_non_finite = open(paths, kIds, {{"windows", windows}, {"empty_windows", "skip"}});
  CHECK(labels_of(windows_of(applies_non_finite)) ==
        std::vector<std::string>{"small-0.parquet", "small-1.parquet"});
}

TEST_CASE("a folder that grows gives its windows as they become whole, until its end marker",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  const auto hour = [&](int k) {
    return folder.path() / ("dt=2026-11-20/hr=0" + std::to_string(k));
  };
  const json options = {
      {"windows",
       {{"by", "time"}, {"pattern", "dt=%Y-%m-%d/hr=%H"}, {"follow", {{"poll_seconds", 0.01}}}}}};
  place(0, hour(1) / "a.parquet");
  auto source = open({folder.path().string()}, kIds, options);
  tenon::DataStream stream(source, {.batch_size = 100});
  stream.begin_epoch(0);
  const auto is_waiting = [&] {
    return !stream.next_window() && stream.ask_again() == std::chrono::milliseconds(10);
  };
  const auto next_label = [&] {
    REQUIRE(stream.next_window());
    CHECK(stream.loader().next().has_value());
    return stream.window_label();
  };

  CHECK(is_waiting());  // more of the first hour may come
  place(1, hour(1) / "b.parquet");
  CHECK(is_waiting());
  place(2, hour(2) / "a.parquet");  // it is whole once the second begins
  CHECK(next_label() == "2026-11-20/01");
  CHECK(is_waiting());
  folder.write("dt=2026-11-20/hr=02/_SUCCESS", "");
  CHECK(next_label() == "2026-11-20/02");
  tenon::StateTree state;
  stream.snapshot(state, "data");
  place(3, hour(3) / "a.parquet");
  CHECK(is_waiting());
  folder.write("_END", "");
  CHECK(next_label() == "2026-11-20/03");
  CHECK_FALSE(stream.next_window());
  CHECK_FALSE(stream.ask_again().has_value());

  SECTION("a position in it is found again, where more has come meanwhile") {
    auto again = open({folder.path().string()}, kIds, options);
    tenon::DataStream resumed(again, {.batch_size = 100});
    resumed.load(state, "data");
    CHECK(resumed.window_label() == "2026-11-20/02");
    CHECK_FALSE(resumed.loader().next().has_value());
    REQUIRE(resumed.next_window());
    CHECK(resumed.window_label() == "2026-11-20/03");
  }
  SECTION("without follow it is the same windows at once") {
    json still = options;
    still["windows"]["follow"] = nullptr;
    auto whole = open({folder.path().string()}, kIds, still);
    CHECK(labels_of(windows_of(whole)) ==
          std::vector<std::string>{"2026-11-20/01", "2026-11-20/02", "2026-11-20/03"});
  }
}

TEST_CASE("files that arrive after their window are skipped, and files that go are not missed",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  place(0, folder.path() / "dt=2026-11-02/a.parquet");
  place(1, folder.path() / "dt=2026-11-03/a.parquet");
  const auto opened = [&](const char* late) {
    return open({folder.path().string()},
                kIds,
                {{"windows",
                  {{"by", "time"},
                   {"pattern", "dt=%Y-%m-%d"},
                   {"late", late},
                   {"follow", {{"poll_seconds", 0.01}}}}}});
  };
  auto failing = opened("fail");
  auto source = opened("skip");
  for (tenon::DatasetProxy* const each : {&failing, &source}) {
    tenon::DataStream stream(*each, {.batch_size = 100});
    stream.begin_epoch(0);
    REQUIRE(stream.next_window());
    if (each == &failing) {
      place(2, folder.path() / "dt=2026-11-01/a.parquet");
      CHECK(tenon::error_of([&] {
              stream.next_window();
            }).find("dt=2026-11-01/a.parquet) arrived after window 2026-11-02 was read") !=
            std::string::npos);
      std::filesystem::remove_all(folder.path() / "dt=2026-11-01");
      continue;
    }
    // A compacted hour: its files are gone, and another one has their rows.
    std::filesystem::rename(folder.path() / "dt=2026-11-02/a.parquet",
                            folder.path() / "dt=2026-11-02/compacted.parquet");
    place(2, folder.path() / "dt=2026-11-01/a.parquet");
    place(2, folder.path() / "dt=2026-11-04/a.parquet");
    REQUIRE(stream.next_window());
    CHECK(stream.window_label() == "2026-11-03");
    CHECK(stream.num_skipped() == 1);
    const std::vector<std::string> lines = source.report().left_out;
    REQUIRE(lines.size() == 2);
    CHECK(lines[0] == (folder.path() / "dt=2026-11-02/compacted.parquet").string() +
                          " is skipped: it arrived after its window 2026-11-02 was read");
    CHECK(lines[1] == "window 2026-11-01 is skipped: it arrived after window 2026-11-02 was read");
  }
}

TEST_CASE("windows of files take new files, whatever their names", "[plugins]") {
  const tenon::ScratchFolder folder;
  for (const char* const name : {"part-8.parquet", "part-9.parquet"}) {
    place(0, folder.path() / name);
  }
  auto source =
      open({folder.path().string()},
           kIds,
           {{"windows", {{"by", "files"}, {"count", 1}, {"follow", {{"poll_seconds", 0.01}}}}}});
  tenon::DataStream stream(source, {.batch_size = 100});
  stream.begin_epoch(0);
  std::vector<std::string> labels;
  for (const bool is_later : {false, true}) {
    if (is_later) {
      std::filesystem::remove(folder.path() / "part-8.parquet");
      place(1, folder.path() / "part-10.parquet");
    }
    while (stream.next_window()) {
      labels.push_back(stream.window_label());
    }
  }
  CHECK(labels == std::vector<std::string>{"part-8.parquet", "part-9.parquet", "part-10.parquet"});
  CHECK(source.report().left_out.empty());
}

TEST_CASE("the marker of a window is in its own folder", "[plugins]") {
  const tenon::ScratchFolder folder;
  place(0, folder.path() / "dt=2026-11-20/hr=00/a.parquet");
  folder.write("dt=2026-11-20/hr=00/_SUCCESS", "");
  auto source =
      open({folder.path().string()},
           kIds,
           {{"windows",
             {{"by", "time"}, {"pattern", "dt=%Y-%m-%d"}, {"follow", {{"poll_seconds", 0.01}}}}}});
  tenon::DataStream stream(source, {.batch_size = 100});
  stream.begin_epoch(0);
  CHECK_FALSE(stream.next_window());
  folder.write("dt=2026-11-20/_SUCCESS", "");
  CHECK(stream.next_window());
}

TEST_CASE("files that cannot be read are errors, are skipped, or are waited for", "[plugins]") {
  const tenon::ScratchFolder folder;
  place(0, folder.path() / "dt=2026-11-20/a.parquet");
  place(0, folder.path() / "dt=2026-11-21/a.parquet");
  folder.write("dt=2026-11-21/b.parquet", "PAR1 garbage");
  place(0, folder.path() / "dt=2026-11-22/a.parquet");
  const auto windows = [](const char* bad_files) {
    return json{
        {"windows", {{"by", "time"}, {"pattern", "dt=%Y-%m-%d"}, {"bad_files", bad_files}}}};
  };
  const auto labels_with = [&](tenon::DatasetProxy& source, tenon::SkipList skipped = {}) {
    tenon::DataStream stream(source, {.batch_size = 100}, std::move(skipped));
    stream.begin_epoch(0);
    stream.check_windows();
    std::string labels;
    while (stream.next_window()) {
      labels += stream.window_label().substr(8) + " ";
    }
    return labels;
  };
  auto failing = open({folder.path().string()}, kIds, windows("fail"));
  const std::string problem = tenon::error_of([&] { labels_with(failing); });
  CHECK(problem.find("window 2026-11-21 cannot be read: ") != std::string::npos);
  CHECK(problem.find("b.parquet") != std::string::npos);
  CHECK(labels_with(failing, tenon::SkipList({"2026-11-21"})) == "20 22 ");

  auto skipping = open({folder.path().string()}, kIds, windows("skip"));
  CHECK(labels_with(skipping) == "20 21 22 ");
  REQUIRE(skipping.report().left_out.size() == 1);
  CHECK(skipping.report().left_out[0].find("b.parquet is skipped, in window 2026-11-21: ") !=
        std::string::npos);

  auto waiting = open({folder.path().string()}, kIds, windows("wait"));
  CHECK(labels_with(waiting) == "20 ");
  std::filesystem::remove(folder.path() / "dt=2026-11-21/b.parquet");
  auto repaired = open({folder.path().string()}, kIds, windows("wait"));
  CHECK(labels_with(repaired) == "20 21 22 ");
}

TEST_CASE("a window that is missing is waited for", "[plugins]") {
  const tenon::ScratchFolder folder;
  for (const char* const day : {"20", "21", "23"}) {
    place(0, folder.path() / (std::string("dt=2026-11-") + day + "/a.parquet"));
  }
  const auto labels_with = [&](const char* late, const char* incomplete) {
    auto source = open({folder.path().string()},
                       kIds,
                       {{"windows",
                         {{"by", "time"},
                          {"pattern", "dt=%Y-%m-%d"},
                          {"late", late},
                          {"incomplete", incomplete}}}});
    tenon::DataStream stream(source, {.batch_size = 100});
    stream.begin_epoch(0);
    std::string labels;
    while (stream.next_window()) {
      labels += stream.window_label().substr(8) + " ";
    }
    return labels;
  };
  CHECK(labels_with("skip", "read") == "20 21 23 ");
  CHECK(labels_with("wait", "read") == "20 21 ");
  CHECK(labels_with("skip", "leave") == "20 21 ");  // a later file, or a marker, may still come
}

TEST_CASE("a folder that grows no more ends after max_wait", "[plugins]") {
  const tenon::ScratchFolder folder;
  place(0, folder.path() / "a.parquet");
  auto source = open({folder.path().string()},
                     kIds,
                     {{"windows",
                       {{"by", "files"},
                        {"count", 2},
                        {"follow", {{"poll_seconds", 0.001}, {"max_wait", 0.05}}}}}});
  tenon::DataStream stream(source, {.batch_size = 100});
  stream.begin_epoch(0);
  bool has_window = false;
  while (!(has_window = stream.next_window()) && stream.ask_again()) {
    std::this_thread::sleep_for(*stream.ask_again());  // as the host does
  }
  REQUIRE(has_window);  // the one file there is, of two
  CHECK(stream.window_label() == "a.parquet");
  CHECK_FALSE(stream.next_window());
  CHECK_FALSE(stream.ask_again().has_value());
}

TEST_CASE("a file that goes between its row groups is an error at the first that is not fetched",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  place(3, folder.path() / "a.parquet");  // six rows in three row groups
  auto source = open({folder.path().string()}, kIds, {{"read_rows", 1}});
  tenon::DataStream stream(source, {.batch_size = 2});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  CHECK(values<int64_t>(*stream.loader().next(), "user_id") == std::vector<int64_t>{300, 301});
  std::filesystem::remove(folder.path() / "a.parquet");
  // The second was under way while the first was read.
  CHECK(values<int64_t>(*stream.loader().next(), "user_id") == std::vector<int64_t>{302, 303});
  const std::string gone = tenon::error_of([&] { stream.loader().next(); });
  CHECK(gone.find("a.parquet was removed after its window was listed") != std::string::npos);
}

TEST_CASE("a value of CSV that is no number is an error that names the file", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string path = folder.write("a.csv", "user_id,price\n1,0.5\n2,much\n").string();
  const json columns = {{{"name", "user_id"}}, {{"name", "price"}, {"type", "f32"}}};
  const std::string wrong = read_problem({path}, columns);
  CHECK(wrong.find("a.csv") != std::string::npos);
  CHECK(wrong.find("much") != std::string::npos);
}

TEST_CASE("files beyond the first are looked at when they are read, where the recipe says so",
          "[plugins]") {
  const std::vector<std::string> paths = {file("small-0.parquet"), file("other_type.parquet")};
  auto source = open(paths, kIds, {{"check", "first"}, {"windows", {{"by", "files"}}}});
  tenon::DataStream stream(source, {.batch_size = 10});
  stream.begin_epoch(0);
  REQUIRE(stream.next_window());
  CHECK(stream.loader().next()->samples == 3);
  const std::string wrong = tenon::error_of([&] { stream.next_window(); });
  CHECK(wrong.find("would be read as text, but as ids in") != std::string::npos);
}

TEST_CASE("a flipped bit in a page of Parquet that has a checksum is found while it is read",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string path = (folder.path() / "a.parquet").string();
  constexpr int64_t kNumber = 0x5a17'0042'1234'0000;
  std::string numbers;
  for (int64_t i = 0; i < 100; ++i) {
    const int64_t number = kNumber + i;
    numbers.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  {
    const auto out = tenon::load_parquet_module().create(path, {{"user_id", TENON_I64, 0}});
    out->add_group(100, {numbers});
    out->finish();
  }
  auto source = open({path}, kIds);
  CHECK(values<int64_t>(read_all(source), "user_id").at(99) == kNumber + 99);
  std::string bytes = tenon::file_text(path);
  const size_t at = bytes.find(numbers.substr(0, 80));
  REQUIRE(at != std::string::npos);
  bytes[at + 8] = static_cast<char>(bytes[at + 8] ^ 1);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  const std::string wrong = read_problem({path}, kIds);
  CHECK_THAT(wrong, tenon::contains_text(path));
  CHECK_THAT(wrong, tenon::contains_text("CRC checksum"));
}
