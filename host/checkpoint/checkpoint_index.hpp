// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint says of itself: index.json. Where each entry of the state is, of what type and
// shape, with a checksum for each piece of a tensor, and the facts of the run it was taken from.
// docs/checkpoints.md has the format to the byte. Invariant: an index that was read is whole:
// pieces of a tensor cover it once, and lie within the files that it names. Threads: any.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tenon {

inline constexpr int64_t kCheckpointVersion = 1;

// Elements [first, first + numel) of a tensor, as bytes [begin, end) of a file.
struct StoredPiece {
  std::string file;
  uint64_t begin = 0;
  uint64_t end = 0;
  int64_t first = 0;
  int64_t numel = 0;
  uint64_t xxh3 = 0;  // XXH3-64 of the bytes
};

struct StoredTensor {
  std::string dtype;           // as safetensors has it: "F32"
  std::vector<int64_t> shape;  // of the whole
  uint32_t scope = 0;          // TENON_STATE_* or kStateByRow
  bool is_bytes = false;       // an entry of bytes, kept as U8
  std::vector<StoredPiece> pieces;
};

struct StoredNumber {
  std::variant<int64_t, double> value;
  uint32_t scope = 0;
};

struct StoredEntries {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, StoredNumber> numbers;
};

struct StoredFile {
  std::string name;
  uint64_t bytes = 0;
  uint64_t header_xxh3 = 0;  // XXH3-64 of what stands before the tensors
};

struct StoredPlugin {
  std::string id;
  std::string version;
  std::string hash;  // of the library
};

// Names of what a checkpoint is without, as the recipe asked.
struct LeftOut {
  std::vector<std::string> parameters;  // and buffers
  std::vector<std::string> tables;
  bool is_empty() const { return parameters.empty() && tables.empty(); }
};

// Of the run that a checkpoint is of, when it was taken.
struct CheckpointFacts {
  std::string run;    // its name
  std::string kind;   // kFullCheckpoint, kWeightsCheckpoint
  std::string tenon;  // versions
  std::string torch;
  std::string machine;  // type of processor, and the instructions that products are made with
  int64_t compute_threads = 0;
  std::string precision;
  std::string device;
  uint64_t step = 0;
  uint64_t updates = 0;
  uint64_t epochs = 0;
  uint64_t windows = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  std::string at;    // where the run was at rest: "start", "step", "window", "epoch"
  std::string time;  // UTC, "2026-01-31T12:00:00Z"
  std::optional<uint64_t> evaluated_step;  // after which the last evaluation was
  std::map<std::string, double> figures;   // the last ones told
  std::vector<StoredPlugin> plugins;
  LeftOut left_out;
};

// Kinds: all of a run, and parameters and rows alone.
inline constexpr char kFullCheckpoint[] = "full";
inline constexpr char kWeightsCheckpoint[] = "weights";

struct CheckpointIndex {
  CheckpointFacts facts;
  std::vector<StoredFile> files;             // of tensors, by rank
  std::map<std::string, uint32_t> versions;  // of subtrees
  StoredEntries shared;                      // by all ranks, and by data shards
  std::vector<StoredEntries> by_rank;        // what belongs to a rank

  int64_t num_ranks() const { return static_cast<int64_t>(by_rank.size()); }
  // Of all tensors.
  uint64_t tensor_bytes() const;
};

// What one rank has written, on its way to the rank that writes the index.
struct RankShare {
  std::vector<StoredFile> files;
  std::map<std::string, uint32_t> versions;
  StoredEntries shared;
  StoredEntries own;
};

std::string share_text(const RankShare& share);
// Errors  checkpoint.damaged
RankShare share_of(const std::string& text);

// Puts the shares of all ranks, by rank, together.
// Errors  checkpoint.incomplete where pieces are missing, or stand there twice
CheckpointIndex merged(CheckpointFacts facts, std::vector<RankShare> shares);

// JSON that ends in a line break.
std::string index_text(const CheckpointIndex& index);
// The sums of an index and a recipe, as `xxh128sum -c` reads them.
std::string sums_text(const std::string& index, const std::string& recipe);
// Errors  checkpoint.damaged with `address` where it is no index, or no whole one;
//         checkpoint.too_new where another release wrote it
CheckpointIndex index_of(const std::string& text, const std::string& address);

}  // namespace tenon
