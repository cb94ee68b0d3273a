// SPDX-License-Identifier: Apache-2.0
//
// Files that are made to hurt: of no end, of a size that only a header claims, or with names that
// control a terminal. And what a run leaves if the power fails as it writes.
#include "host/checkpoint/checkpoint_index.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/crafted_parquet.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMuchMemory = uint64_t{1500} << 20;  // of a program that needs 300 MB

std::string fifo_in(const fs::path& folder, const std::string& name) {
  const std::string path = (folder / name).string();
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  return path;
}

// run_host() kills a program that hangs, with another exit status.
void check_refused(const SubprocessResult& result, int code, const std::string& text) {
  INFO(result.out << result.err.substr(0, 5000));
  CHECK(result.exit_code == code);
  CHECK_THAT(result.err, contains_text(text));
  CHECK(result.peak_bytes < kMuchMemory);
}

// Runs an action that needs no plugin.
SubprocessResult act(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"timeout", "--signal=KILL", "120", host_program().string()};
  all.insert(all.end(), words.begin(), words.end());
  return run_subprocess(all);
}

SubprocessResult run_small(const ScratchFolder& folder, const std::string& patch) {
  return run_host(folder.write("recipe.json", small_recipe(patch)), folder.path() / "run");
}

std::string loading(const fs::path& path) {
  return nlohmann::json({{"load", {{{"from", path.string()}}}}}).dump();
}

// A safetensors file of this header alone.
void write_header(const ScratchFolder& folder, const std::string& name, const std::string& header) {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  folder.write(name, file + header);
}

// The calls of a run on files whose path contains `part`, in order: "sync /run/summary.json.tmp".
std::vector<std::string> disk_calls(const ScratchFolder& folder, const std::string& part) {
  const fs::path log = folder.path() / "calls";
  const SubprocessResult result =
      run_host(folder.write("recipe.json", small_recipe()),
               folder.path() / "run",
               1,
               {},
               {.environment = {{"LD_PRELOAD", TENON_FAULTY_DISK},
                                {"TENON_FAULT_PATH", (folder.path() / "run").string()},
                                {"TENON_FAULT_LOG", log.string()}}});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<std::string> calls;
  std::ifstream in(log);
  for (std::string line; std::getline(in, line);) {
    const bool is_folder = line.ends_with("/run");
    if (is_folder || line.find(part) != std::string::npos) {
      calls.push_back(line.substr(0, line.find(' ') + 1) +
                      (is_folder ? "run" : fs::path(line).filename().string()));
    }
  }
  return calls;
}

}  // namespace

TEST_CASE("a FIFO or a device in place of any file is refused at once", "[faults]") {
  const ScratchFolder folder;
  const std::string fifo = fifo_in(folder.path(), "fifo");
  const std::string kind = fifo + " is a FIFO, not a regular file";
  const auto recipe_from = [&](const std::string& path) {
    return run_host(fs::path(path), folder.path() / "run");
  };
  check_refused(recipe_from(fifo), 3, "fifo: it is a FIFO, not a regular file");
  check_refused(recipe_from("/dev/zero"), 3, "/dev/zero: it is a device, not a regular file");
  check_refused(act({"--trace-diff", fifo, fifo}), 2, "it is a FIFO, not a regular file");
  check_refused(act({"--table", "fifo", "--id", "7", "--from", folder.path().string()}),
                3,
                "has no rows of table 'fifo'");
  fifo_in(folder.path(), "t.parquet");
  check_refused(act({"--table", "t", "--id", "7", "--from", folder.path().string()}),
                3,
                "t.parquet cannot be read: it is a FIFO, not a regular file");
  const auto dataset = [&](const std::string& type, const std::string& options) {
    return run_small(
        folder, R"({"data": {"train": {"type": ")" + type + R"(", "options": )" + options + "}}}");
  };
  check_refused(dataset("text", R"({"path": ")" + fifo + R"(", "samples": null})"), 4, kind);
  check_refused(dataset("csv",
                        R"({"samples": null, "files": [")" + fifo +
                            R"("], "fields":)"
                            R"( [{"name": "x", "columns": ["a"]}]})"),
                4,
                kind);
  fs::create_directories(folder.path() / "movies");
  fifo_in(folder.path(), "movies/ml-100k.user");
  check_refused(
      dataset("movielens",
              R"({"samples": null, "path": ")" + (folder.path() / "movies").string() + R"("})"),
      4,
      "ml-100k.user is a FIFO, not a regular file");
  const auto loads = [&](const std::string& name) {
    return run_small(folder, loading((folder.path() / name).parent_path()));
  };
  for (const std::string name : {"index/model.safetensors.index.json", "one/model.safetensors"}) {
    fs::create_directories((folder.path() / name).parent_path());
    fifo_in(folder.path(), name);
    check_refused(loads(name), 3, name + ": it is a FIFO, not a regular file");
  }
  fs::create_directories(folder.path() / "config");
  write_header(folder, "config/model.safetensors", "{}");
  fifo_in(folder.path(), "config/config.json");
  check_refused(loads("config/x"), 3, "config.json: it is a FIFO, not a regular file");
}

