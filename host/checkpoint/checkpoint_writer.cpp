// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_writer.hpp"

#include "host/checkpoint/checkpoint_files.hpp"
#include "host/checkpoint/safetensors.hpp"
#include "host/error/error.hpp"
#include "host/io/checksum.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

namespace tenon {
namespace {

// Bytes per write to the storage, and per read from a source.
constexpr size_t kWriteChunk = size_t{8} << 20;
// Minimum size in bytes for computing the checksum on a separate thread.
constexpr size_t kLeastBeside = size_t{4} << 20;

// Assigns each item to the owner with the fewest bytes so far; among equals, to the lowest index.
class EvenShares {
 public:
  explicit EvenShares(uint32_t num_owners) {
    for (uint32_t owner = 0; owner < num_owners; ++owner) {
      least_.emplace(0, owner);
    }
  }
  uint32_t give(uint64_t bytes) {
    const auto [had, owner] = least_.top();
    least_.pop();
    least_.emplace(had + bytes + 1, owner);
    return owner;
  }

 private:
  using Load = std::pair<uint64_t, uint32_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least_;
};

// An entry that this rank writes.
struct Written {
  const StateEntry* entry = nullptr;
  at::Tensor tensor;                     // set if the entry is in memory
  const TensorSource* source = nullptr;  // set otherwise
  bool is_bytes = false;
  std::optional<TensorPiece> piece;  // absent: the whole
  SafeTensor header;                 // in the file

  int64_t numel() const { return source != nullptr ? source->numel() : tensor.numel(); }
};

Written written(const std::string& name, const StateEntry& entry) {
  Written result;
  result.entry = &entry;
  if (const auto* const bytes = std::get_if<std::string>(&entry.value)) {
    result.is_bytes = true;
    result.tensor = at::from_blob(const_cast<char*>(bytes->data()),  // only read
                                  {static_cast<int64_t>(bytes->size())},
                                  at::kByte);
  } else if (const auto* const source =
                 std::get_if<std::shared_ptr<const TensorSource>>(&entry.value)) {
    result.source = source->get();
  } else {
    result.tensor = std::get<at::Tensor>(entry.value);
  }
  result.header.name = name;
  result.header.dtype =
      result.source != nullptr ? result.source->dtype() : result.tensor.scalar_type();
  result.header.shape =
      result.source != nullptr ? result.source->shape() : result.tensor.sizes().vec();
  result.piece = entry.piece;
  return result;
}

// Adds bytes to a checksum while they are written; large blocks on a separate thread. The
// destructor waits until the checksum is complete.
class SummedBeside {
 public:
  SummedBeside(std::span<const std::byte> bytes, Checksum& sum) {
    if (bytes.size() >= kLeastBeside) {
      try {
        thread_ = std::thread([bytes, &sum] { sum.add(bytes); });
        return;
      } catch (const std::system_error&) {  // too many threads
      }
    }
    sum.add(bytes);
  }
  ~SummedBeside() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  SummedBeside(const SummedBeside&) = delete;
  SummedBeside& operator=(const SummedBeside&) = delete;

