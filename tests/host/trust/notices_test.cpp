// SPDX-License-Identifier: Apache-2.0
#include "host/trust/notices.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

namespace fs = std::filesystem;

namespace {

struct NoticeDesk {
  ScratchFolder folder;
  std::string file = folder.write("plugins/text.so", "text").string();
  std::string list = (folder.path() / "cache/notices.json").string();
  Notice notice{.path = file, .text = "it is a text", .stamp = file_stamp(file)};

  // Whether another start logs the notice.
  bool is_new_at_start() const {
    Notices notices(list);
    const bool is_new = notices.is_new(notice);
    notices.save();
    return is_new;
  }
};

}  // namespace

TEST_CASE("a notice is new once", "[plugin]") {
  NoticeDesk desk;
  CHECK(desk.is_new_at_start());
  CHECK_FALSE(desk.is_new_at_start());
  Notices same(desk.list);
  CHECK_FALSE(same.is_new(desk.notice));
  desk.notice.text = "something else";
  CHECK(desk.is_new_at_start());
  CHECK_FALSE(desk.is_new_at_start());
}

TEST_CASE("a notice expires with the state of its file", "[plugin]") {
  NoticeDesk desk;
  CHECK(desk.is_new_at_start());
  std::ofstream(desk.file) << "another text";
  desk.notice.stamp = file_stamp(desk.file);
  CHECK(desk.is_new_at_start());
  CHECK_FALSE(desk.is_new_at_start());

  fs::remove(desk.file);
  Notices later(desk.list);
  CHECK(later.is_new({.path = desk.folder.path().string(), .text = "a folder"}));
  later.save();
  CHECK(file_text(desk.list).find("text.so") == std::string::npos);
  CHECK(file_text(desk.list).find("a folder") != std::string::npos);
}

TEST_CASE("without a list each notice is new, and a broken list is as good as none", "[plugin]") {
  const NoticeDesk desk;
  Notices none("");
  CHECK(none.is_new(desk.notice));
  CHECK_NOTHROW(none.save());
  CHECK(Notices("").is_new(desk.notice));
  for (const char* const text : {"",
                                 "{",
                                 "[]",
                                 R"({"format": 99, "notices": []})",
                                 R"({"format": 1, "notices": [{"path": 7}]})",
                                 R"({"format": 1, "notices": [{"path": {"a": {"b": {}}}}]})"}) {
    INFO(text);
    desk.folder.write("cache/notices.json", text);
    CHECK(desk.is_new_at_start());
    CHECK_FALSE(desk.is_new_at_start());
    fs::remove(desk.list);
  }
}

TEST_CASE("a list of notices that others may write is ignored", "[plugin]") {
  const NoticeDesk desk;
  CHECK(desk.is_new_at_start());
  fs::permissions(desk.list, fs::perms::others_write, fs::perm_options::add);
  CHECK(desk.is_new_at_start());
  CHECK_FALSE(desk.is_new_at_start());  // it was replaced by one of mode 0600
}

TEST_CASE("notices of several processes are merged", "[plugin]") {
  const NoticeDesk desk;
  Notices first(desk.list);
  Notices second(desk.list);
  CHECK(first.is_new({.path = desk.file, .text = "of the first"}));
  CHECK(second.is_new({.path = desk.file, .text = "of the second"}));
  first.save();
  second.save();
  Notices later(desk.list);
  CHECK_FALSE(later.is_new({.path = desk.file, .text = "of the first"}));
  CHECK_FALSE(later.is_new({.path = desk.file, .text = "of the second"}));
}
