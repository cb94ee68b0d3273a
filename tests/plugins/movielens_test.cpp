// SPDX-License-Identifier: Apache-2.0
//
// The ratings of MovieLens as samples: on files made here, and on the real ones in data/ml-100k.
#include "host/data/batch_builder.hpp"
#include "host/data/dataset_proxy.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

using tenon::contains_text;

namespace {

// A dataset with its number of samples.
struct Ratings {
  explicit Ratings(const std::string& path, nlohmann::json options = nlohmann::json::object())
      : source(make(path, std::move(options))) {}

  int64_t size() { return source.size(nullptr); }
  tenon::Batch read(const std::vector<int64_t>& indices, const tenon::Window* window = nullptr) {
    tenon::BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
    source.read(window, indices, builder.writer());
    return builder.finish();
  }
  tenon::Batch read_all(const tenon::Window* window = nullptr) {
    std::vector<int64_t> indices(static_cast<size_t>(source.size(window)));
    std::iota(indices.begin(), indices.end(), 0);
    return read(indices, window);
  }

  static tenon::DatasetProxy make(const std::string& path, nlohmann::json options) {
    options["path"] = path;
    return tenon::DatasetProxy(tenon::make_component("dataset", "movielens", options.dump()));
  }

  tenon::DatasetProxy source;
};

std::string real() {
  return (tenon::source_dir() / "data/ml-100k").string();
}

std::vector<int64_t> ids(const tenon::Batch& batch, const std::string& field) {
  const at::Tensor tensor = batch.find(field)->contiguous();
  return {tensor.const_data_ptr<int64_t>(), tensor.const_data_ptr<int64_t>() + tensor.numel()};
}
std::vector<float> floats(const tenon::Batch& batch, const std::string& field) {
  const at::Tensor tensor = batch.find(field)->contiguous();
  return {tensor.const_data_ptr<float>(), tensor.const_data_ptr<float>() + tensor.numel()};
}
// The entries of one sample of a ragged column.
std::vector<int64_t> entries(const tenon::Batch& batch, const std::string& column, size_t sample) {
  const auto values = ids(batch, column + ".values");
  const auto offsets = ids(batch, column + ".offsets");
  return {values.begin() + offsets.at(sample), values.begin() + offsets.at(sample + 1)};
}

constexpr char kUsers[] =
    "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n"
    "7\t31\tM\twriter\t1\n"
    "3\t20\tF\tartist\t2\n";
constexpr char kFilms[] =
    "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n"
    "10\tA\t1995\tWar Action\n"
    "20\tB\tV\tDrama\n"
    "30\tC\tunkonwn\t\n"
    "40\tD\t1960\tDrama\n";
constexpr char kRatings[] =
    "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    "7\t10\t5\t100\n"
    "7\t20\t4\t200\n"
    "7\t30\t3\t300\n"
    "7\t40\t1\t300\n"
    "3\t20\t5\t86500\n"
    "7\t20\t5\t90000\n";

// The files, any of them replaced.
std::string write_files(const tenon::ScratchFolder& folder,
                        const std::map<std::string, std::string>& other = {}) {
  std::map<std::string, std::string> files = {
      {"user", kUsers}, {"item", kFilms}, {"inter", kRatings}};
  for (const auto& [name, text] : other) {
    files[name] = text;
  }
  for (const auto& [name, text] : files) {
    folder.write("ml-100k." + name, text);
  }
  return folder.path().string();
}

std::string error_with(const std::map<std::string, std::string>& files,
                       const nlohmann::json& options = nlohmann::json::object()) {
  const tenon::ScratchFolder folder;
  const std::string path = write_files(folder, files);
  return tenon::error_of([&] { Ratings(path, options); });
}

}  // namespace

