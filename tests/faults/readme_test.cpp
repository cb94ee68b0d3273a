// SPDX-License-Identifier: Apache-2.0
//
// The table of README.md: every misuse that must be met has a row, and every row a test that is
// built.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

struct Row {
  std::string misuse;
  std::string test;
  std::string file;
};

std::vector<Row> table() {
  std::vector<Row> rows;
  std::istringstream lines(file_text(source_dir() / "tests/faults/README.md"));
  const std::regex row(R"(\| (.+) \| (.+) \| `(.+)` \|)");
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_match(line, match, row)) {
      rows.push_back({match[1], match[2], match[3]});
    }
  }
  return rows;
}

// Each must stay met, whatever else is added.
const char* const kMisuses[] = {
    "missing recipe",
    "malformed JSON",
    "invalid option",
    "unknown type",
    "missing, unreadable or empty plugin folder",
    "text files, foreign libraries, a truncated plugin or one without a manifest in the folder",
    "plugin with a wrong ABI, another libtorch or a broken manifest",
    "plugin that throws in `create`, in `forward` or in a hook",
    "C plugin that returns an error",
    "model output with a wrong shape, dtype or device",
    "loss that returns no scalar",
    "gradient with a wrong shape, dtype or device",
    "invalid sizes from a model",
    "invalid sizes from a dataset",
    "schedule that does not fit the run length",
    "failing metric sink",
    "hanging loader thread",
    "hanging hook",
    "data file that is missing, empty or shorter than a sequence",
    "FIFO, device or folder in place of a recipe, weights, rows or data",
    "recipe of millions of wrong entries",
    "safetensors header or index that nests without bound",
    "safetensors header or index whose sizes wrap",
    "file of rows whose sizes wrap, or whose footer takes gigabytes",
    "names in a checkpoint that control the terminal",
    "power loss while the recipe or the summary is written",
    "symbolic link in place of a temporary file",
    "data file that grows or is truncated during training",
    "mapped file that is truncated during training",
    "label out of range",
    "token out of range",
    "fields that do not fit the model or the loss",
    "names that are too long",
    "read-only run folder",
    "full disk at the start",
    "full disk while logging",
    "full disk at the end",
    "out of memory in the host",
    "out of memory in a plugin",
    "output that nobody reads",
    "disk failure at any call of a save: EIO, ENOSPC, short write, kill, power loss",
    "disk failure at any call of a removal",
    "two hosts in one run folder",
    "disk that fills during a checkpoint",
    "run stopped at any step",
    "run resumed on another number of ranks",
    "any process of a run killed at any moment, repeatedly",
    "disk failure at any write, sync or rename of a save in a run: kill, ENOSPC, EIO, short write",
    "flipped bit anywhere in a checkpoint",
    "corrupt, truncated, missing, swapped or foreign shard; wrong index; foreign file or folder",
    "disk that fills during a run",
    "run folder that becomes read-only",
    "saves that are due faster than they are written",
    "clock that is set back",
    "clock that jumps on all ranks",
    "rank killed during an upload to object storage",
    "mutated recipes",
};

}  // namespace

TEST_CASE("each misuse has a row in the table, and each row a test that is built", "[faults]") {
  const std::vector<Row> rows = table();
  for (const char* const misuse : kMisuses) {
    INFO(misuse);
    CHECK(std::ranges::count(rows, misuse, &Row::misuse) == 1);
  }
  for (const Row& row : rows) {
    INFO(row.misuse << ": " << row.test);
    const fs::path file = (source_dir() / "tests/faults" / row.file).lexically_normal();
    REQUIRE(fs::exists(file));
    // The formatter may have broken the line behind the bracket, but never a name.
    CHECK_THAT(file_text(file), contains_text("TEST_CASE(\"" + row.test + "\""));
    fs::path folder = file.parent_path();
    while (!fs::exists(folder / "CMakeLists.txt")) {
      folder = folder.parent_path();
    }
    CHECK_THAT(file_text(folder / "CMakeLists.txt"), contains_text(file.filename().string()));
  }
}

}  // namespace tenon
