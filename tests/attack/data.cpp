// SPDX-License-Identifier: Apache-2.0
//
// Damaged data files of every reader: Parquet, Feather, ORC, CSV and CSV.gz of `columnar`, and the
// files of `csv`, `text` and `movielens`. A run on them trains or is refused; it never crashes,
// hangs or takes gigabytes.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>

#include "tests/attack/attack.hpp"
#include "tests/attack/oracle.hpp"
#include "tests/recipes/host_run.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Reader {
  std::string name;
  std::map<std::string, std::string> files;  // valid content by name
  std::string recipe;
};

std::string columnar_recipe(const std::string& file, bool has_lists) {
  json columns = json::array({{{"name", "user_id"}},
                              {{"name", "age"}},
                              {{"name", "price"}},
                              {{"name", "label"}, {"type", "f32"}},
                              {{"name", "name"}, {"hash", "farm"}},
                              {{"name", "maybe"}, {"missing", "fill"}}});
  json ragged = json::array();
  if (has_lists) {
    for (const char* const name : {"clicks", "times", "sessions", "bag"}) {
      columns.push_back({{"name", name}});
    }
    columns.push_back({{"name", "holes"}, {"missing", "fill"}});
    ragged.push_back("clicks");
  }
  json recipe = json::parse(R"({
    "name": "columnar", "threads": {"compute": 1},
    "model": {"type": "deepfm",
      "options": {"categorical": ["user_id", "age"], "dim": 4, "hidden": [8]}},
    "data": {"batch_size": 16, "train": {"type": "columnar", "options": {"read_rows": 32}}},
    "tables": {"*": {"optimizer": {"type": "adam"}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "optimizer": {"type": "adam"},
    "train": {"epochs": 1, "log_every": 0}})");
  recipe["model"]["options"]["ragged"] = ragged;
  recipe["data"]["train"]["options"]["columns"] = columns;
  recipe["data"]["train"]["options"]["paths"] = json::array({file});
  return recipe.dump();
}

Reader columnar_reader(const std::string& file) {
  const std::string path = (source_dir() / "tests" / "plugins" / "columnar" / file).string();
  return {"columnar " + file,
          {{file, file_text(path)}},
          columnar_recipe(file, file.find("csv") == std::string::npos)};
}

Reader columnar_csv_reader() {
  std::string text = "user_id,age,price,label,name,maybe\n";
  for (int i = 0; i < 60; ++i) {
    const std::string n = std::to_string(i);
    text += n + "," + std::to_string(i % 9) + "," + n + ".25," + std::to_string(i % 2) +
            ",\"user " + n + "\"," + (i % 7 == 3 ? "" : n) + "\n";
  }
  return {"columnar csv", {{"basic.csv", text}}, columnar_recipe("basic.csv", false)};
}

Reader csv_reader() {
  std::string text = "a,b,\"c\",d,label\n";
  for (int i = 0; i < 60; ++i) {
    const std::string n = std::to_string(i);
    text += n + ",0." + n + ",\"" + n + "\",-" + n + "," + std::to_string(i % 3) + "\n";
  }
  return {"csv", {{"a.csv", text}}, small_recipe(R"({
    "data": {"train": {"type": "csv", "options": {"samples": null, "files": ["a.csv"], "fields": [
      {"name": "x", "columns": ["a..d"]},
      {"name": "labels", "column": "label", "dtype": "i64", "min": 0, "max": 2}]}}}})")};
}

Reader text_reader() {
  std::string text;
  for (int i = 0; i < 80; ++i) {
    text += "line " + std::to_string(i) + " of a text\n";
  }
  return {"text", {{"a.txt", text}}, small_language_recipe(R"({
    "model": {"options": {"vocab_size": 256}},
    "train": {"steps": 4},
    "data": {"train": {"type": "text", "options": {"samples": null, "length": null,
      "path": "a.txt", "sequence_length": 8, "tokenizer": {"type": "byte"}}}}})")};
}

Reader movielens_reader() {
  std::string users = "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\n";
  std::string films = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\n";
  std::string ratings = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n";
  for (int i = 1; i <= 20; ++i) {
    const std::string n = std::to_string(i);
    users += n + "\t" + std::to_string(20 + i) + "\t" + (i % 2 == 0 ? "M" : "F") + "\tjob" +
             std::to_string(i % 3) + "\t123\n";
    films += n + "\tfilm " + n + "\t19" + std::to_string(70 + i) + "\tDrama Comedy\n";
    ratings += n + "\t" + std::to_string(21 - i) + "\t" + std::to_string(i % 5 + 1) + "\t88125" +
               std::to_string(1000 + i) + "\n";
  }
  return {"movielens",
          {{"ml-100k.user", users}, {"ml-100k.item", films}, {"ml-100k.inter", ratings}},
          R"({"name": "movielens", "threads": {"compute": 1},
    "model": {"type": "deepfm", "options": {"categorical": ["user_id", "item_id", "age"],
      "ragged": ["genres"], "dim": 4, "hidden": [8]}},
    "data": {"batch_size": 4, "train": {"type": "movielens", "options": {"path": "."}}},
    "tables": {"*": {"optimizer": {"type": "adam"}}},
    "loss": {"type": "bce_with_logits", "inputs": {"labels": "label"}},
    "optimizer": {"type": "adam"}, "train": {"epochs": 1, "log_every": 0}})"};
}