TEST_CASE("a rating is joined with what is known of user and film", "[plugins]") {
  const tenon::ScratchFolder folder;
  Ratings ratings(write_files(folder), {{"windows", 1}});
  const std::optional<tenon::Window> window = ratings.source.next_window();
  REQUIRE(window.has_value());
  const tenon::Batch batch = ratings.read_all(&*window);
  CHECK(batch.samples == 6);
  CHECK(ids(batch, "user_id") == std::vector<int64_t>{7, 7, 7, 7, 3, 7});
  CHECK(ids(batch, "item_id") == std::vector<int64_t>{10, 20, 30, 40, 20, 20});
  CHECK(ids(batch, "age") == std::vector<int64_t>{31, 31, 31, 31, 20, 31});
  CHECK(ids(batch, "gender") == std::vector<int64_t>{1, 1, 1, 1, 0, 1});
  CHECK(ids(batch, "occupation") == std::vector<int64_t>{1, 1, 1, 1, 0, 1});
  CHECK(ids(batch, "release_year") == std::vector<int64_t>{1995, 0, 0, 1960, 0, 0});
  CHECK(floats(batch, "rating") == std::vector<float>{5, 4, 3, 1, 5, 5});
  CHECK(floats(batch, "label") == std::vector<float>{1, 1, 0, 0, 1, 1});
  CHECK(ids(batch, "timestamp").back() == 90000);
  // Action 0, Drama 1, War 2; a film without a genre has none.
  CHECK(ids(batch, "genres.offsets") == std::vector<int64_t>{0, 2, 3, 3, 4, 5, 6});
  CHECK(entries(batch, "genres", 0) == std::vector<int64_t>{2, 0});
}

TEST_CASE("a history has what was liked before, the latest first, and nothing of the same second",
          "[plugins]") {
  const tenon::ScratchFolder folder;
  Ratings ratings(write_files(folder), {{"windows", 1}, {"history", 2}});
  const std::optional<tenon::Window> window = ratings.source.next_window();
  const tenon::Batch batch = ratings.read_all(&window.value());
  CHECK(entries(batch, "history", 0).empty());
  CHECK(entries(batch, "history", 1) == std::vector<int64_t>{10});
  CHECK(entries(batch, "history", 2) == std::vector<int64_t>{20, 10});
  CHECK(entries(batch, "history", 3) == std::vector<int64_t>{20, 10});
  CHECK(entries(batch, "history", 4).empty());
  CHECK(entries(batch, "history", 5) == std::vector<int64_t>{20, 10});
}

TEST_CASE("windows of ratings follow time, by number or by days", "[plugins]") {
  const tenon::ScratchFolder folder;
  const std::string path = write_files(folder);
  const auto windows_of = [&](const nlohmann::json& options) {
    Ratings ratings(path, options);
    std::vector<std::pair<std::string, std::vector<int64_t>>> found;
    for (auto window = ratings.source.next_window(); window;
         window = ratings.source.next_window()) {
      found.emplace_back(window->label(), ids(ratings.read_all(&*window), "timestamp"));
    }
    return found;
  };
  CHECK(windows_of({{"windows", 4}}) ==
        decltype(windows_of({})){{"1970-01-01 00:01", {100}},
                                 {"1970-01-01 00:03", {200, 300}},
                                 {"1970-01-01 00:05", {300}},
                                 {"1970-01-02 00:01", {86500, 90000}}});
  CHECK(windows_of({{"window_days", 1}}) ==
        decltype(windows_of({})){{"1970-01-01", {100, 200, 300, 300}},
                                 {"1970-01-02", {86500, 90000}}});
}

TEST_CASE("what is wrong with files of ratings is said with file and line", "[plugins]") {
  CHECK_THAT(error_with({{"user", "user_id:token\tage:token\n"}}),
             contains_text("[movielens.header]") && contains_text("gender"));
  CHECK_THAT(error_with({{"item", std::string(kFilms) + "50\tE\t1990\n"}}),
             contains_text("ml-100k.item, line 6 has 3 columns"));
  CHECK_THAT(error_with({{"item", std::string(kFilms) + "10\tE\t1990\tWar\n"}}),
             contains_text("line 6: duplicate id 10"));
  CHECK_THAT(error_with({{"inter", std::string(kRatings) + "7\t10\tfive\t1\n"}}),
             contains_text("[movielens.row]") && contains_text("line 8: \"five\" is not a number"));
  CHECK_THAT(error_with({{"inter", std::string(kRatings) + "8\t10\t5\t1\n"}}),
             contains_text("line 8 refers to user 8"));
  CHECK_THAT(error_with({{"inter", "user_id\titem_id\trating\ttimestamp\n"}}),
             contains_text("[movielens.empty]"));
  CHECK_THAT(error_with({}, {{"liked_from", 6}, {"keep", "liked"}}),
             contains_text("[movielens.empty]"));
  CHECK_THAT(error_with({}, {{"windows", 7}}), contains_text("[movielens.windows]"));
  CHECK_THAT(error_with({}, {{"windows", 2}, {"window_days", 2}}),
             contains_text("[movielens.windows]"));
  CHECK_THAT(tenon::error_of([] { Ratings("/nowhere"); }), contains_text("[movielens.open]"));
}

