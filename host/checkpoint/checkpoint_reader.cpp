// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_reader.hpp"

#include "host/checkpoint/checkpoint_files.hpp"
#include "host/checkpoint/safetensors.hpp"
#include "host/checkpoint/summed_read.hpp"
#include "host/error/error.hpp"
#include "host/error/plugin_text.hpp"
#include "host/io/checked_size.hpp"
#include "host/io/checksum.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <span>
#include <sstream>
#include <utility>

namespace tenon {
namespace {

// Buffer size in bytes for data that is verified but not returned, and for ranges that are read
// together.
constexpr uint64_t kLookedAt = uint64_t{16} << 20;
// Bytes between two wanted ranges of a piece that are read rather than skipped.
constexpr uint64_t kMostSkipped = uint64_t{1} << 20;
// Maximum size of the index, the recipe and the checksums. An index has about 300 bytes per tensor
// and rank.
constexpr uint64_t kMostTextBytes = uint64_t{1} << 30;

struct Location {
  std::shared_ptr<CheckpointStore> storage;
  std::string checkpoint;
};

// A tensor of a checkpoint. Sequential reads of a piece compute its checksum along the way. A read
// that is not sequential first verifies the whole piece.
class StoredSource final : public TensorSource {
 public:
  StoredSource(Location location,
               std::string name,
               at::ScalarType dtype,
               const StoredTensor& tensor)
      : TensorSource(dtype, tensor.shape),
        location_(std::move(location)),
        name_(std::move(name)),
        pieces_(tensor.pieces),
        progress_(tensor.pieces.size()) {
    tensor_pieces_.reserve(pieces_.size());
    for (const StoredPiece& piece : pieces_) {
      tensor_pieces_.push_back(piece_of(tensor, piece));
    }
  }

  void read(int64_t first, const at::Tensor& out) const override {
    read_piece(TensorPiece(shape()).part(first, out.numel()), out);
  }

  void read_piece(const TensorPiece& wanted, const at::Tensor& out) const override {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      Batch batch;
      for_each_shared_range(
          wanted, tensor_pieces_[i], [&](int64_t in_out, int64_t in_piece, int64_t numel) {
            const Range range{in_out, in_piece, numel};
            if (!batch.empty() && !is_read_with(batch, range)) {
              read_batch(i, batch, out);
              batch.clear();
            }
            batch.push_back(range);
          });
      if (!batch.empty()) {
        read_batch(i, batch, out);
      }
    }
  }

  void verify() const {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const std::lock_guard lock(mutex_);
      look_at_whole(i);
    }
  }

 private:
  // The checksum of the part of a piece that has been read, starting at its beginning.
  struct Progress {
    Checksum sum;
    uint64_t end = 0;  // offset in the file; 0: nothing read yet
    bool is_whole = false;
  };

  // Elements that a read and a piece share.
  struct Range {
    int64_t in_out = 0;
    int64_t in_piece = 0;
    int64_t numel = 0;
  };
  // Ranges that are read from the piece at once, in order.
  using Batch = std::vector<Range>;

  uint64_t bytes_of(int64_t numel) const {
    return static_cast<uint64_t>(numel) * c10::elementSize(dtype());
  }

  bool is_read_with(const Batch& batch, const Range& next) const {
    const int64_t gap = next.in_piece - batch.back().in_piece - batch.back().numel;
    const int64_t all = next.in_piece + next.numel - batch.front().in_piece;
    return bytes_of(gap) <= kMostSkipped && bytes_of(all) <= kLookedAt;
  }

