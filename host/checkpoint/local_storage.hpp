// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints as folders of a local or shared file system:
//
//   ROOT/NAME/             the files of a checkpoint, and COMMITTED, written last
//   ROOT/NAME/COMMITTED    commit_record.hpp: a number; checkpoints are listed in this order, not
//                          by date
//   ROOT/latest            the name of the newest committed checkpoint, for people and scripts
//   ROOT/.open-NAME/       a checkpoint that is being written
//   ROOT/.gone-NAME/       a checkpoint that is being removed
//
// Invariants: at any moment, and after any crash, a listed checkpoint is complete and on disk.
// `latest` names a listed checkpoint, or is missing. Other files are never changed, and folders
// with names that are not valid are skipped. Symbolic links are followed. Files that are not
// regular, such as a directory or a FIFO, count as corrupt and are never waited for. Two runs must
// not share a folder; run_lock.hpp prevents it.
//
// Threads  as CheckpointStore
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"

#include <optional>

namespace tenon {

class LocalStorage final : public CheckpointStore {
 public:
  // Does not access the disk; the first open() creates the folder.
  explicit LocalStorage(std::string root);

  void open(const std::string& checkpoint, bool is_first) override;
  std::unique_ptr<CheckpointFile> create_file(const std::string& checkpoint,
                                              const std::string& file) override;
  void commit(const std::string& checkpoint) override;
  void abort(const std::string& checkpoint) override;
  std::vector<std::string> list() override;
  std::vector<std::string> list_files(const std::string& checkpoint) override;
  uint64_t file_size(const std::string& checkpoint, const std::string& file) override;
  void read(const std::string& checkpoint,
            const std::string& file,
            uint64_t offset,
            std::span<std::byte> out) override;
  void remove(const std::string& checkpoint) override;
  std::string address(const std::string& checkpoint) const override;
  std::optional<CommitRecord> commit_record(const std::string& checkpoint) override;
  std::optional<std::string> latest() override;
  std::vector<std::string> skipped() override;

 private:
  struct Committed {
    std::string name;
    std::optional<CommitRecord> record = {};  // none if COMMITTED is corrupt
  };

  std::string folder(const std::string& checkpoint) const;
  std::string open_folder(const std::string& checkpoint) const;
  std::string gone_folder(const std::string& checkpoint) const;
  bool is_committed(const std::string& checkpoint) const;
  bool is_leftover(const std::string& checkpoint) const;
  bool is_own_leftover(const std::string& checkpoint) const;
  void check_committed(const std::string& checkpoint) const;
  CommitRecord record_of(const std::string& checkpoint) const;
  // In the order of list().
  std::vector<Committed> committed();
  uint64_t next_sequence();
  void clear_leftovers();
  // Points `latest` to the newest checkpoint except `without`, or removes it.
  void point_latest(const std::string& without);
  // The same before the removal of `checkpoint`. Fails only if `latest` would still name it.
  void leave_latest(const std::string& checkpoint);
  void remove_leftover(const std::string& checkpoint);

  std::string root_;
  uint64_t highest_ = 0;  // number seen in COMMITTED
  bool is_root_synced_ = false;
};

}  // namespace tenon
