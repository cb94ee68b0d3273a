// SPDX-License-Identifier: Apache-2.0
//
// Stores checkpoints as named directories of files, each committed atomically
// (plugins implement the contract in tenon/draft/storage.h). The content of the files is opaque.
// Invariants: an uncommitted checkpoint is not listed and cannot be read. A committed checkpoint
// never changes, and survives power loss. At most one checkpoint of a storage is open at a time.
// Threads  any, one call at a time, except `read` and writes to different files
#pragma once

#include "host/checkpoint/checkpoint_name.hpp"
#include "host/checkpoint/commit_record.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// A file of an open checkpoint. Destroying it without close() cancels the file and the checkpoint.
class CheckpointFile {
 public:
  virtual ~CheckpointFile() = default;
  // Appends bytes. Fastest in blocks of a few MiB.
  // Errors  storage.io with the system's reason and the address; the file is then unusable
  virtual void write(std::span<const std::byte> bytes) = 0;
  // Completes the file, so that commit() can publish it. Must be the last call.
  // Errors  storage.io; do not retry, because the system has dropped the unwritten data: cancel the
  //         checkpoint and write it again
  virtual void close() = 0;
};

// Names of checkpoints and files consist of [A-Za-z0-9_.-] and do not start with a dot. The storage
// reserves "latest" and "COMMITTED".
//
// Errors   storage.io with the system's reason and the address; storage.bad_name
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Opens a checkpoint for writing. Exactly one of the writing ranks passes `is_first`, and calls
  // before all others. This call removes uncommitted leftovers of dead processes, under any name.
  // Errors  storage.exists if a committed checkpoint has that name
  virtual void open(const std::string& checkpoint, bool is_first) = 0;
  // Creates a file. Ranks use different names.
  // Errors   storage.exists if the open checkpoint has that file
  virtual std::unique_ptr<CheckpointFile> create_file(const std::string& checkpoint,
                                                      const std::string& file) = 0;
  // Publishes the checkpoint atomically. Called once, on one rank, after all ranks have closed
  // their files. After an error, the checkpoint is not listed, and the call may be retried.
  virtual void commit(const std::string& checkpoint) = 0;
  // Cancels an open checkpoint and removes its files. A missing checkpoint is not an error.
  virtual void abort(const std::string& checkpoint) = 0;

  // The committed checkpoints, in the order of their commits. A checkpoint whose position in the
  // order cannot be read is last: it may be the newest, and whoever opens it reports the error.
  virtual std::vector<std::string> list() = 0;
  // The files of a committed checkpoint, sorted.
  // Errors   storage.not_found; checkpoint.damaged if its position in the order cannot be read
  virtual std::vector<std::string> list_files(const std::string& checkpoint) = 0;
  // Size in bytes.
  // Errors  storage.not_found; checkpoint.damaged if it is not a file
  virtual uint64_t file_size(const std::string& checkpoint, const std::string& file) = 0;
  // Fills `out` with the bytes of the file from `offset`. Fastest in blocks of a few MiB.
  // Errors  storage.not_found; storage.io if the file is shorter; checkpoint.damaged if it is not a
  //         file
  virtual void read(const std::string& checkpoint,
                    const std::string& file,
                    uint64_t offset,
                    std::span<std::byte> out) = 0;
  // Removes a committed checkpoint, or the leftovers of an uncommitted one. A missing checkpoint is
  // not an error. From the start of the call, the checkpoint is no longer listed.
  virtual void remove(const std::string& checkpoint) = 0;

  // For messages: "runs/a/checkpoints/step-500", "s3://bucket/a/step-500".
  virtual std::string address(const std::string& checkpoint) const = 0;

  // What the storage recorded at the commit; none if it keeps its records to itself.
  // Errors  storage.not_found; checkpoint.damaged
  virtual std::optional<CommitRecord> commit_record(const std::string& checkpoint);
  // The content of the file that names the newest checkpoint; none if there is no such file.
  // Errors  checkpoint.damaged if it is not a file
  virtual std::optional<std::string> latest();
  // Names that look like those of committed checkpoints, but are not valid and are not listed.
  virtual std::vector<std::string> skipped();
};

}  // namespace tenon