  // A single range is read directly into `out`; several are read together, and then copied.
  void read_batch(size_t i, const Batch& batch, const at::Tensor& out) const {
    auto* const bytes = static_cast<std::byte*>(out.mutable_data_ptr());
    const int64_t first = batch.front().in_piece;
    const uint64_t begin = pieces_[i].begin + bytes_of(first);
    const auto part_of_out = [&](const Range& range) {
      return std::span(bytes + bytes_of(range.in_out), bytes_of(range.numel));
    };
    if (batch.size() == 1) {
      read_bytes(i, begin, part_of_out(batch.front()));
      return;
    }
    std::vector<std::byte> together(bytes_of(batch.back().in_piece + batch.back().numel - first));
    read_bytes(i, begin, together);
    for (const Range& range : batch) {
      std::memcpy(part_of_out(range).data(),
                  together.data() + bytes_of(range.in_piece - first),
                  bytes_of(range.numel));
    }
  }

  // Reads bytes of piece `i` from `begin` on, an offset in the file.
  void read_bytes(size_t i, uint64_t begin, std::span<std::byte> out) const {
    const StoredPiece& piece = pieces_[i];
    const std::lock_guard lock(mutex_);
    Progress& progress = progress_[i];
    const bool goes_on = begin == (progress.end == 0 ? piece.begin : progress.end);
    if (!progress.is_whole && !goes_on) {
      look_at_whole(i);
    }
    Checksum* const sum = progress.is_whole ? nullptr : &progress.sum;
    try {
      read_summed(*location_.storage, location_.checkpoint, piece.file, begin, out, sum);
    } catch (...) {
      if (sum != nullptr) {
        progress = Progress();  // the checksum is unusable
      }
      throw;
    }
    if (sum != nullptr) {
      progress.end = begin + out.size();
      if (progress.end == piece.end) {
        conclude(i, progress);
      }
    }
  }

  void look_at_whole(size_t i) const {
    const StoredPiece& piece = pieces_[i];
    Progress progress;
    std::vector<std::byte> buffer(std::min(kLookedAt, piece.end - piece.begin));
    for (uint64_t at = piece.begin; at < piece.end; at += kLookedAt) {
      const auto part = std::span(buffer).first(std::min(kLookedAt, piece.end - at));
      read_summed(*location_.storage, location_.checkpoint, piece.file, at, part, &progress.sum);
    }
    conclude(i, progress);
  }

  void conclude(size_t i, Progress& progress) const {
    const StoredPiece& piece = pieces_[i];
    if (progress.sum.value() != piece.xxh3) {
      throw Error("checkpoint.damaged",
                  formatted("{}: {} is corrupt: entry '{}', bytes {} to {}, has the checksum {}, "
                            "expected {}",
                            location_.storage->address(location_.checkpoint),
                            piece.file,
                            name_,
                            piece.begin,
                            piece.end,
                            xxh3_text(progress.sum.value()),
                            xxh3_text(piece.xxh3)));
    }
    progress_[i].is_whole = true;
  }

  Location location_;
  std::string name_;
  std::vector<StoredPiece> pieces_;
  std::vector<TensorPiece> tensor_pieces_;  // of the pieces, in the tensor
  mutable std::mutex mutex_;
  mutable std::vector<Progress> progress_;
};

at::ScalarType dtype_of(const StoredTensor& tensor) {
  return *scalar_type_of_safetensors(tensor.dtype);  // index_of() has checked it
}

