// SPDX-License-Identifier: Apache-2.0
#include "host/trust/write_access.hpp"

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace tenon;

namespace fs = std::filesystem;

namespace {

void change_mode(const fs::path& path, mode_t mode) {
  REQUIRE(::chmod(path.c_str(), mode) == 0);
}

// A file in a folder in a folder, which only this user may write.
struct WritableTree {
  WritableTree() {
    change_mode(file, 0644);
    change_mode(folder, 0755);
    change_mode(scratch.path() / "around", 0755);
  }

  ScratchFolder scratch;
  fs::path file = scratch.write("around/plugins/a.so", "x");
  fs::path folder = file.parent_path();
};

}  // namespace

TEST_CASE("a file and a folder of this user have no other writers", "[plugin]") {
  const WritableTree tree;
  for (const WriteAccess& access :
       {write_access_of_file(tree.file), write_access_of_folder(tree.folder)}) {
    CHECK(access.by_all.empty());
    CHECK(access.advice.empty());
    CHECK(access.by_some.empty());
  }
  CHECK(write_access_of_folder("/").by_all.empty());
  CHECK(write_access_of_folder(tree.folder / "missing").by_all.empty());
}

TEST_CASE("a file or a folder that all users can change is named with its mode", "[plugin]") {
  const WritableTree tree;
  change_mode(tree.file, 0646);
  WriteAccess access = write_access_of_file(tree.file);
  CHECK(access.by_all == tree.file.string() + " is writable by all users (mode 0646)");
  CHECK(access.advice == "run chmod o-w " + tree.file.string());
  CHECK(access.by_some.empty());

  change_mode(tree.folder, 0757);
  CHECK(write_access_of_folder(tree.folder).by_all ==
        tree.folder.string() + " is writable by all users (mode 0757)");
  change_mode(tree.folder, 01757);  // others cannot replace entries, but they can add some
  CHECK(write_access_of_folder(tree.folder).by_all ==
        tree.folder.string() + " is writable by all users (mode 1757)");
}

TEST_CASE("a folder around the plugins counts unless it has the sticky bit", "[plugin]") {
  const WritableTree tree;
  const fs::path around = tree.folder.parent_path();
  change_mode(around, 0777);
  CHECK(write_access_of_folder(tree.folder).by_all ==
        fs::canonical(around).string() + " is writable by all users (mode 0777)");
  CHECK(write_access_of_folder(tree.folder).by_some.empty());
  change_mode(around, 01777);
  CHECK(write_access_of_folder(tree.folder).by_all.empty());
}

TEST_CASE("a group that can write is mentioned, and so is another owner", "[plugin]") {
  const WritableTree tree;
  change_mode(tree.file, 0664);
  change_mode(tree.folder, 0775);
  const std::string group = std::to_string(::getegid());
  CHECK(write_access_of_file(tree.file).by_some ==
        tree.file.string() + " is writable by its group " + group + " (mode 0664)");
  CHECK(write_access_of_folder(tree.folder).by_some ==
        tree.folder.string() + " is writable by its group " + group + " (mode 0775)");
  CHECK(write_access_of_file(tree.file).by_all.empty());

  if (::geteuid() != 0) {
    TENON_SKIP("only root can give a file away");
  }
  change_mode(tree.file, 0644);
  REQUIRE(::chown(tree.file.c_str(), 12345, static_cast<gid_t>(-1)) == 0);
  CHECK(write_access_of_file(tree.file).by_some == tree.file.string() + " belongs to user 12345");
}

TEST_CASE("a sticky folder keeps a file that is named by its path", "[plugin]") {
  const WritableTree tree;
  CHECK(write_access_around(tree.file).by_all.empty());
  change_mode(tree.folder, 0777);
  CHECK(write_access_around(tree.file).by_all ==
        fs::canonical(tree.folder).string() + " is writable by all users (mode 0777)");
  change_mode(tree.folder, 01777);
  CHECK(write_access_around(tree.file).by_all.empty());

  // A link in a folder of this user to a file that others can replace, and the other way around.
  change_mode(tree.folder, 0777);
  fs::create_symlink(tree.file, tree.scratch.path() / "link");
  CHECK_FALSE(write_access_around(tree.scratch.path() / "link").by_all.empty());
  fs::create_symlink(tree.scratch.write("own", "x"), tree.folder / "link");
  CHECK_FALSE(write_access_around(tree.folder / "link").by_all.empty());
  CHECK(write_access_around(tree.scratch.path() / "own").by_all.empty());
}

TEST_CASE("the folders of a link's target count too", "[plugin]") {
  const WritableTree tree;
  const fs::path target = tree.scratch.write("store/real.so", "x");
  change_mode(target, 0644);
  const fs::path link = tree.folder / "link.so";
  fs::create_symlink(target, link);
  change_mode(target.parent_path(), 0755);
  CHECK(write_access_of_file(link).by_all.empty());
  change_mode(target.parent_path(), 0777);
  CHECK(write_access_of_file(link).by_all ==
        fs::canonical(target.parent_path()).string() + " is writable by all users (mode 0777)");
  change_mode(target.parent_path(), 0755);
  change_mode(target, 0666);
  CHECK(write_access_of_file(link).by_all ==
        link.string() + " is writable by all users (mode 0666)");
  fs::remove(target);
  CHECK(write_access_of_file(link).by_all.empty());
}