 private:
  std::thread thread_;
};

// True for entries that belong to one rank; all other entries are shared.
bool is_own(uint32_t scope) {
  return scope == TENON_STATE_PER_RANK || scope == kStateByRow;
}

// Writes one tensor and returns the checksum of its bytes.
uint64_t write_tensor(const Written& what, CheckpointFile& file, const std::atomic<bool>& give_up) {
  Checksum sum;
  const auto put = [&](std::span<const std::byte> bytes) {
    const SummedBeside summed(bytes, sum);
    for (size_t at = 0; at < bytes.size(); at += kWriteChunk) {
      if (give_up) {
        throw Error("checkpoint.given_up", "the writing of a checkpoint was given up");
      }
      file.write(bytes.subspan(at, std::min(kWriteChunk, bytes.size() - at)));
    }
  };
  const auto bytes_of = [](const at::Tensor& tensor) {
    return std::span(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
  };
  if (what.source == nullptr) {
    put(bytes_of(what.tensor.cpu().contiguous()));
    return sum.value();
  }
  const auto at_once = static_cast<int64_t>(kWriteChunk / c10::elementSize(what.source->dtype()));
  const at::Tensor buffer = at::empty({std::min(at_once, what.numel())}, what.source->dtype());
  for (int64_t first = 0; first < what.numel(); first += at_once) {
    const at::Tensor part = buffer.narrow(0, 0, std::min(at_once, what.numel() - first));
    what.source->read(first, part);
    put(bytes_of(part));
  }
  return sum.value();
}

// Assigns replicated tensors evenly to the ranks that have copies of them. Parts of parameters have
// copies on ranks with the same blocks, and all other tensors also along the pipeline. Call it for
// each of them in the order of their names.
class SharedWork {
 public:
  explicit SharedWork(const RankRole& role) : role_(role) {}

  bool is_mine(const StateEntry& entry, uint64_t bytes) {
    if (!entry.num_copies.has_value() && role_.pipeline().index != 0) {
      return false;
    }
    const uint32_t num_copies = entry.num_copies.value_or(role_.tensor().count);
    const RankIndex copy =
        entry.is_sliced ? role_.copy_of_slice(num_copies) : role_.copy_of_whole(num_copies);
    const auto shares = shares_.try_emplace({entry.is_sliced, num_copies}, copy.count).first;
    return shares->second.give(bytes) == copy.index;
  }

 private:
  const RankRole& role_;
  std::map<std::pair<bool, uint32_t>, EvenShares> shares_;  // by which ranks have the same tensors
};

// Adds this rank's numbers and versions to `share`, and returns the tensors that it writes.
std::vector<Written> assigned_to(const RankRole& role, const StateTree& tree, RankShare& share) {
  for (const auto& [name, version] : tree.versions()) {
    share.versions[name] = version;
  }
  SharedWork work(role);
  // The first rank of each pipeline rank writes numbers of its parameters. If several write a
  // number, the index has that of the first.
  const bool writes_numbers = role.index_in(RankSet::kStage).index == 0;
  std::vector<Written> mine;
  for (const auto& [name, entry] : tree.entries()) {
    const bool is_replicated = entry.scope == TENON_STATE_REPLICATED;
    const auto number = [&](auto value) {
      if (!is_replicated || writes_numbers) {
        (is_own(entry.scope) ? share.own : share.shared).numbers[name] = {value, entry.scope};
      }
    };
    if (const auto* const integer = std::get_if<int64_t>(&entry.value)) {
      number(*integer);
      continue;
    }
    if (const auto* const real = std::get_if<double>(&entry.value)) {
      number(*real);
      continue;
    }
    if (!entry.is_saved) {
      continue;
    }
    Written what = written(name, entry);
    const auto bytes = static_cast<uint64_t>(what.numel()) * c10::elementSize(what.header.dtype);
    if (!is_replicated || work.is_mine(entry, bytes)) {
      mine.push_back(std::move(what));
    }
  }
  // Largest elements first, so that the offset of each tensor is a multiple of its element size.
  std::ranges::stable_sort(mine, std::greater(), [](const Written& what) {
    return c10::elementSize(what.header.dtype);
  });
  return mine;
}

}  // namespace

RankShare write_share(const StateTree& tree,
                      const RankRole& role,
                      CheckpointStore& storage,
                      const std::string& checkpoint,
                      const std::atomic<bool>& give_up) {
  RankShare share;
  const std::vector<Written> mine = assigned_to(role, tree, share);
  std::vector<SafeTensor> headers;
  headers.reserve(mine.size());
  for (const Written& what : mine) {
    headers.push_back(what.header);
  }
  const std::string header = safetensors_header(
      headers,
      {{"format", "pt"}, {"writer", "tenon.checkpoint"}, {"rank", std::to_string(role.rank())}});
  const std::string name = rank_file_name(role.rank(), role.num_ranks());
  const auto file = storage.create_file(checkpoint, name);
  file->write(std::as_bytes(std::span(header)));
  Checksum header_sum;
  header_sum.add(std::as_bytes(std::span(header)));
  uint64_t end = header.size();
  for (size_t i = 0; i < mine.size(); ++i) {
    const Written& what = mine[i];
    const uint64_t sum = write_tensor(what, *file, give_up);
    const uint32_t scope = what.entry->scope;
    StoredTensor& stored = (is_own(scope) ? share.own : share.shared).tensors[what.header.name];
    stored.dtype = *safetensors_dtype(what.header.dtype);
    stored.shape = what.piece ? what.piece->shape() : what.header.shape;
    stored.scope = scope;
    stored.is_bytes = what.is_bytes;
    if (what.numel() > 0) {
      stored.pieces = {{.file = name,
                        .begin = headers[i].begin,
                        .end = headers[i].end,
                        .first = what.piece ? what.piece->first() : 0,
                        .numel = what.numel(),
                        .xxh3 = sum,
                        .box = what.piece ? what.piece->box() : std::nullopt}};
    }
    end = headers[i].end;
  }
  file->close();
  share.files = {{name, end, header_sum.value()}};
  return share;
}

std::vector<std::pair<std::string, std::string>> index_files(const CheckpointIndex& index,
                                                             const std::string& frozen_recipe) {
  const std::string text = index_text(index);
  return {{kRecipeFile, frozen_recipe},
          {kIndexFile, text},
          {kSumsFile, sums_text(text, frozen_recipe)}};
}

void write_file(const std::string& name,
                const std::string& content,
                CheckpointStore& storage,
                const std::string& checkpoint) {
  const auto file = storage.create_file(checkpoint, name);
  file->write(std::as_bytes(std::span(content)));
  file->close();
}

}  // namespace tenon