// Reads a whole file. Its size is checked first, because a corrupt one may exceed the memory.
std::string read_text(CheckpointStore& storage,
                      const std::string& checkpoint,
                      const std::string& file) {
  const uint64_t bytes = storage.file_size(checkpoint, file);
  if (bytes > kMostTextBytes) {
    throw Error("checkpoint.damaged",
                formatted("{}: {} has {} bytes (expected at most {})",
                          storage.address(checkpoint),
                          file,
                          bytes,
                          kMostTextBytes));
  }
  std::string text(bytes, '\0');
  storage.read(checkpoint, file, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

void put_entries(const StoredEntries& entries, const Location& location, StateTree& tree) {
  for (const auto& [name, number] : entries.numbers) {
    if (const auto* const integer = std::get_if<int64_t>(&number.value)) {
      tree.put_int(name, *integer, number.scope);
    } else {
      tree.put_double(name, std::get<double>(number.value), number.scope);
    }
  }
  for (const auto& [name, tensor] : entries.tensors) {
    auto source = std::make_shared<StoredSource>(location, name, dtype_of(tensor), tensor);
    if (tensor.is_bytes) {
      const at::Tensor bytes = source->whole();
      tree.put_bytes(
          name, {static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()}, tensor.scope);
    } else {
      tree.put_source(name, std::move(source), tensor.scope);
    }
  }
}

// True if rows of both tensors can be concatenated.
bool have_equal_rows(const StoredTensor& a, const StoredTensor& b) {
  return a.dtype == b.dtype && !a.shape.empty() && a.shape.size() == b.shape.size() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

// Concatenates the rows of all ranks.
void put_rows(const std::vector<StoredEntries>& by_rank,
              const Location& location,
              StateTree& tree) {
  std::map<std::string, StoredTensor> whole;
  for (const StoredEntries& entries : by_rank) {
    for (const auto& [name, tensor] : entries.tensors) {
      if (tensor.scope != kStateByRow) {
        continue;
      }
      auto [at, is_new] = whole.try_emplace(name, tensor);
      StoredTensor& rows = at->second;
      if (is_new) {
        continue;
      }
      std::vector<int64_t> shape = rows.shape;
      const bool are_equal = have_equal_rows(rows, tensor) &&
                             !__builtin_add_overflow(shape[0], tensor.shape[0], shape.data());
      const uint64_t element = c10::elementSize(dtype_of(tensor));
      const auto bytes_before = checked_bytes(rows.shape, element);
      if (!are_equal || !bytes_before.has_value() || !checked_bytes(shape, element).has_value()) {
        throw Error("checkpoint.damaged",
                    location.storage->address(location.checkpoint) + ": '" + name +
                        "' has different dimensions or dtypes on its ranks");
      }
      for (StoredPiece piece : tensor.pieces) {
        if (piece.box) {
          piece.box->start[0] += rows.shape[0];
          for (IndexRange& range : piece.box->ranges) {
            range.start += piece.box->axis == 0 ? rows.shape[0] : 0;
          }
        } else {
          piece.first += static_cast<int64_t>(*bytes_before / element);
        }
        rows.pieces.push_back(std::move(piece));
      }
      rows.shape = std::move(shape);
    }
  }
  for (const auto& [name, tensor] : whole) {
    tree.put_source(name,
                    std::make_shared<StoredSource>(location, name, dtype_of(tensor), tensor),
                    kStateByRow);
  }
}

}  // namespace

CheckpointReader::CheckpointReader(std::shared_ptr<CheckpointStore> storage, std::string checkpoint)
    : storage_(std::move(storage)), checkpoint_(std::move(checkpoint)) {
  const std::vector<std::string> files = storage_->list_files(checkpoint_);
  for (const char* const needed : {kSumsFile, kIndexFile, kRecipeFile}) {
    if (std::ranges::find(files, needed) == files.end()) {
      throw Error("checkpoint.foreign",
                  address() + " is not a checkpoint, or is corrupt: it has no " + needed);
    }
  }
  const std::string text = read_text(*storage_, checkpoint_, kIndexFile);
  recipe_ = read_text(*storage_, checkpoint_, kRecipeFile);
  const std::string sums = read_text(*storage_, checkpoint_, kSumsFile);
  std::istringstream lines(sums);
  for (std::string sum, name; lines >> sum >> name;) {
    const bool is_index = name == kIndexFile;
    if ((is_index || name == kRecipeFile) && xxh128_text(is_index ? text : recipe_) != sum) {
      throw Error("checkpoint.damaged",
                  address() + ": " + name + " does not match its checksum in " + kSumsFile);
    }
  }
  if (sums != sums_text(text, recipe_)) {
    throw Error("checkpoint.damaged", address() + ": " + kSumsFile + " is corrupt");
  }
  index_ = index_of(text, address());
  check_record();
  for (const StoredFile& file : index_.files) {
    if (std::ranges::find(files, file.name) == files.end()) {
      throw Error("checkpoint.damaged", address() + ": the file " + file.name + " is missing");
    }
    if (const uint64_t bytes = storage_->file_size(checkpoint_, file.name); bytes != file.bytes) {
      throw Error(
          "checkpoint.damaged",
          formatted("{}: {} has {} bytes, expected {}", address(), file.name, bytes, file.bytes));
    }
  }
}

// A copy under another name keeps its name in both.
void CheckpointReader::check_record() const {
  const auto record = storage_->commit_record(checkpoint_);
  const std::string& name = index_.metadata.checkpoint;
  if (record.has_value() && record->has_checksum() && !name.empty() && record->name != name) {
    throw Error("checkpoint.damaged",
                formatted("{}: COMMITTED and {} are of different checkpoints, {} and {}",
                          address(),
                          kIndexFile,
                          record->name,
                          printable_line(name)));
  }
}

// Verifies the bytes before the tensors. Tenon does not use them, but other programs do.
void CheckpointReader::check_header(const StoredFile& file) const {
  uint64_t end = file.bytes;
  const auto look = [&](const StoredEntries& entries) {
    for (const auto& [name, tensor] : entries.tensors) {
      for (const StoredPiece& piece : tensor.pieces) {
        if (piece.file == file.name) {
          end = std::min(end, piece.begin);
        }
      }
    }
  };
  look(index_.shared);
  std::ranges::for_each(index_.by_rank, look);
  Checksum sum;
  std::vector<std::byte> buffer(std::min(kLookedAt, end));
  for (uint64_t at = 0; at < end; at += kLookedAt) {
    const auto part = std::span(buffer).first(std::min(kLookedAt, end - at));
    read_summed(*storage_, checkpoint_, file.name, at, part, &sum);
  }
  if (sum.value() != file.header_xxh3) {
    throw Error("checkpoint.damaged",
                formatted("{}: {} is corrupt: its header, bytes 0 to {}, has the checksum {}, "
                          "expected {}",
                          address(),
                          file.name,
                          end,
                          xxh3_text(sum.value()),
                          xxh3_text(file.header_xxh3)));
  }
}

StateTree CheckpointReader::state(uint32_t rank,
                                  uint32_t num_ranks,
                                  std::vector<std::string>* dropped) const {
  const Location location{storage_, checkpoint_};
  for (size_t i = rank; i < index_.files.size(); i += num_ranks) {
    check_header(index_.files[i]);
  }
  StateTree tree;
  for (const auto& [name, version] : index_.versions) {
    tree.set_version(name, version);
  }
  put_entries(index_.shared, location, tree);
  if (num_ranks == index_.by_rank.size()) {
    put_entries(index_.by_rank.at(rank), location, tree);
    return tree;
  }
  put_rows(index_.by_rank, location, tree);
  if (dropped != nullptr && !index_.by_rank.empty()) {
    const StoredEntries& first = index_.by_rank.front();
    for (const auto& [name, number] : first.numbers) {
      dropped->push_back(name);
    }
    for (const auto& [name, tensor] : first.tensors) {
      if (tensor.scope == TENON_STATE_PER_RANK) {
        dropped->push_back(name);
      }
    }
  }
  return tree;
}

void CheckpointReader::verify() const {
  const Location location{storage_, checkpoint_};
  const auto verify_all = [&](const StoredEntries& entries) {
    for (const auto& [name, tensor] : entries.tensors) {
      StoredSource(location, name, dtype_of(tensor), tensor).verify();
    }
  };
  std::ranges::for_each(index_.files, [&](const StoredFile& file) { check_header(file); });
  verify_all(index_.shared);
  for (const StoredEntries& entries : index_.by_rank) {
    verify_all(entries);
  }
}

}  // namespace tenon
