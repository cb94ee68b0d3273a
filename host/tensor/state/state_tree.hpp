// SPDX-License-Identifier: Apache-2.0
//
// The state tree: what a run is made of, as named values in memory. Components put theirs in at a
// checkpoint and take them out on resume; how it gets to a disk and back is not known here.
// Names are paths ("hooks/0/best"); each subtree may carry the version of whoever wrote it.
// Invariant: a name is never put twice.
// Threads: owned by one thread at a time. Tensors inside may be read by another thread meanwhile.

#pragma once

#include <tenon/state.h>

#include "host/tensor/state/tensor_source.hpp"

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

// Largest value that put_bytes takes.
inline constexpr size_t kMaxStateBytes = size_t{1} << 20;

// What a tensor is of a whole of `shape` that ranks share: its elements from `offset` on, flat.
struct StatePart {
  std::vector<int64_t> shape;
  int64_t offset = 0;
  bool is_sliced = false;  // other ranks have other parts; else all have the whole
  bool operator==(const StatePart&) const = default;
};

// Beside the scopes of state.h, and the host's own: rows, along the first dimension, that each rank
// has others of. Where ranks change, every rank is given those of all, and takes its own.
inline constexpr uint32_t kStateByRow = TENON_STATE_PER_RANK + 1;

struct StateEntry {
  // The string holds bytes.
  std::variant<int64_t, double, std::string, at::Tensor, std::shared_ptr<const TensorSource>> value;
  uint32_t scope = TENON_STATE_REPLICATED;  // TENON_STATE_* or kStateByRow
  std::optional<StatePart> part = {};       // none: the whole
  bool is_sliced = false;                   // as StatePart's, also of a whole
};

class StateTree {
 public:
  enum class Copy { kNo, kYes };
  // Where copies of tensors lie: beside what they are copied from, or in host memory. Or none are
  // made: whoever has the tree is done with it before anything changes.
  enum class Copies { kInPlace, kOnHost, kNone };

  StateTree() = default;
  explicit StateTree(Copies copies) : copies_(copies) {}
  Copies copies() const { return copies_; }

  // Names of what a state is without: it is not taken in, and whoever loads keeps what he has.
  using NameTest = std::function<bool(std::string_view name)>;
  void leave_out(NameTest names) { excluded_ = std::move(names); }
  // Of an entry, or of a whole subtree.
  bool is_excluded(std::string_view name) const { return excluded_ && excluded_(name); }
  // An empty one that copies in the same way and is without the same.
  StateTree empty_like() const;

  // Adds an entry. A tensor is kept as it is, without its autograd history; a caller that keeps
  // changing it in place passes Copy::kYes.
  //
  // Errors  state.bad_entry: an illegal name, one that is there, too many bytes, an unknown scope
  void put_int(std::string_view name, int64_t value, uint32_t scope = TENON_STATE_REPLICATED);
  void put_double(std::string_view name, double value, uint32_t scope = TENON_STATE_REPLICATED);
  void put_bytes(std::string_view name,
                 std::string_view bytes,
                 uint32_t scope = TENON_STATE_REPLICATED);
  void put_tensor(std::string_view name,
                  const at::Tensor& tensor,
                  Copy copy,
                  uint32_t scope = TENON_STATE_REPLICATED);
  // A tensor that is made when it is asked for, at the latest when the tree is written. It must not
  // change before.
  void put_source(std::string_view name,
                  std::shared_ptr<const TensorSource> source,
                  uint32_t scope = TENON_STATE_REPLICATED);
  // What this rank has of a tensor that ranks share: flat, or in the whole's shape where that is
  // all of it.
  void put_part(std::string_view name, const at::Tensor& tensor, const StatePart& part, Copy copy);

  // Adds an entry of another tree as it is.
  void put_entry(std::string_view name, const StateEntry& entry) { put(name, StateEntry(entry)); }

  // The value of an entry. References last until the tree changes; a tensor that is not in memory
  // is read at each call.
  //
  // Errors  state.missing_entry; state.wrong_type; of tensors: those of TensorSource::read
  int64_t get_int(std::string_view name) const;
  double get_double(std::string_view name) const;
  const std::string& get_bytes(std::string_view name) const;
  at::Tensor get_tensor(std::string_view name) const;

  // Copies the values of a tensor, or of a part of one, to where they belong. Of a tensor that is
  // in memory the tree has the same part; from a source any part is read.
  //
  // Errors  state.missing_entry; state.wrong_type; state.wrong_shape for other sizes, another dtype
  //         or another part
  void copy_tensor(std::string_view name,
                   at::Tensor to,
                   const std::optional<StatePart>& part = {}) const;

  // The same of rows along the first dimension: those from `first` on, as many as `to` has.
  void copy_rows(std::string_view name, int64_t first, const at::Tensor& to) const;
  // Of a tensor, whether it is in memory or not.
  // Errors  as get_tensor
  std::vector<int64_t> shape_of(std::string_view name) const;

  // The entry, or null.
  const StateEntry* find(std::string_view name) const;
  // True if an entry or a version lies at or below `prefix`.
  bool has_subtree(std::string_view prefix) const;

  // The version of a subtree; 0 if none was set. "" is the whole tree.
  void set_version(std::string_view prefix, uint32_t version);
  uint32_t version(std::string_view prefix) const;

  // Bytes of all tensors, of those not in memory too.
  int64_t tensor_bytes() const;

  // All entries and versions, sorted by name: what a checkpoint writes.
  const std::map<std::string, StateEntry, std::less<>>& entries() const { return entries_; }
  const std::map<std::string, uint32_t, std::less<>>& versions() const { return versions_; }

  // Same names, scopes, versions and values, to the bit: -0.0 is not 0.0, a NaN equals itself.
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

// True for "a/b/c" of [a-z0-9_.-], no part of which is empty, "." or "..": what plugins may use.
bool is_legal_state_name(std::string_view name) noexcept;

// Something whose state belongs into a checkpoint.
class Stateful {
 public:
  virtual ~Stateful() = default;

  // Puts the state below `prefix`. Cheap, no I/O, changes nothing.
  //
  // Threads  [step], between steps
  virtual void snapshot(StateTree& tree, const std::string& prefix) const = 0;

  // Takes over the state below `prefix`.
  //
  // Errors   state.missing_entry, state.wrong_type, and what the component itself refuses
  // Threads  [main]
  virtual void load(const StateTree& tree, const std::string& prefix) = 0;
};

}  // namespace tenon
