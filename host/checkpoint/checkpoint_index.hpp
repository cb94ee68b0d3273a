// SPDX-License-Identifier: Apache-2.0
//
// The index of a checkpoint, index.json: location, type and shape of each entry of the state, a
// checksum for each piece of a tensor, and the metadata of the run. docs/checkpoints.md specifies
// the format byte by byte.
// Invariant: an index that was read is complete. The pieces of a tensor cover it exactly once and
// lie within the files that the index names. Pieces of one box are adjacent, and cover it in order.
// Threads: any.
#pragma once

#include "host/checkpoint/source_record.hpp"
#include "host/checkpoint/stored_tensor.hpp"
#include "host/journal/stamp.hpp"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tenon {

// An index without boxes has version 1, and one whose boxes have one range version 2. Earlier
// releases read them too.
inline constexpr int64_t kCheckpointVersion = 3;

// How gradient norms are summed. 0: in an order that depends on the ranks, as in checkpoints
// without the number. 1: over chunks (docs/decisions/0080-norm-of-gradients.md).
inline constexpr int64_t kNormVersion = 1;

struct StoredNumber {
  std::variant<int64_t, double> value;
  uint32_t scope = 0;
};

struct StoredEntries {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, StoredNumber> numbers;
};

struct StoredPlugin {
  std::string id;
  std::string version;
  std::string hash;  // of the library
};

// Names that the recipe excludes from a checkpoint (checkpoint.exclude).
struct Excluded {
  std::vector<std::string> parameters;  // and buffers
  std::vector<std::string> tables;
  bool is_empty() const { return parameters.empty() && tables.empty(); }
};

// Metadata of the run at the time of the checkpoint.
struct CheckpointMetadata {
  std::string run;         // its name
  std::string checkpoint;  // the name it was saved under; "" in checkpoints of earlier releases
  std::string kind;        // kFullCheckpoint, kWeightsCheckpoint
  std::string tenon;       // versions
  std::string torch;
  std::string machine;    // type of processor, and the instruction set of matrix products
  std::string processor;  // its model; "" in checkpoints of earlier releases
  std::map<std::string, std::string> kernels;  // chosen for the host's operators, by question
  int64_t compute_threads = 0;
  int64_t norm_version = 0;  // as kNormVersion
  std::string precision;
  std::string device;
  uint64_t step = 0;
  uint64_t updates = 0;
  uint64_t epochs = 0;
  uint64_t windows = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  std::string at;    // the boundary of the run: "start", "step", "window", "epoch"
  std::string time;  // UTC, "2026-01-31T12:00:00Z"
  std::optional<uint64_t> evaluated_step;  // step of the last evaluation
  std::map<std::string, double> metrics;   // last reported values
  std::vector<StoredPlugin> plugins;
  Excluded excluded;
  // Files that the components of the run read, without those of windows; none in checkpoints of
  // earlier releases.
  std::optional<std::vector<SourceRecord>> sources;
  // Of the entry CheckpointTaken of rank 0: a run that resumes from here returns to this number of
  // the journal. None in exports, and in checkpoints of earlier releases.
  std::optional<JournalNumber> journal;
};

// Kinds: the complete state of a run, or parameters and table rows only.
inline constexpr char kFullCheckpoint[] = "full";
inline constexpr char kWeightsCheckpoint[] = "weights";

struct CheckpointIndex {
  CheckpointMetadata metadata;
  std::vector<StoredFile> files;             // of tensors, by rank
  std::map<std::string, uint32_t> versions;  // of subtrees
  StoredEntries shared;                      // by all ranks, or by data shard
  std::vector<StoredEntries> by_rank;        // entries of each rank

  int64_t num_ranks() const { return static_cast<int64_t>(by_rank.size()); }
  // Of all tensors.
  uint64_t tensor_bytes() const;
};

// Description of the files that one rank wrote; sent to the rank that writes the index.
struct RankShare {
  std::vector<StoredFile> files;
  std::map<std::string, uint32_t> versions;
  StoredEntries shared;
  StoredEntries own;
};

std::string share_text(const RankShare& share);
// Errors  checkpoint.damaged
RankShare share_of(const std::string& text);

// Combines the shares of all ranks, in order of rank. If each piece of a tensor is a flat range of
// the whole, it is stored without its box.
// Errors  checkpoint.incomplete if pieces are missing or duplicate
CheckpointIndex merged(CheckpointMetadata metadata, std::vector<RankShare> shares);

// JSON that ends in a line break.
std::string index_text(const CheckpointIndex& index);
// The checksums of an index and a recipe, in the format of `xxh128sum -c`.
std::string sums_text(const std::string& index, const std::string& recipe);
// Errors  checkpoint.damaged with `address` if it is not an index, or is incomplete;
//         checkpoint.foreign if another program wrote it; checkpoint.too_new if its format version
//         is not supported
CheckpointIndex index_of(const std::string& text, const std::string& address);

}  // namespace tenon
