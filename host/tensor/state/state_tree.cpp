// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/state/state_tree.hpp"

#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/staging_memory.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace tenon {
namespace {

using SourcePointer = std::shared_ptr<const TensorSource>;

std::string quoted(std::string_view name) {
  return "'" + std::string(name) + "'";
}

[[noreturn]] void refuse(std::string_view name, const std::string& why) {
  throw StatusError(TENON_INVALID, "state.bad_entry", "entry " + quoted(name) + " " + why);
}

// True if is_good(part) is true for each part between slashes.
template <class IsGood>
bool all_parts(std::string_view name, IsGood is_good) {
  for (;;) {
    const size_t slash = name.find('/');
    if (!is_good(name.substr(0, slash))) {
      return false;
    }
    if (slash == std::string_view::npos) {
      return true;
    }
    name.remove_prefix(slash + 1);
  }
}

[[noreturn]] void refuse_shape(std::string_view name,
                               const std::string& have,
                               const std::string& wanted) {
  throw Error("state.wrong_shape",
              "entry " + quoted(name) + " of the saved state is " + have + ", expected " + wanted +
                  "; load it into the run that saved it");
}

const char* kind_name(const StateEntry& entry) {
  static constexpr const char* kNames[] = {
      "an integer", "a number", "bytes", "a tensor", "a tensor"};
  return kNames[entry.value.index()];
}
template <class T>
const char* kind_name() {
  return kind_name(StateEntry{.value = T{}});
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.device() != b.device() || a.sizes() != b.sizes()) {
    return false;
  }
  const at::Tensor x = a.detach().cpu().contiguous();
  const at::Tensor y = b.detach().cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// Returns the tensor of an entry, in memory or not; nothing for other entries.
std::optional<at::Tensor> whole_tensor(const StateEntry& entry) {
  if (const auto* const tensor = std::get_if<at::Tensor>(&entry.value)) {
    return *tensor;
  }
  if (const auto* const source = std::get_if<SourcePointer>(&entry.value)) {
    return (*source)->whole();
  }
  return std::nullopt;
}

bool same_value(const StateEntry& a, const StateEntry& b) {
  const std::optional<at::Tensor> left = whole_tensor(a);
  const std::optional<at::Tensor> right = whole_tensor(b);
  if (left.has_value() || right.has_value()) {
    return a.scope == b.scope && a.piece == b.piece && left.has_value() && right.has_value() &&
           same_bits(*left, *right);
  }
  if (a.scope != b.scope || a.value.index() != b.value.index()) {
    return false;
  }
  if (const double* const x = std::get_if<double>(&a.value)) {
    return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(std::get<double>(b.value));
  }
  if (const int64_t* const x = std::get_if<int64_t>(&a.value)) {
    return *x == std::get<int64_t>(b.value);
  }
  return std::get<std::string>(a.value) == std::get<std::string>(b.value);
}

// Returns the values of a piece in the shape of its box, if they are all of it; else flat.
at::Tensor shaped_as(const TensorPiece& piece, const at::Tensor& values) {
  return piece.is_box() ? values.view(piece.box_shape()) : values.flatten();
}

std::optional<TensorPiece> unless_whole(const TensorPiece& piece) {
  return piece.is_whole() ? std::nullopt : std::optional(piece);
}

// Returns `tensor`, or a copy of it, without its autograd history.
at::Tensor copied(const at::Tensor& tensor, StateTree::Copy copy, StateTree::Copies copies) {
  const at::Tensor values = tensor.detach();
  if (copy == StateTree::Copy::kNo || copies == StateTree::Copies::kNone) {
    return values;
  }
  return copies == StateTree::Copies::kOnHost ? staged_copy(values) : values.clone();
}

}  // namespace

void StateTree::put(std::string_view name, StateEntry&& entry) {
  if (!all_parts(name, [](std::string_view part) { return !part.empty(); })) {
    refuse(name, "has a name with an empty part");
  }
  if (entry.scope > kStateByRow) {
    refuse(name, formatted("has the unknown scope {}", entry.scope));
  }
  if (is_excluded(name)) {
    return;
  }
  if (!entries_.try_emplace(std::string(name), std::move(entry)).second) {
    refuse(name, "is written twice");
  }
}

StateTree StateTree::empty_like() const {
  StateTree tree(copies_);
  tree.excluded_ = excluded_;
  return tree;
}

