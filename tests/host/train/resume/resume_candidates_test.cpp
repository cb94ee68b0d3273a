// SPDX-License-Identifier: Apache-2.0
#include "host/train/resume/resume_candidates.hpp"

#include "host/checkpoint/checkpoint_saver.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/distributed/collectives/rank_groups.hpp"
#include "host/log/log.hpp"

#include <filesystem>
#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// Checkpoints of the steps that a test asks for, in a folder of its own.
struct ResumeRig {
  ResumeRig() { set_up_log({.terminal = false, .file = (folder.path() / "log").string()}); }
  ~ResumeRig() { set_up_log({}); }
  ResumeRig(const ResumeRig&) = delete;
  ResumeRig& operator=(const ResumeRig&) = delete;

  void save(const std::string& name, int64_t step) {
    CheckpointSaver saver(storage, ranks, {.retries = 0});
    StateTree tree;
    tree.put_int("run/step", step);
    CheckpointMetadata metadata;
    metadata.kind = kFullCheckpoint;
    metadata.step = static_cast<uint64_t>(step);
    saver.begin(name, std::move(tree), metadata, "{}");
    REQUIRE_FALSE(saver.finish().has_value());
  }
  void corrupt(const std::string& name) const {
    std::ofstream(folder.path() / "saved" / name / "index.json") << "{";
  }
  std::string log() const {
    flush_log();
    return file_text(folder.path() / "log");
  }
  std::string none_left(ResumeCandidates& states) const {
    try {
      states.next();
      return "";
    } catch (const Error& error) {
      return error.id();
    }
  }

  ScratchFolder folder;
  std::shared_ptr<CheckpointStore> storage =
      std::make_shared<LocalStorage>((folder.path() / "saved").string());
  RankGroups ranks;
};

}  // namespace

TEST_CASE("the first candidate that can be read is taken, with a warning for the others",
          "[train]") {
  ResumeRig rig;
  rig.save("a", 1);
  rig.save("b", 2);
  rig.corrupt("b");
  ResumeCandidates states(rig.storage, rig.ranks.all(), {"b", "a"});
  CHECK_FALSE(states.is_empty());
  CHECK(states.next().get_int("run/step") == 1);
  CHECK(states.reader().index().metadata.step == 1);
  CHECK(states.is_empty());
  CHECK_THAT(rig.log(), contains_text(rig.storage->address("b")));
}

TEST_CASE("a candidate that is rejected later gives way to the one before it", "[train]") {
  ResumeRig rig;
  rig.save("a", 1);
  rig.save("b", 2);
  ResumeCandidates states(rig.storage, rig.ranks.all(), {"b", "a"});
  CHECK(states.next().get_int("run/step") == 2);
  states.reject(Error("checkpoint.damaged", "a checksum that a test has refused"));
  CHECK(states.next().get_int("run/step") == 1);
  CHECK_THAT(rig.log(), contains_text("a checksum that a test has refused"));
  CHECK(rig.none_left(states) == "checkpoint.none_sound");
}

TEST_CASE("whoever accepts may refuse a candidate, which ends the search", "[train]") {
  ResumeRig rig;
  rig.save("a", 1);
  rig.save("b", 2);
  uint64_t seen = 0;
  ResumeCandidates states(rig.storage, rig.ranks.all(), {"b", "a"}, [&](const auto& reader) {
    seen = reader.index().metadata.step;
    throw Error("resume.recipe_changed", "asked for by a test");
  });
  CHECK(rig.none_left(states) == "resume.recipe_changed");
  CHECK(seen == 2);
}

TEST_CASE("without a candidate there is nothing to resume from", "[train]") {
  ResumeRig rig;
  ResumeCandidates states(rig.storage, rig.ranks.all(), {});
  CHECK(states.is_empty());
  CHECK(rig.none_left(states) == "checkpoint.none_sound");
}

TEST_CASE("errors of reading count as damage, others do not", "[train]") {
  for (const char* const id :
       {"checkpoint.damaged", "checkpoint.foreign", "storage.io", "storage.not_found"}) {
    CHECK(is_damage(Error(id, "")));
  }
  CHECK_FALSE(is_damage(Error("resume.recipe_changed", "")));
}

}  // namespace tenon