// The checksums are those of the split that torch.randperm(100000) makes with the seed 2020.
TEST_CASE("the split of the real ratings is that of torch's permutation with seed 2020",
          "[plugins]") {
  std::map<std::string, uint64_t> checksums;
  std::set<std::pair<int64_t, int64_t>> seen;  // nobody rated a film twice
  for (const auto& [split, size] :
       std::map<std::string, int64_t>{{"train", 80000}, {"valid", 10000}, {"test", 10000}}) {
    Ratings ratings(real(), {{"split", split}});
    REQUIRE(ratings.size() == size);
    const tenon::Batch batch = ratings.read_all();
    const auto users = ids(batch, "user_id");
    const auto films = ids(batch, "item_id");
    uint64_t checksum = 0;
    for (size_t i = 0; i < users.size(); ++i) {
      seen.emplace(users[i], films[i]);
      checksum = checksum * 1000003 + static_cast<uint64_t>(users[i] * 10000 + films[i]);
    }
    checksums[split] = checksum;
  }
  CHECK(seen.size() == 100000);
  CHECK(checksums["train"] == 116778766197778508ULL);
  CHECK(checksums["valid"] == 4705411913220088297ULL);
  CHECK(checksums["test"] == 16358091916665189954ULL);
}

TEST_CASE("the real ratings have the values that the files have", "[plugins]") {
  Ratings ratings(real(), {{"history", 5}});
  REQUIRE(ratings.size() == 100000);
  const tenon::Batch batch = ratings.read_all();
  const auto distinct = [&](const std::string& field) {
    const auto values = ids(batch, field);
    return std::set<int64_t>(values.begin(), values.end()).size();
  };
  CHECK(distinct("user_id") == 943);
  CHECK(distinct("item_id") == 1682);
  CHECK(distinct("gender") == 2);
  CHECK(distinct("occupation") == 21);
  CHECK(distinct("genres.values") == 19);
  CHECK(batch.find("label")->mean().item<float>() == Approx(0.55375));
  const auto offsets = ids(batch, "history.offsets");
  for (size_t i = 1; i < offsets.size(); ++i) {
    REQUIRE(offsets[i] - offsets[i - 1] >= 0);
    REQUIRE(offsets[i] - offsets[i - 1] <= 5);
  }
  CHECK(batch.find("history.offsets")->size(0) == 100001);
}

TEST_CASE("no history of a part tells of the validation or test part", "[plugins]") {
  std::set<std::pair<int64_t, int64_t>> in_training;
  {
    Ratings train(real(), {{"split", "train"}});
    const tenon::Batch batch = train.read_all();
    const auto users = ids(batch, "user_id");
    const auto films = ids(batch, "item_id");
    for (size_t i = 0; i < users.size(); ++i) {
      in_training.emplace(users[i], films[i]);
    }
  }
  for (const char* const split : {"train", "test"}) {
    Ratings ratings(real(), {{"split", split}, {"history", 1000}});
    const tenon::Batch batch = ratings.read_all();
    const auto users = ids(batch, "user_id");
    const auto values = ids(batch, "history.values");
    const auto offsets = ids(batch, "history.offsets");
    size_t num_leaks = 0;
    for (size_t i = 0; i < users.size(); ++i) {
      for (int64_t k = offsets[i]; k < offsets[i + 1]; ++k) {
        num_leaks += in_training.count({users[i], values[static_cast<size_t>(k)]}) == 0 ? 1 : 0;
      }
    }
    CHECK(values.size() > 100000);
    CHECK(num_leaks == 0);
  }
}
