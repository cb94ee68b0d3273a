// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_order.hpp"

#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/checkpoint/commit_record.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/checkpoint/named_checkpoint.hpp"
#include "host/error/error.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// Checkpoints "a", "b" and "c" without tensors, of the steps 10, 20 and 30, one minute apart.
class Ordered {
 public:
  Ordered() {
    save("a", 10, "2026-01-31T12:00:00Z");
    save("b", 20, "2026-01-31T12:01:00Z");
    save("c", 30, "2026-01-31T12:02:00Z");
  }

  void save(const std::string& name, uint64_t step, const std::string& time) {
    CheckpointMetadata metadata;
    metadata.checkpoint = name;
    metadata.step = step;
    metadata.time = time;
    storage_->open(name, true);
    for (const auto& [file, content] : index_files(merged(metadata, {RankShare()}), "{}\n")) {
      write_file(file, content, *storage_, name);
    }
    storage_->commit(name);
  }

  // As an earlier release wrote it: "7\n".
  void set_record(const std::string& name, const std::string& text) const {
    folder_.write(name + "/COMMITTED", text);
  }
  void set_latest(const std::string& text) const { folder_.write("latest", text); }

  CheckpointOrder order() { return checkpoint_order(storage_); }
  // The last that is valid.
  std::string newest() {
    std::string newest;
    for (const std::string& name : order().checkpoints) {
      try {
        storage_->list_files(name);
        newest = name;
      } catch (const Error&) {
      }
    }
    return newest;
  }
  std::string only_warning() {
    const CheckpointOrder order = this->order();
    REQUIRE(order.warnings.size() == 1);
    return order.warnings.front();
  }
  fs::path path(const std::string& name) const { return folder_.path() / name; }

 private:
  ScratchFolder folder_;
  std::shared_ptr<LocalStorage> storage_ = std::make_shared<LocalStorage>(folder_.path().string());
};

// Each variant of a text with one bit flipped.
std::vector<std::string> with_flipped_bits(const std::string& text) {
  std::vector<std::string> variants(8 * text.size(), text);
  for (size_t bit = 0; bit < variants.size(); ++bit) {
    char& c = variants[bit][bit / 8];
    c = static_cast<char>(c ^ (1 << bit % 8));
  }
  return variants;
}

}  // namespace

TEST_CASE("the order of valid checkpoints has no contradictions", "[checkpoint]") {
  Ordered saved;
  CHECK(saved.order().checkpoints == Names{"a", "b", "c"});
  CHECK(saved.order().warnings.empty());
  // A clock that was set back does not matter where COMMITTED has a checksum.
  saved.save("d", 40, "2026-01-01T00:00:00Z");
  CHECK(saved.order().checkpoints == Names{"a", "b", "c", "d"});
  CHECK(saved.order().warnings.empty());
  // Checkpoints that were copied elsewhere have no `latest`.
  fs::remove(saved.path("latest"));
  CHECK(saved.order().warnings.empty());
}

TEST_CASE("a flipped bit anywhere in `latest` is reported, and changes nothing", "[checkpoint]") {
  Ordered saved;
  for (const std::string& text : with_flipped_bits("c\n")) {
    saved.set_latest(text);
    INFO(text);
    CHECK(saved.order().checkpoints == Names{"a", "b", "c"});
    CHECK_THAT(saved.only_warning(), contains_text(saved.path("latest").string()));
  }
  for (const char* const text : {"", "c", "c\nb\n", "/etc/passwd\n", "d\n"}) {
    saved.set_latest(text);
    INFO(text);
    CHECK_THAT(saved.only_warning(), contains_text("is corrupt or out of date"));
  }
  saved.set_latest("\x1b[2J\n");
  CHECK_THAT(saved.only_warning(), contains_text("\"\\x1b[2J\""));
  saved.set_latest("b\n");
  CHECK_THAT(saved.only_warning(), contains_text("names b, but c was committed later"));
  fs::remove(saved.path("latest"));
  fs::create_directory(saved.path("latest"));
  CHECK_THAT(saved.only_warning(), contains_text("latest: it is a folder, not a regular file"));
}

