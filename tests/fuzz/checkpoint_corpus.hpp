// SPDX-License-Identifier: Apache-2.0
//
// Small valid checkpoints in memory, built with the functions that the host writes them with, and a
// storage for them. Threads: one.
#pragma once

#include "host/checkpoint/checkpoint_index.hpp"
#include "host/checkpoint/checkpoint_store.hpp"

#include <map>
#include <string>
#include <vector>

namespace tenon {

struct MemoryCheckpoint {
  std::string name;
  std::string committed;                     // the text of COMMITTED
  std::map<std::string, std::string> files;  // content by name
};

// The parts of the index that the ranks of a checkpoint write: a weight that is sharded, a table,
// numbers, texts, and entries of each rank.
std::vector<RankShare> corpus_shares(uint32_t num_ranks);
CheckpointMetadata corpus_metadata(uint64_t step);

MemoryCheckpoint corpus_checkpoint(uint64_t step, uint64_t sequence, uint32_t num_ranks);

// Sets SUMS.xxh128 to the sums of the files.
void set_sums(MemoryCheckpoint& checkpoint);

// A storage of checkpoints that nobody writes to. Reads are checked: a read behind the end of a
// file is an error of the storage, as it is on a disk.
class MemoryStorage final : public CheckpointStore {
 public:
  std::vector<MemoryCheckpoint> checkpoints;  // in the order of their commits
  std::string latest_text;

  void open(const std::string&, bool) override {}
  std::unique_ptr<CheckpointFile> create_file(const std::string&, const std::string&) override {
    return nullptr;
  }
  void commit(const std::string&) override {}
  void abort(const std::string&) override {}
  void remove(const std::string&) override {}
  std::vector<std::string> list() override;
  std::vector<std::string> list_files(const std::string& checkpoint) override;
  uint64_t file_size(const std::string& checkpoint, const std::string& file) override;
  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) override;
  std::string address(const std::string& checkpoint) const override {
    return "runs/a/checkpoints/" + checkpoint;
  }
  std::optional<CommitRecord> commit_record(const std::string& checkpoint) override;
  std::optional<std::string> latest() override { return latest_text; }

 private:
  const MemoryCheckpoint& find(const std::string& checkpoint) const;
};

}  // namespace tenon
