// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/checkpoint_corpus.hpp"

#include "host/checkpoint/checkpoint_files.hpp"
#include "host/checkpoint/safetensors.hpp"
#include "host/error/error.hpp"
#include "host/io/checksum.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

namespace tenon {
namespace {

uint64_t sum_of(std::string_view bytes) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(bytes)));
  return sum.value();
}

// The file of one rank, and the pieces in it.
struct RankFile {
  std::string content;
  std::vector<SafeTensor> tensors;
};

RankFile rank_file(uint32_t rank) {
  RankFile file;
  file.tensors = {{.name = "parameters/values/w", .dtype = at::kFloat, .shape = {3}},
                  {.name = "parameters/values/columns", .dtype = at::kFloat, .shape = {2}},
                  {.name = "tables/t/ids", .dtype = at::kLong, .shape = {2}},
                  {.name = "empty", .dtype = at::kFloat, .shape = {0, 3}},
                  {.name = "text", .dtype = at::kByte, .shape = {4}}};
  file.content = safetensors_header(file.tensors, {{"format", "pt"}});
  const uint64_t end = file.tensors.back().end;
  while (file.content.size() < end) {
    file.content.push_back(static_cast<char>(file.content.size() + rank));
  }
  return file;
}

}  // namespace

std::vector<RankShare> corpus_shares(uint32_t num_ranks) {
  std::vector<RankShare> shares;
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    const RankFile file = rank_file(rank);
    const std::string name = rank_file_name(rank, num_ranks);
    const auto tensor = [&](size_t i, std::vector<int64_t> shape, uint32_t scope, int64_t first) {
      const SafeTensor& of = file.tensors[i];
      const std::string_view bytes =
          std::string_view(file.content).substr(of.begin, of.end - of.begin);
      StoredTensor stored{.dtype = std::string(*safetensors_dtype(of.dtype)),
                          .shape = std::move(shape),
                          .scope = scope,
                          .is_bytes = false,
                          .pieces = {}};
      if (!bytes.empty()) {
        stored.pieces.push_back({.file = name,
                                 .begin = of.begin,
                                 .end = of.end,
                                 .first = first,
                                 .numel = of.shape[0],
                                 .xxh3 = sum_of(bytes)});
      }
      return stored;
    };
    RankShare share;
    share.files = {{name,
                    file.content.size(),
                    sum_of(std::string_view(file.content).substr(0, file.tensors[0].begin))}};
    share.versions = {{"", 1}, {"components/hooks/0", 7}};
    share.shared.tensors["parameters/values/w"] =
        tensor(0, {3 * static_cast<int64_t>(num_ranks)}, TENON_STATE_REPLICATED, 3 * rank);
    StoredTensor& columns = share.shared.tensors["parameters/values/columns"];
    columns = tensor(1, {2, static_cast<int64_t>(num_ranks)}, TENON_STATE_REPLICATED, 0);
    columns.pieces[0].box = Box{.start = {0, rank}, .size = {2, 1}};
    share.shared.tensors["empty"] = tensor(3, {0, 3}, TENON_STATE_REPLICATED, 0);
    share.shared.numbers["run/step"] = {int64_t{12}, TENON_STATE_REPLICATED};
    share.shared.numbers["run/odd"] = {std::numeric_limits<double>::quiet_NaN(),
                                       TENON_STATE_REPLICATED};
    share.shared.numbers["run/third"] = {1.0 / 3, TENON_STATE_REPLICATED};
    share.own.tensors["tables/t/ids"] = tensor(2, {2}, kStateByRow, 0);
    share.own.tensors["text"] = tensor(4, {4}, TENON_STATE_PER_RANK, 0);
    share.own.tensors["text"].is_bytes = true;
    share.own.numbers["own"] = {int64_t{rank}, TENON_STATE_PER_RANK};
    shares.push_back(std::move(share));
  }
  return shares;
}

CheckpointMetadata corpus_metadata(uint64_t step) {
  CheckpointMetadata metadata;
  metadata.run = "a";
  metadata.checkpoint = "step-" + std::to_string(step);
  metadata.kind = kFullCheckpoint;
  metadata.tenon = "0.4.0";
  metadata.torch = "2.9.1";
  metadata.machine = "x86-64";
  metadata.compute_threads = 1;
  metadata.precision = "fp32";
  metadata.device = "cpu";
  metadata.step = step;
  metadata.updates = step;
  metadata.samples = 4 * static_cast<int64_t>(step);
  metadata.at = "step";
  metadata.time = "2026-01-31T12:00:00Z";
  metadata.evaluated_step = 1;
  metadata.metrics = {{"train/loss", 0.5}};
  metadata.plugins = {{"tenon.mse", "0.4.0", "0123456789abcdef0123456789abcdef"}};
  metadata.excluded = {.parameters = {"frozen"}, .tables = {}};
  return metadata;
}

void set_sums(MemoryCheckpoint& checkpoint) {
  checkpoint.files[kSumsFile] =
      sums_text(checkpoint.files[kIndexFile], checkpoint.files[kRecipeFile]);
}

MemoryCheckpoint corpus_checkpoint(uint64_t step, uint64_t sequence, uint32_t num_ranks) {
  MemoryCheckpoint made;
  const CheckpointMetadata metadata = corpus_metadata(step);
  made.name = metadata.checkpoint;
  made.committed = commit_record_text(sequence, made.name);
  for (uint32_t rank = 0; rank < num_ranks; ++rank) {
    made.files[rank_file_name(rank, num_ranks)] = rank_file(rank).content;
  }
  made.files[kIndexFile] = index_text(merged(metadata, corpus_shares(num_ranks)));
  made.files[kRecipeFile] = "{\"name\": \"a\"}\n";
  set_sums(made);
  return made;
}

const MemoryCheckpoint& MemoryStorage::find(const std::string& checkpoint) const {
  const auto found = std::ranges::find(checkpoints, checkpoint, &MemoryCheckpoint::name);
  if (found == checkpoints.end()) {
    throw Error("storage.not_found", address(checkpoint) + " does not exist");
  }
  return *found;
}

std::vector<std::string> MemoryStorage::list() {
  std::vector<std::string> names;
  for (const MemoryCheckpoint& one : checkpoints) {
    names.push_back(one.name);
  }
  return names;
}

std::vector<std::string> MemoryStorage::list_files(const std::string& checkpoint) {
  std::vector<std::string> names;
  for (const auto& [name, content] : find(checkpoint).files) {
    names.push_back(name);
  }
  return names;
}

uint64_t MemoryStorage::file_size(const std::string& checkpoint, const std::string& file) {
  const auto& files = find(checkpoint).files;
  const auto found = files.find(file);
  if (found == files.end()) {
    throw Error("storage.not_found", file + " does not exist");
  }
  return found->second.size();
}

void MemoryStorage::read(const std::string& checkpoint,
                         const std::string& file,
                         uint64_t offset,
                         std::span<std::byte> out) {
  const uint64_t size = file_size(checkpoint, file);
  if (offset > size || out.size() > size - offset) {
    throw Error("storage.io", file + " ends too early");
  }
  std::memcpy(out.data(), find(checkpoint).files.at(file).data() + offset, out.size());
}

std::optional<CommitRecord> MemoryStorage::commit_record(const std::string& checkpoint) {
  const auto record = commit_record_of(find(checkpoint).committed);
  if (!record.has_value()) {
    throw Error("checkpoint.damaged", address(checkpoint) + "/COMMITTED is corrupt");
  }
  return record;
}

}  // namespace tenon
