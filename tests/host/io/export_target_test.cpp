// SPDX-License-Identifier: Apache-2.0
#include "host/io/export_target.hpp"

#include "host/error/error.hpp"

#include <filesystem>
#include <optional>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

size_t num_entries(const fs::path& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) {
    ++n;
  }
  return n;
}

}  // namespace

TEST_CASE("one process at a time writes to a place", "[io]") {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "x.pt").string();
  std::optional<ExportTarget> first(path);
  CHECK_THROWS_WITH(ExportTarget(path + "/"), contains_text("[export.in_use] " + path));
  const ExportTarget other(path + "2");
  CHECK(first->temporary() != other.temporary());
  const std::string used = first->temporary();
  first.reset();
  const ExportTarget second(path);
  CHECK(second.temporary() != used);
}

TEST_CASE("a place leaves no lock file, and keeps one of an interrupted process", "[io]") {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "x.pt").string();
  {
    const ExportTarget target(path);
    CHECK(num_entries(folder.path()) == 1);
  }
  CHECK(num_entries(folder.path()) == 0);
  folder.write(".x.pt.tenon-lock", "left");
  { const ExportTarget target(path); }
  CHECK(file_text(folder.path() / ".x.pt.tenon-lock") == "left");
}

TEST_CASE("a new file never replaces one", "[io]") {
  const ScratchFolder folder;
  const std::string path = (folder.path() / "x.pt").string();
  const ExportTarget target(path);
  folder.write(fs::path(target.temporary()).filename().string(), "new");
  folder.write("x.pt", "old");
  CHECK_THROWS_WITH(target.publish_new_file(), contains_text("[storage.exists] " + path));
  CHECK(file_text(path) == "old");
  fs::remove(path);
  target.publish_new_file();
  CHECK(file_text(path) == "new");
  CHECK_FALSE(fs::exists(target.temporary()));
}

}  // namespace tenon