TEST_CASE("without checksums in COMMITTED, one flipped bit makes no other checkpoint the newest",
          "[checkpoint]") {
  Ordered saved;
  const auto reset = [&] {
    saved.set_record("a", "17\n");
    saved.set_record("b", "19\n");
    saved.set_record("c", "20\n");
  };
  reset();
  CHECK(saved.order().checkpoints == Names{"a", "b", "c"});
  CHECK(saved.order().warnings.empty());
  int num_reordered = 0;
  for (const std::string name : {"a", "b", "c"}) {
    const std::string number = file_text(saved.path(name + "/COMMITTED"));
    for (const std::string& flipped : with_flipped_bits(number)) {
      saved.set_record(name, flipped);
      INFO(name << ": " << flipped);
      const CheckpointOrder order = saved.order();
      // A corrupt one is tried first, unless `latest` names another.
      CHECK(order.checkpoints.back() == "c");
      const bool is_corrupt = !commit_record_of(flipped).has_value();
      CHECK(saved.newest() == (is_corrupt && name == "c" ? "b" : "c"));
      if (is_corrupt && name != "c") {
        CHECK(order.checkpoints.front() == name);
        CHECK_THAT(saved.only_warning(),
                   contains_text(name + "/COMMITTED is corrupt") &&
                       contains_text("`latest` names a newer checkpoint"));
      } else if (!order.warnings.empty()) {
        CHECK(order.checkpoints == Names{"a", "b", "c"});
        CHECK_THAT(
            order.warnings.front(),
            contains_text("the order of the checkpoints is uncertain") && contains_text("using c"));
        ++num_reordered;
      }
    }
    reset();
  }
  CHECK(num_reordered >= 4);  // 57, 37, 59, 39 and others
  // As found: the oldest one became the newest.
  saved.set_record("a", "57\n");
  CHECK_THAT(saved.only_warning(),
             contains_text("the newest is " + saved.path("a").string() + " by number, c by time"));
}

TEST_CASE("without checksums in COMMITTED, `latest` decides between its numbers and a clock",
          "[checkpoint]") {
  Ordered saved;
  saved.set_record("a", "1\n");
  saved.set_record("b", "2\n");
  saved.set_record("c", "3\n");
  saved.save("d", 40, "2026-01-01T00:00:00Z");  // the clock was set back
  saved.set_record("d", "4\n");
  CHECK(saved.order().checkpoints == Names{"a", "b", "c", "d"});
  CHECK_THAT(saved.only_warning(), contains_text("d by number, c by time; using d"));
  // A crash came before `latest` was written: numbers and times agree.
  saved.save("e", 50, "2026-01-31T12:05:00Z");
  saved.set_latest("d\n");
  CHECK(saved.order().checkpoints.back() == "e");
}

TEST_CASE("a corrupt COMMITTED is tried first if the checkpoint may be the newest",
          "[checkpoint]") {
  Ordered saved;
  saved.set_record("b", "no record");
  CHECK(saved.order().checkpoints == Names{"b", "a", "c"});
  CHECK_THAT(saved.only_warning(), contains_text("b/COMMITTED is corrupt"));
  // Without `latest`, and where it names an older one, nothing shows that "c" is newer.
  saved.set_latest("a\n");
  CHECK(saved.order().checkpoints == Names{"a", "c", "b"});
  fs::remove(saved.path("latest"));
  CHECK(saved.order().checkpoints == Names{"a", "c", "b"});
  CHECK(saved.order().warnings.empty());  // whoever tries it reports the error
  saved.set_latest("b\n");
  CHECK(saved.order().checkpoints == Names{"a", "c", "b"});
  CHECK(saved.order().warnings.empty());
}

TEST_CASE("checkpoints with names that are not valid are reported", "[checkpoint]") {
  Ordered saved;
  fs::copy(saved.path("b"), saved.path("b (copy)"));
  fs::copy(saved.path("b"), saved.path("b\x1b[31m"));
  const CheckpointOrder order = saved.order();
  CHECK(order.checkpoints == Names{"a", "b", "c"});
  REQUIRE(order.warnings.size() == 2);
  CHECK_THAT(order.warnings[0], contains_text("b\\x1b[31m\": its name is not valid"));
  CHECK_THAT(order.warnings[1],
             contains_text("skipping the checkpoint \"" + saved.path("b (copy)").string() +
                           "\": its name is not valid; rename it to use it"));
}

TEST_CASE("a checkpoint is found by its path under any valid name", "[checkpoint]") {
  Ordered saved;
  fs::create_directory(saved.path("backup"));
  fs::copy(saved.path("b"), saved.path("backup/good"));
  fs::copy(saved.path("b"), saved.path("backup/not good"));
  CHECK(find_checkpoint(saved.path("backup/good").string()).checkpoint == "good");
  CHECK(find_checkpoint(saved.path("backup").string()).checkpoint == "good");
  try {
    (void)find_checkpoint(saved.path("backup/not good").string());
    FAIL("its name is not valid");
  } catch (const Error& error) {
    CHECK(error.id() == "storage.bad_name");
  }
  // One whose COMMITTED is corrupt is found, so that --verify can say so.
  fs::remove_all(saved.path("b/COMMITTED"));
  fs::create_directory(saved.path("b/COMMITTED"));
  CHECK(find_checkpoint(saved.path("b").string()).checkpoint == "b");
}

}  // namespace tenon
