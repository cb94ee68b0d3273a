// SPDX-License-Identifier: Apache-2.0
//
// The state tree: the state of a run as named values in memory. Components save their state to it
// at a checkpoint, and load it on resume. Storage is not handled here.
// Names are paths ("hooks/0/best"); each subtree may carry the version of its writer.
// Invariant: a name is never put twice.
// Threads: owned by one thread at a time. Meanwhile, another thread may read the tensors inside.

#pragma once

#include <tenon/state.h>

#include "host/tensor/state/tensor_source.hpp"
#include "host/tensor/tensor_piece.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tenon {

// Largest value that put_bytes accepts, in bytes.
inline constexpr size_t kMaxStateBytes = size_t{1} << 20;

// A rank's part of a tensor that ranks share.
struct StatePart {
  TensorPiece piece;
  bool is_sliced = false;  // ranks along shard have other parts; false: they have the same
  // Tensor ranks, with adjacent numbers, that have the same part, of which ranks along the pipeline
  // have nothing; absent: all tensor ranks, also along the pipeline.
  std::optional<uint32_t> num_copies = {};
  // False: another rank saves the same values, and this entry is for a load by this rank.
  bool is_saved = true;
};

// A scope for the host only, in addition to those of state.h: rows along the first dimension that
// differ by rank. If the number of ranks changes, each rank is given all rows and takes its own.
inline constexpr uint32_t kStateByRow = TENON_STATE_PER_RANK + 1;

struct StateEntry {
  // The string holds bytes.
  std::variant<int64_t, double, std::string, at::Tensor, std::shared_ptr<const TensorSource>> value;
  uint32_t scope = TENON_STATE_REPLICATED;  // TENON_STATE_* or kStateByRow
  std::optional<TensorPiece> piece = {};    // none: the whole
  // As in StatePart:
  bool is_sliced = false;
  std::optional<uint32_t> num_copies = {};
  bool is_saved = true;
};

class StateTree {
 public:
  enum class Copy { kNo, kYes };
  // Where copies of tensors are stored: on the device of the original, or in host memory. With
  // kNone, no copies are made: the tree is no longer needed when the originals change.
  enum class Copies { kInPlace, kOnHost, kNone };

  StateTree() = default;
  explicit StateTree(Copies copies) : copies_(copies) {}
  Copies copies() const { return copies_; }

  // Excludes names: entries with such names are not stored, and on load their owners keep the
  // current values.
  using NameTest = std::function<bool(std::string_view name)>;
  void leave_out(NameTest names) { excluded_ = std::move(names); }
  // True if an entry, or a whole subtree, is excluded.
  bool is_excluded(std::string_view name) const { return excluded_ && excluded_(name); }
  // Returns an empty tree with the same copies and exclusions.
  StateTree empty_like() const;

  // Adds an entry. A tensor is stored without its autograd history, and without a copy. A caller
  // that keeps changing it in place passes Copy::kYes.
  //
  // Errors  state.bad_entry for an illegal name, a name that exists, too many bytes, or an unknown
  //         scope
  void put_int(std::string_view name, int64_t value, uint32_t scope = TENON_STATE_REPLICATED);
  void put_double(std::string_view name, double value, uint32_t scope = TENON_STATE_REPLICATED);
  void put_bytes(std::string_view name,
                 std::string_view bytes,
                 uint32_t scope = TENON_STATE_REPLICATED);
  void put_tensor(std::string_view name,
                  const at::Tensor& tensor,
                  Copy copy,
                  uint32_t scope = TENON_STATE_REPLICATED);
  // Adds a tensor that is read on demand, at the latest when the tree is written. It must not
  // change before that.
  void put_source(std::string_view name,
                  std::shared_ptr<const TensorSource> source,
                  uint32_t scope = TENON_STATE_REPLICATED);
  // Adds this rank's part of a tensor that ranks share: in the shape of its box if the part is all
  // of the box, else flat.
  // Shapes  tensor: any of the piece's numel(), contiguous
  void put_part(std::string_view name, const at::Tensor& tensor, const StatePart& part, Copy copy);

  // Adds an entry of another tree, unchanged.
  void put_entry(std::string_view name, const StateEntry& entry) { put(name, StateEntry(entry)); }

  // Returns the value of an entry. References are valid until the tree changes. A tensor that is
  // not in memory is read at each call.
  //
  // Errors  state.missing_entry; state.wrong_type; for tensors, those of TensorSource::read
  int64_t get_int(std::string_view name) const;
  double get_double(std::string_view name) const;
  const std::string& get_bytes(std::string_view name) const;
  at::Tensor get_tensor(std::string_view name) const;

  // Copies the values of a tensor, or of a piece of it, to `to`. A tensor in memory must have the
  // same piece in the tree; a source can read any piece.
  //
  // Shapes  to: any of the piece's numel(), contiguous; without a piece, the shape of the tensor
  // Errors  state.missing_entry; state.wrong_type; state.wrong_shape for another shape, dtype or
  //         piece
  void copy_tensor(std::string_view name,
                   at::Tensor to,
                   const std::optional<TensorPiece>& piece = {}) const;

  // Same, for rows along the first dimension: from `first` on, as many as `to` has.
  void copy_rows(std::string_view name, int64_t first, const at::Tensor& to) const;
  // Returns the shape of a tensor, in memory or not.
  // Errors  as get_tensor
  std::vector<int64_t> shape_of(std::string_view name) const;

  // Returns the entry, or null if it does not exist.
  const StateEntry* find(std::string_view name) const;
  // True if an entry or a version exists at or below `prefix`.
  bool has_subtree(std::string_view prefix) const;

  // The version of a subtree; 0 if none was set. "" is the whole tree.
  void set_version(std::string_view prefix, uint32_t version);
  uint32_t version(std::string_view prefix) const;

  // Returns the bytes of all tensors, including those not in memory.
  int64_t tensor_bytes() const;

  // All entries and versions, sorted by name, as a checkpoint writes them.
  const std::map<std::string, StateEntry, std::less<>>& entries() const { return entries_; }
  const std::map<std::string, uint32_t, std::less<>>& versions() const { return versions_; }

  // Compares names, scopes, versions and values bitwise: -0.0 is not 0.0, a NaN equals itself.
  friend bool operator==(const StateTree& a, const StateTree& b);

 private:
  void put(std::string_view name, StateEntry&& entry);
  const StateEntry& at_name(std::string_view name) const;
  template <class T>
  const T& get(std::string_view name) const;

  Copies copies_ = Copies::kInPlace;
  NameTest excluded_;
  std::map<std::string, StateEntry, std::less<>> entries_;
  std::map<std::string, uint32_t, std::less<>> versions_;
};

// "prefix/name", or `name` alone under the empty prefix.
std::string state_path(std::string_view prefix, std::string_view name);

// True for names that plugins may use: "a/b/c" of [a-z0-9_.-], no part empty, "." or "..".
bool is_legal_state_name(std::string_view name) noexcept;

// An object whose state belongs in a checkpoint.
class Stateful {
 public:
  virtual ~Stateful() = default;

  // Saves the state below `prefix`. Fast, without I/O; changes nothing.
  //
  // Threads  [step], between steps
  virtual void snapshot(StateTree& tree, const std::string& prefix) const = 0;

  // Loads the state below `prefix`.
  //
  // Errors   state.missing_entry, state.wrong_type, and those of the component
  // Threads  [main]
  virtual void load(const StateTree& tree, const std::string& prefix) = 0;
};

}  // namespace tenon
