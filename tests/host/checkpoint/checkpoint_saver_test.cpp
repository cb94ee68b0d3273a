// SPDX-License-Identifier: Apache-2.0
//
// Saves that go on beside whoever began them: of one rank, and of ranks that are threads, on a
// storage that fails or stands still when it is asked to.
#include "host/checkpoint/checkpoint_saver.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/local_storage.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/scratch_folder.hpp"
#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

using Names = std::vector<std::string>;

// What a storage is to do wrong; all ranks have the same.
struct Trouble {
  std::atomic<int> failures = 0;  // so many writes of tensors fail
  std::atomic<bool> stands_still = false;
};

class TroubledFile final : public CheckpointFile {
 public:
  TroubledFile(std::unique_ptr<CheckpointFile> file, Trouble& trouble)
      : file_(std::move(file)), trouble_(trouble) {}
  void write(std::span<const std::byte> bytes) override {
    while (trouble_.stands_still) {
      std::this_thread::yield();
    }
    if (trouble_.failures.fetch_sub(1) > 0) {
      throw Error("storage.io", "asked to fail");
    }
    trouble_.failures = std::max(0, trouble_.failures.load());
    file_->write(bytes);
  }
  void close() override { file_->close(); }

 private:
  std::unique_ptr<CheckpointFile> file_;
  Trouble& trouble_;
};

class TroubledStorage final : public CheckpointStore {
 public:
  TroubledStorage(const std::string& root, Trouble& trouble) : storage_(root), trouble_(trouble) {}

  void open(const std::string& checkpoint, bool is_first) override {
    storage_.open(checkpoint, is_first);
  }
  std::unique_ptr<CheckpointFile> create_file(const std::string& checkpoint,
                                              const std::string& file) override {
    auto made = storage_.create_file(checkpoint, file);
    if (!file.ends_with(".safetensors")) {
      return made;
    }
    return std::make_unique<TroubledFile>(std::move(made), trouble_);
  }
  void commit(const std::string& checkpoint) override { storage_.commit(checkpoint); }
  void abort(const std::string& checkpoint) override { storage_.abort(checkpoint); }
  Names list() override { return storage_.list(); }
  Names list_files(const std::string& checkpoint) override {
    return storage_.list_files(checkpoint);
  }
  uint64_t file_size(const std::string& checkpoint, const std::string& file) override {
    return storage_.file_size(checkpoint, file);
  }
  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) override {
    storage_.read(checkpoint, file, offset, out);
  }
  void remove(const std::string& checkpoint) override { storage_.remove(checkpoint); }
  std::string address(const std::string& checkpoint) const override {
    return storage_.address(checkpoint);
  }

 private:
  LocalStorage storage_;
  Trouble& trouble_;
};

StateTree state_of(uint32_t rank, double value) {
  StateTree tree;
  tree.put_tensor("all", at::full({300}, value), StateTree::Copy::kYes);
  tree.put_tensor(
      "own", at::full({100}, value + rank), StateTree::Copy::kYes, TENON_STATE_PER_RANK);
  return tree;
}

// One rank of a run that saves.
class Saving {
 public:
  Saving(RankGroups& ranks,
         const std::string& root,
         Trouble& trouble,
         CheckpointSaver::Options options = {})
      : rank_(ranks.role().rank()),
        storage_(std::make_shared<TroubledStorage>(root, trouble)),
        saver_(storage_, ranks, without_pauses(std::move(options))) {}

  void begin(const std::string& name, double value) {
    CheckpointMetadata metadata;
    metadata.step = static_cast<uint64_t>(value);
    saver_.begin(name, state_of(rank_, value), std::move(metadata), "{}\n");
  }
  CheckpointSaver& saver() { return saver_; }
  std::shared_ptr<CheckpointStore> storage() { return storage_; }

 private:
  static CheckpointSaver::Options without_pauses(CheckpointSaver::Options options) {
    options.pause = std::chrono::milliseconds(1);
    return options;
  }

  uint32_t rank_;
  std::shared_ptr<TroubledStorage> storage_;
  CheckpointSaver saver_;
};

double own_value(const std::string& root,
                 const std::string& checkpoint,
                 uint32_t rank,
                 uint32_t size) {
  const CheckpointReader reader(std::make_shared<LocalStorage>(root), checkpoint);
  reader.verify();
  const StateTree state = reader.state(rank, size, nullptr);
  return state.get_tensor("own")[7].item<double>();
}

}  // namespace