std::string damaged(Attack& attack, std::string bytes) {
  for (std::uint64_t n = 1 + attack.below(3); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = attack.below(bytes.size());
    const std::size_t size = std::min<std::size_t>(bytes.size() - at, 1 + attack.below(64));
    switch (attack.below(10)) {
      case 0:
      case 1:
      case 2:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << attack.below(8)));
        break;
      case 3:
        for (std::size_t i = at; i < at + size; ++i) {
          bytes[i] = static_cast<char>(attack.below(256));
        }
        break;
      case 4:
        bytes.resize(at);
        break;
      case 5:
        bytes.erase(at, size);
        break;
      case 6:
        bytes.insert(at, bytes.substr(at, size));
        break;
      case 7:
        bytes.insert(at, std::string(1 + attack.below(200'000), attack.below(2) == 0 ? '\0' : 'x'));
        break;
      case 8: {  // the footers of binary formats are at their ends
        const std::size_t last =
            bytes.size() - 1 - attack.below(std::min<std::size_t>(bytes.size(), 40));
        bytes[last] = static_cast<char>(attack.below(256));
        break;
      }
      default:
        bytes.insert(0, attack.below(2) == 0 ? "\xff\xfe" : "\xef\xbb\xbf");
        break;
    }
  }
  return bytes;
}

// Runs the host on the files of a reader, one of which is given.
Ended run_on(const Reader& reader,
             const fs::path& folder,
             const std::string& changed,
             const std::string& content) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [name, valid] : reader.files) {
    std::ofstream(folder / name, std::ios::binary) << (name == changed ? content : valid);
  }
  std::ofstream(folder / "recipe.json") << reader.recipe;
  return run_to_end(run_words(folder / "recipe.json", folder / "run", 1, {"--quiet"}),
                    folder / "log",
                    {.memory_limit = kMostMemory});
}

}  // namespace

void attack_data(Attack& attack) {
  std::vector<Reader> readers = {csv_reader(),
                                 text_reader(),
                                 movielens_reader(),
                                 columnar_csv_reader(),
                                 columnar_reader("basic.csv.gz"),
                                 columnar_reader("basic.parquet"),
                                 columnar_reader("basic.feather"),
                                 columnar_reader("basic.orc")};
  const fs::path folder = attack.folder() / "case";
  for (const Reader& reader : readers) {
    const Ended ended = run_on(reader, folder, "", "");
    if (ended.status != 0) {
      throw std::runtime_error(reader.name + ": the valid file is refused: " + ended.log);
    }
  }
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    const Reader& reader = readers[i % readers.size()];
    const auto file = std::next(reader.files.begin(),
                                static_cast<std::ptrdiff_t>(attack.below(reader.files.size())));
    const Ended ended = run_on(reader, folder, file->first, damaged(attack, file->second));
    std::string wrong = bad_ending(ended.status, ended.log);
    if (ended.peak_bytes > kMostMemory) {
      wrong = "it takes more than " + std::to_string(kMostMemory >> 20) + " MiB";
    }
    if (!wrong.empty()) {
      attack.found(reader.name + ", " + file->first + ": " + wrong, folder);
    } else {
      attack.survived(reader.name + ": status " + std::to_string(*ended.status));
    }
  }
}

}  // namespace tenon
