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
    "broken JSON",
    "wrong option",
    "unknown type",
    "plugin folder that is missing, unreadable or empty",
    "text files and foreign libraries in it, a cut plugin, one without a manifest",
    "plugin with a wrong ABI, another libtorch, a broken manifest",
    "plugin that throws in `create`, in `forward`, in a hook",
    "plugin in C that answers with an error",
    "output of a wrong shape, dtype, device",
    "loss that gives no scalar",
    "gradient of a wrong shape, dtype, device",
    "nonsense sizes of a model",
    "nonsense sizes of a dataset",
    "schedule that does not fit the run",
    "sink that fails",
    "loader thread that hangs",
    "hook that hangs",
    "data file missing, empty, shorter than a sequence",
    "data file growing or cut while training",
    "mapped file cut while training",
    "label out of range",
    "token out of range",
    "fields that do not fit the model or the loss",
    "names that are too long",
    "read-only run folder",
    "full disk at the beginning",
    "full disk while logging",
    "full disk at the end",
    "memory exhausted in the host",
    "memory exhausted in a plugin",
    "output that nobody reads",
    "disk that fails at any call of a save: EIO, ENOSPC, short write, killed, power lost",
    "disk that fails at any call of a removal",
    "two hosts on one run folder",
    "disk that fills while a checkpoint is written",
    "run stopped at any step",
    "run that goes on with another number of ranks",
    "any process of a run killed at any moment, again and again",
    "disk that fails at any write, sync or rename of a save in a run: killed, ENOSPC, EIO, short "
    "write",
    "bit flipped anywhere in a checkpoint",
    "shard that is flipped, cut, missing, swapped, another checkpoint's; wrong index; foreign file "
    "or folder",
    "disk that fills in the middle of a run",
    "run folder that is read-only from some moment on",
    "saves that are due faster than they are written",
    "clock that goes back",
    "clock that jumps, on all ranks",
    "rank killed while it sends to object storage",
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
    CHECK_THAT(file_text(file.parent_path() / "CMakeLists.txt"),
               contains_text(file.filename().string()));
  }
}

}  // namespace tenon