TEST_CASE("saves of several ranks go on beside them, one after the other", "[checkpoint]") {
  for (const uint32_t size : {1u, 3u}) {
    INFO(size << " ranks");
    const ScratchFolder folder;
    const std::string root = folder.path().string();
    Trouble trouble;
    std::vector<SaveResult> results;
    std::atomic<int> num_committed = 0;
    run_ranks(size, [&](RankGroups& ranks) {
      Saving rank(
          ranks, root, trouble, {.on_commit = [&](const std::string&) { ++num_committed; }});
      for (int save = 1; save <= 5; ++save) {
        rank.begin("step-" + std::to_string(save), 10 * save);  // waits for the one before
        while (rank.saver().is_writing()) {
          std::this_thread::yield();
        }
        if (save % 2 == 0) {  // as a step does where all ranks have voted so; else the next begin
          std::vector<std::string> none = ranks.all().gather_texts("", "all have written");
          rank.saver().conclude();
        }
      }
      rank.begin("step-5", 60);  // such a name is there
      rank.saver().finish();
      if (ranks.role().rank() == 0) {
        results = rank.saver().take_results();
      } else if (!rank.saver().take_results().empty()) {
        num_committed = -100;
      }
    });
    REQUIRE(results.size() == 6);
    for (const SaveResult& result : results) {
      CHECK(!result.error.has_value());
    }
    CHECK(num_committed == 6);
    CHECK(LocalStorage(root).list() ==
          Names{"step-1", "step-2", "step-3", "step-4", "step-5", "step-5_2"});
    for (uint32_t rank = 0; rank < size; ++rank) {
      CHECK(own_value(root, "step-3", rank, size) == 30 + rank);
      CHECK(own_value(root, "step-5_2", rank, size) == 60 + rank);
    }
  }
}

TEST_CASE("a write that fails is tried again, and told to all ranks when it was too often",
          "[checkpoint]") {
  const ScratchFolder folder;
  const std::string root = folder.path().string();
  Trouble trouble;
  std::vector<SaveResult> results;
  std::atomic<int> num_told = 0;
  run_ranks(2, [&](RankGroups& ranks) {
    Saving rank(ranks, root, trouble, {.retries = 2});
    const auto meet = [&] { ranks.all().gather_texts("", "meeting"); };
    rank.begin("before", 1);
    rank.saver().finish();
    if (ranks.role().rank() == 0) {
      trouble.failures = 2;  // fewer than there are tries
    }
    meet();
    rank.begin("tried", 2);
    num_told += rank.saver().finish().has_value() ? 100 : 0;
    if (ranks.role().rank() == 0) {
      trouble.failures = 1000;
    }
    meet();
    rank.begin("failed", 3);
    const auto failure = rank.saver().finish();
    num_told += failure.has_value() && failure->id() == "storage.io" ? 1 : 0;
    meet();
    trouble.failures = 0;
    meet();
    rank.begin("after", 4);
    num_told += rank.saver().finish().has_value() ? 100 : 0;
    if (ranks.role().rank() == 0) {
      results = rank.saver().take_results();
    }
  });
  CHECK(num_told == 2);
  REQUIRE(results.size() == 4);
  CHECK(results[2].checkpoint == "failed");
  REQUIRE(results[2].error.has_value());
  CHECK_THAT(results[2].error->message(), contains_text("asked to fail"));
  CHECK(LocalStorage(root).list() == Names{"before", "tried", "after"});
  CHECK(own_value(root, "tried", 1, 2) == 3);
  CHECK(own_value(root, "after", 0, 2) == 4);
}

TEST_CASE("a save that takes too long is given up, and leaves the one before it", "[checkpoint]") {
  const ScratchFolder folder;
  const std::string root = folder.path().string();
  Trouble trouble;
  std::atomic<int> num_told = 0;
  run_ranks(2, [&](RankGroups& ranks) {
    Saving rank(ranks, root, trouble);
    rank.begin("before", 1);
    rank.saver().finish();
    trouble.stands_still = true;
    ranks.all().gather_texts("", "meeting");
    rank.begin("given-up", 2);
    std::thread later;
    if (ranks.role().rank() == 0) {  // it must write once more to see that it is given up
      later = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        trouble.stands_still = false;
      });
    }
    const auto failure = rank.saver().finish(std::chrono::duration<double>(0.001));
    num_told += failure.has_value() ? 1 : 0;
    if (later.joinable()) {
      later.join();
    }
  });
  CHECK(num_told == 2);
  CHECK(LocalStorage(root).list() == Names{"before"});
  CHECK(own_value(root, "before", 1, 2) == 2);
}

TEST_CASE("one who goes away in the middle of a save leaves the one before it", "[checkpoint]") {
  const ScratchFolder folder;
  const std::string root = folder.path().string();
  Trouble trouble;
  run_ranks(1, [&](RankGroups& ranks) {
    Saving rank(ranks, root, trouble);
    rank.begin("before", 1);
    rank.saver().finish();
    rank.begin("left", 2);
  });
  CHECK(LocalStorage(root).list() == Names{"before"});
  CHECK(own_value(root, "before", 0, 1) == 1);
}

TEST_CASE("a folder of the user does not cost the save whose name it has", "[checkpoint]") {
  const ScratchFolder folder;
  const std::string root = folder.path().string();
  Trouble trouble;
  std::vector<SaveResult> results;
  folder.write("step-1/notes.txt", "mine");
  folder.write("step-1_2/notes.txt", "mine");
  run_ranks(2, [&](RankGroups& ranks) {
    Saving rank(ranks, root, trouble);
    rank.begin("step-1", 10);
    rank.saver().finish();
    if (ranks.role().rank() == 0) {
      results = rank.saver().take_results();
    }
  });
  REQUIRE(results.size() == 1);
  CHECK_FALSE(results.front().error.has_value());
  CHECK(LocalStorage(root).list() == Names{"step-1_3"});
  CHECK(own_value(root, "step-1_3", 1, 2) == 11);
  const CheckpointReader reader(std::make_shared<LocalStorage>(root), "step-1_3");
  CHECK(reader.index().metadata.checkpoint == "step-1_3");
}

}  // namespace tenon