void StateTree::put_int(std::string_view name, int64_t value, uint32_t scope) {
  put(name, {.value = value, .scope = scope});
}

void StateTree::put_double(std::string_view name, double value, uint32_t scope) {
  put(name, {.value = value, .scope = scope});
}

void StateTree::put_bytes(std::string_view name, std::string_view bytes, uint32_t scope) {
  if (bytes.size() > kMaxStateBytes) {
    refuse(name,
           formatted("holds {} bytes, and {} are allowed; use a tensor instead",
                     bytes.size(),
                     kMaxStateBytes));
  }
  put(name, {.value = std::string(bytes), .scope = scope});
}

void StateTree::put_tensor(std::string_view name,
                           const at::Tensor& tensor,
                           Copy copy,
                           uint32_t scope) {
  if (!tensor.defined()) {
    refuse(name, "is an undefined tensor");
  }
  if (is_excluded(name)) {  // makes no copy
    return;
  }
  put(name, {.value = copied(tensor, copy, copies_), .scope = scope});
}

void StateTree::put_source(std::string_view name, SourcePointer source, uint32_t scope) {
  put(name, {.value = std::move(source), .scope = scope});
}

void StateTree::put_part(std::string_view name,
                         const at::Tensor& tensor,
                         const StatePart& part,
                         Copy copy) {
  if (is_excluded(name)) {
    return;
  }
  put(name,
      {.value = copied(shaped_as(part.piece, tensor), copy, copies_),
       .piece = unless_whole(part.piece),
       .is_sliced = part.is_sliced,
       .num_copies = part.num_copies,
       .is_saved = part.is_saved});
}

void StateTree::copy_tensor(std::string_view name,
                            at::Tensor to,
                            const std::optional<TensorPiece>& piece) const {
  const StateEntry& entry = at_name(name);
  const c10::NoGradGuard no_grad;
  if (const auto* const source = std::get_if<SourcePointer>(&entry.value)) {
    const TensorPiece wanted = piece ? *piece : TensorPiece(to.sizes().vec());
    if ((*source)->shape() != wanted.shape() || (*source)->dtype() != to.scalar_type()) {
      refuse_shape(name,
                   shape_text((*source)->shape()) + " of " + c10::toString((*source)->dtype()),
                   shape_text(wanted.shape()) + " of " + c10::toString(to.scalar_type()));
    }
    if (to.is_cpu() && to.is_contiguous()) {
      (*source)->read_piece(wanted, to);
    } else {
      const at::Tensor read = at::empty(to.sizes(), to.options().device(at::kCPU));
      (*source)->read_piece(wanted, read);
      to.copy_(read);
    }
    return;
  }
  const at::Tensor from = get_tensor(name);
  const std::optional<TensorPiece> wanted = piece ? unless_whole(*piece) : std::nullopt;
  if (piece) {
    to = shaped_as(*piece, to);
  }
  if (from.sizes() != to.sizes() || from.scalar_type() != to.scalar_type() ||
      entry.piece != wanted) {
    const auto text = [](const at::Tensor& tensor, const std::optional<TensorPiece>& of) {
      return formatted("{} of {}{}",
                       shape_text(tensor.sizes()),
                       c10::toString(tensor.scalar_type()),
                       of ? " " + of->text() : "");
    };
    refuse_shape(name, text(from, entry.piece), text(to, wanted));
  }
  to.copy_(from);
}

void StateTree::copy_rows(std::string_view name, int64_t first, const at::Tensor& to) const {
  std::vector<int64_t> wanted = to.sizes().vec();
  std::vector<int64_t> have = shape_of(name);
  const StateEntry& entry = at_name(name);
  const auto* const source = std::get_if<SourcePointer>(&entry.value);
  const at::ScalarType dtype =
      source != nullptr ? (*source)->dtype() : std::get<at::Tensor>(entry.value).scalar_type();
  const bool is_there = !have.empty() && !wanted.empty() && first + wanted[0] <= have[0];
  if (is_there) {
    have[0] = wanted[0];
  }
  if (!is_there || have != wanted || dtype != to.scalar_type()) {
    refuse_shape(
        name,
        formatted("{} of {}", shape_text(shape_of(name)), c10::toString(dtype)),
        formatted(
            "{} of {} from row {}", shape_text(wanted), c10::toString(to.scalar_type()), first));
  }
  if (source == nullptr) {
    const c10::NoGradGuard no_grad;
    const at::Tensor rows = to;
    rows.copy_(std::get<at::Tensor>(entry.value).narrow(0, first, wanted[0]));
  } else if (wanted[0] > 0) {
    (*source)->read(first * (to.numel() / wanted[0]), to);
  }
}