TEST_CASE("a large recipe of wrong entries is refused at once", "[faults]") {
  const ScratchFolder folder;
  const auto features = [](size_t size) {
    std::string text = R"({"features": [{"type": "hash"})";
    for (size_t i = 1; i < size; ++i) {
      text += R"(,{"type":"hash"})";
    }
    return text + "]}";
  };
  // 20 MB.
  check_refused(run_host(folder.write("huge.json", features(1'200'000)), folder.path() / "run"),
                3,
                "[recipe.too_many_values]");
  check_refused(run_host(folder.write("large.json", features(100'000)), folder.path() / "run"),
                3,
                "at least 100 errors in ");
}

TEST_CASE("a safetensors header that nests without bound is refused without its memory",
          "[faults]") {
  const ScratchFolder folder;
  const std::string deep(60'000'000, '[');
  write_header(folder, "a/model.safetensors", deep);
  check_refused(run_small(folder, loading(folder.path() / "a")), 3, "it is not an object");
  write_header(folder, "b/model.safetensors", R"({"w": {"x": )" + deep);
  check_refused(run_small(folder, loading(folder.path() / "b")), 3, "nested more than 128 levels");
  folder.write("c/model.safetensors.index.json", deep);
  check_refused(run_small(folder, loading(folder.path() / "c")), 3, "nested more than 128 levels");
}

TEST_CASE("a crafted file of rows is refused, without a crash and without its memory", "[faults]") {
  const ScratchFolder folder;
  const auto row_of = [&](const std::string& table) {
    return act({"--table", table, "--id", "7", "--from", folder.path().string()});
  };
  folder.write(
      "wraps.parquet",
      crafted_parquet({{.num_rows = 4, .ids = {7, 8, 9, 10}, .num_vector_values = 0},
                       {.num_rows = 1, .ids = {1}, .num_vector_values = int64_t{1} << 62}}));
  check_refused(row_of("wraps"), 3, "[table.bad_file]");
  folder.write("footer.parquet", parquet_footer_of_chunks(48'000'000, 999'999));
  check_refused(row_of("footer"), 3, "has a footer of more than 1000000 entries");
}

TEST_CASE("names in a checkpoint cannot control the terminal", "[faults]") {
  const HostRun run(small_recipe(R"({"checkpoint": {"at_end": true}})"));
  INFO(run.result().err);
  REQUIRE(run.result().exit_code == 0);
  const fs::path checkpoints = run.run_dir() / "checkpoints";
  fs::path crafted;
  for (const auto& entry : fs::directory_iterator(checkpoints)) {
    if (fs::exists(entry.path() / "index.json")) {
      crafted = entry.path();
    }
  }
  REQUIRE(!crafted.empty());
  const fs::path copy = run.folder() / "sound" / crafted.filename();
  fs::create_directories(copy.parent_path());
  fs::copy(crafted, copy, fs::copy_options::recursive);
  nlohmann::json index = nlohmann::json::parse(file_text(crafted / "index.json"));
  nlohmann::json& tensors = index["shared"]["tensors"];
  const std::string tensor = tensors.begin().key();
  tensors["\x1b[2J\n  forged\xc2\x9b"] = tensors[tensor];
  index["facts"]["figures"]["\x1b]0;title\x07"] = "0x1p+0";
  index["facts"]["run"] = "a\x1b[31m\nb";
  const std::string text = index.dump(1) + "\n";
  std::ofstream(crafted / "index.json", std::ios::trunc) << text;
  std::ofstream(crafted / "SUMS.xxh128", std::ios::trunc)
      << sums_text(text, file_text(crafted / "recipe.json"));
  for (const auto& words :
       std::vector<std::vector<std::string>>{{"--inspect", crafted.string()},
                                             {"--inspect", crafted.string(), "--json"},
                                             {"--verify", crafted.string()},
                                             {"--diff", crafted.string(), copy.string()}}) {
    const SubprocessResult result = act(words);
    INFO(words.front() << "\n" << result.out << result.err);
    CHECK(result.exit_code == (words.front() == "--diff" ? 1 : 0));
    for (const char* const control : {"\x1b", "\x07", "\xc2\x9b", "\n  forged"}) {
      CHECK(result.out.find(control) == std::string::npos);
      CHECK(result.err.find(control) == std::string::npos);
    }
    if (words.size() == 3 && words.back() == "--json") {
      CHECK(nlohmann::json::parse(result.out) == index);
    } else if (words.front() != "--verify") {
      CHECK_THAT(result.out, contains_text("\\x1b"));
    }
  }
}

TEST_CASE("the recipe and the summary of a run are on the disk before they have their names",
          "[faults]") {
  for (const std::string name : {"recipe.json", "summary.json"}) {
    const ScratchFolder folder;
    const std::vector<std::string> calls = disk_calls(folder, "/run/" + name);
    std::string text;
    for (const std::string& call : calls) {
      text += call + ", ";
    }
    INFO(text);
    CHECK_THAT(text,
               contains_text("sync " + name + ".tmp, rename " + name + ", open run, sync run, "));
  }
}

TEST_CASE("a link in place of a temporary file of the run folder is not followed", "[faults]") {
  const ScratchFolder folder;
  const auto victim = folder.write("victim", "precious");
  const fs::path run = folder.path() / "run";
  folder.write("run/.lock", "");
  fs::create_symlink(victim, run / "recipe.json.tmp");
  const SubprocessResult result = run_host(folder.write("recipe.json", small_recipe()), run);
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(file_text(victim) == "precious");
  CHECK_FALSE(fs::is_symlink(run / "recipe.json"));
}

TEST_CASE("a cache of checked plugins that nests without bound is ignored without its memory",
          "[faults]") {
  const ScratchFolder folder;
  for (const size_t bytes : {size_t{60} << 20, size_t{15} << 20}) {
    folder.write("tenon/vetted.json", std::string(bytes, '['));
    const SubprocessResult result =
        run_host({"--recipe", folder.write("recipe.json", small_recipe()).string(), "--validate"},
                 {.environment = {{"XDG_CACHE_HOME", folder.path().string()}}});
    check_refused(result, 0, "");
  }
}

}  // namespace tenon