std::vector<int64_t> StateTree::shape_of(std::string_view name) const {
  if (const auto* const source = std::get_if<SourcePointer>(&at_name(name).value)) {
    return (*source)->shape();
  }
  return get<at::Tensor>(name).sizes().vec();
}

int64_t StateTree::tensor_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, entry] : entries_) {
    if (const auto* const tensor = std::get_if<at::Tensor>(&entry.value)) {
      bytes += static_cast<int64_t>(tensor->nbytes());
    } else if (const auto* const source = std::get_if<SourcePointer>(&entry.value)) {
      bytes += (*source)->numel() * static_cast<int64_t>(c10::elementSize((*source)->dtype()));
    }
  }
  return bytes;
}

const StateEntry& StateTree::at_name(std::string_view name) const {
  const StateEntry* const entry = find(name);
  if (entry == nullptr) {
    throw StatusError(TENON_NOT_FOUND,
                      "state.missing_entry",
                      "no entry is named " + quoted(name) + " in the saved state");
  }
  return *entry;
}

template <class T>
const T& StateTree::get(std::string_view name) const {
  const StateEntry& entry = at_name(name);
  const T* const value = std::get_if<T>(&entry.value);
  if (value == nullptr) {
    throw StatusError(
        TENON_INVALID,
        "state.wrong_type",
        "entry " + quoted(name) + " is " + kind_name(entry) + ", not " + kind_name<T>());
  }
  return *value;
}

int64_t StateTree::get_int(std::string_view name) const {
  return get<int64_t>(name);
}
double StateTree::get_double(std::string_view name) const {
  return get<double>(name);
}
const std::string& StateTree::get_bytes(std::string_view name) const {
  return get<std::string>(name);
}
at::Tensor StateTree::get_tensor(std::string_view name) const {
  if (const auto* const source = std::get_if<SourcePointer>(&at_name(name).value)) {
    return (*source)->whole();
  }
  return get<at::Tensor>(name);
}

at::Tensor TensorSource::whole() const {
  at::Tensor result = at::empty(shape_, dtype_);
  read(0, result);
  return result;
}

void TensorSource::read_piece(const TensorPiece& piece, const at::Tensor& out) const {
  const at::Tensor flat = out.view(-1);
  for_each_run(piece, [&](const TensorPiece::Run& run) {
    read(run.in_tensor, flat.narrow(0, run.in_piece, run.numel));
  });
}

const StateEntry* StateTree::find(std::string_view name) const {
  const auto entry = entries_.find(name);
  return entry != entries_.end() ? &entry->second : nullptr;
}

bool StateTree::has_subtree(std::string_view prefix) const {
  if (prefix.empty()) {
    return !entries_.empty() || !versions_.empty();
  }
  const std::string below = std::string(prefix) + '/';
  const auto has_below = [&](const auto& map) {
    const auto next = map.lower_bound(below);
    return map.contains(prefix) || (next != map.end() && next->first.starts_with(below));
  };
  return has_below(entries_) || has_below(versions_);
}

void StateTree::set_version(std::string_view prefix, uint32_t version) {
  versions_[std::string(prefix)] = version;
}

uint32_t StateTree::version(std::string_view prefix) const {
  const auto version = versions_.find(prefix);
  return version != versions_.end() ? version->second : 0;
}

bool operator==(const StateTree& a, const StateTree& b) {
  return a.versions_ == b.versions_ &&
         std::ranges::equal(a.entries_, b.entries_, [](const auto& x, const auto& y) {
           return x.first == y.first && same_value(x.second, y.second);
         });
}

std::string state_path(std::string_view prefix, std::string_view name) {
  std::string path(prefix);
  if (!path.empty()) {
    path += '/';
  }
  return path += name;
}

bool is_legal_state_name(std::string_view name) noexcept {
  return all_parts(name, [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." && std::ranges::all_of(part, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    });
  });
}

}  // namespace tenon
