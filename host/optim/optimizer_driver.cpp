// SPDX-License-Identifier: Apache-2.0
#include "host/optim/optimizer_driver.hpp"

#include <tenon/optimizer.h>
#include <tenon/ports.h>

#include "host/error/assert.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/state/saved_number.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tenon {
namespace {

constexpr uint32_t kStateVersion = 1;

// Returns the part of a slot that belongs to a piece of its parameter.
TensorPiece piece_of_slot(const OptimizerInfo& info,
                          const SlotSpec& slot,
                          const TensorPiece& piece) {
  const TensorPiece whole(info.slot_shape(slot, piece.shape()));
  switch (slot.shape) {
    case TENON_SLOT_SCALAR:
      return whole;
    case TENON_SLOT_BLOCKWISE: {
      const std::optional<TensorPiece> blocks = blocks_of(piece, info.block);
      TENON_ASSERT(blocks.has_value(), "a parameter with slots of blocks is cut between blocks");
      return *blocks;
    }
    case TENON_SLOT_ROWS:
    case TENON_SLOT_COLUMNS:
      TENON_ASSERT(piece.is_whole(), "a parameter with slots of rows or columns is not cut");
      return whole;
    default:
      return piece;
  }
}

// True if a saved state has the same counter and the same scalars for two parameters, as for those
// of one piece.
bool share_updates(const OptimizerInfo& info,
                   const StateTree& tree,
                   const std::string& prefix,
                   const std::pair<std::string, std::string>& names) {
  const auto entries = [&](const std::string& part) {
    return std::pair(state_path(prefix, part + names.first),
                     state_path(prefix, part + names.second));
  };
  const auto [first, second] = entries("updates/");
  if (tree.find(first) == nullptr || tree.get_int(first) != tree.get_int(second)) {
    return false;
  }
  return std::ranges::all_of(info.slots, [&](const SlotSpec& slot) {
    if (slot.shape != TENON_SLOT_SCALAR) {
      return true;
    }
    const auto [one, other] = entries("slots/" + slot.name + "/");
    // The state of this rank alone lacks the scalars of parameters of other slices.
    return tree.find(one) == nullptr || tree.find(other) == nullptr ||
           tree.get_tensor(one).equal(tree.get_tensor(other));
  });
}

}  // namespace

// Entries first_entry to last_entry of a flat group, with their slots and their counter.
struct OptimizerDriver::Piece {
  size_t group = 0;
  size_t first_entry = 0;
  size_t last_entry = 0;
  uint32_t partition = 0;
  at::Tensor data;
  at::Tensor grad;    // undefined while the gradient has no memory
  at::Tensor step;    // a view of steps_
  float updates = 0;  // keeps the counter when bind() runs again
  std::vector<at::Tensor> slots;
  bool has_grad = false;

  // Pieces of one partition and dtype share a call: GPU kernels do not accept mixed lists.
  std::pair<uint32_t, at::ScalarType> call() const { return {partition, data.scalar_type()}; }
};

OptimizerDriver::OptimizerDriver(std::vector<OptimizedPartition> partitions,
                                 std::vector<FlatGroup>& groups,
                                 const ExecBase& base)
    : partitions_(std::move(partitions)), groups_(groups) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const FlatRange& range : groups_[g].ranges()) {
      TENON_ASSERT(range.partition < partitions_.size(),
                   "a flat group names a partition without an optimizer");
      if (partitions_[range.partition].optimizer.info().is_elementwise()) {
        add_pieces(g, range.first_entry, range.last_entry, range.partition);
      } else {
        for (size_t e = range.first_entry; e <= range.last_entry; ++e) {
          add_pieces(g, e, e, range.partition);
        }
      }
    }
  }
  for (const auto& partition : partitions_) {
    lrs_.push_back(at::zeros({}, at::TensorOptions().dtype(at::kDouble).device(base.device)));
    frames_.emplace_back(partition.optimizer.instance().host(), base);
  }
  bind();
}

OptimizerDriver::~OptimizerDriver() = default;

void OptimizerDriver::add_pieces(size_t group,
                                 size_t first_entry,
                                 size_t last_entry,
                                 uint32_t partition) {
  Piece piece;
  piece.group = group;
  piece.first_entry = first_entry;
  piece.last_entry = last_entry;
  piece.partition = partition;
  FlatGroup& flat = groups_[group];
  const OptimizerInfo& info = partitions_[partition].optimizer.info();
  if (info.is_elementwise()) {
    const FlatRange range = flat.range(first_entry, last_entry);
    if (range.begin == range.end) {
      return;  // other ranks own these entries
    }
    piece.data = flat.data().narrow(0, range.begin, range.end - range.begin);
  } else {
    TENON_ASSERT(flat.sharing().num_slices == 1 && !flat.entries()[first_entry].parameter.box,
                 "whole parameters are neither sharded nor divided");
    piece.data = flat.data_view(first_entry);
  }
  if (!flat.sharing().frees_gradients) {
    piece.grad = grad_of(piece);
  }
  for (const SlotSpec& slot : info.slots) {
    const auto dtype =
        slot.dtype >= TENON_CLASS_FIRST ? flat.dtype() : static_cast<at::ScalarType>(slot.dtype);
    const auto options = piece.data.options().dtype(dtype);
    piece.slots.push_back(
        at::full(info.slot_shape(slot, piece.data.sizes().vec()), slot.init, options));
  }
  pieces_.push_back(std::move(piece));
}

at::Tensor OptimizerDriver::grad_of(const Piece& piece) {
  FlatGroup& flat = groups_[piece.group];
  if (!partitions_[piece.partition].optimizer.info().is_elementwise()) {
    return flat.grad_view(piece.first_entry);
  }
  const FlatRange range = flat.range(piece.first_entry, piece.last_entry);
  return flat.grad().narrow(0, range.begin, range.end - range.begin);
}

// Puts the counters of all pieces into one tensor, so that one addition advances them.
void OptimizerDriver::bind() {
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return a.call() < b.call();
  });
  const at::Device device = pieces_.empty() ? at::kCPU : pieces_.front().data.device();
  steps_ = at::zeros({static_cast<int64_t>(pieces_.size())},
                     at::TensorOptions().dtype(at::kFloat).device(device));
  one_ = at::ones({}, steps_.options());
  for (size_t i = 0; i < pieces_.size(); ++i) {
    pieces_[i].step = steps_.select(0, static_cast<int64_t>(i));
    pieces_[i].step.fill_(pieces_[i].updates);
  }
}

// Cuts pieces so that in each piece, either all entries have a gradient or none.
void OptimizerDriver::cut_where_without_grad(const IsChosen& is_chosen) {
  bool is_whole = true;
  for (Piece& piece : pieces_) {
    if (!is_chosen(piece)) {
      continue;
    }
    const auto& entries = groups_[piece.group].entries();
    piece.has_grad = entries[piece.first_entry].has_grad;
    for (size_t e = piece.first_entry; e < piece.last_entry; ++e) {
      is_whole = is_whole && entries[e].has_grad == entries[e + 1].has_grad;
    }
  }
  if (is_whole) {
    return;
  }
  cut([&](const Piece& piece, size_t e) {
    const auto& entries = groups_[piece.group].entries();
    return is_chosen(piece) && entries[e + 1].has_grad != entries[e].has_grad;
  });
  for (Piece& piece : pieces_) {
    piece.has_grad = groups_[piece.group].entries()[piece.first_entry].has_grad;
  }
}

bool OptimizerDriver::cut(const std::function<bool(const Piece& piece, size_t entry)>& ends_part) {
  std::vector<Piece> result;
  bool has_cut = false;
  for (Piece& piece : pieces_) {
    size_t first = piece.first_entry;
    for (size_t e = piece.first_entry; e <= piece.last_entry; ++e) {
      if (e < piece.last_entry && !ends_part(piece, e)) {
        continue;
      }
      if (first == piece.first_entry && e == piece.last_entry) {
        result.push_back(std::move(piece));
        break;
      }
      has_cut = true;
      const FlatGroup& group = groups_[piece.group];
      const int64_t origin = group.range(piece.first_entry, piece.last_entry).begin;
      const FlatRange range = group.range(first, e);
      const size_t first_of_part = std::exchange(first, e + 1);
      if (range.begin == range.end) {
        continue;
      }
      const auto cut = [at = range.begin - origin, length = range.end - range.begin](
                           const at::Tensor& whole) { return whole.narrow(0, at, length); };
      Piece part;
      part.group = piece.group;
      part.first_entry = first_of_part;
      part.last_entry = e;
      part.partition = piece.partition;
      part.data = cut(piece.data);
      if (piece.grad.defined()) {
        part.grad = cut(piece.grad);
      }
      part.updates = piece.step.item<float>();
      cut_slots(piece, range.begin - origin, range.end - range.begin, part);
      result.push_back(std::move(part));
    }
  }
  pieces_ = std::move(result);
  if (has_cut) {
    for (Piece& piece : pieces_) {
      if (piece.step.defined()) {
        piece.updates = piece.step.item<float>();
      }
    }
    bind();
  }
  return has_cut;
}

// Gives `part` the slots of `length` elements of a piece.
void OptimizerDriver::cut_slots(const Piece& piece, int64_t begin, int64_t length, Piece& part) {
  const OptimizerInfo& info = partitions_[piece.partition].optimizer.info();
  for (size_t s = 0; s < piece.slots.size(); ++s) {
    const at::Tensor& slot = piece.slots[s];
    switch (info.slots[s].shape) {
      case TENON_SLOT_SCALAR:
        part.slots.push_back(slot.clone());
        break;
      case TENON_SLOT_BLOCKWISE:
        part.slots.push_back(slot.narrow(0, begin / info.block, info.num_blocks(length)));
        break;
      default:
        part.slots.push_back(slot.narrow(0, begin, length));
    }
  }
}

// Calls take(name, tensor, part) for each slot of each entry of a piece. A scalar slot is the same
// for all entries, and on all ranks that have a part of the entry. The one with the first elements
// saves it.
template <class Take>
void OptimizerDriver::each_slot(const Piece& piece, Take take) const {
  const FlatGroup& group = groups_[piece.group];
  const OptimizerInfo& info = partitions_[piece.partition].optimizer.info();
  const bool is_flat = info.is_elementwise();
  const int64_t origin = is_flat ? group.range(piece.first_entry, piece.last_entry).begin : 0;
  for (size_t e = piece.first_entry; e <= piece.last_entry; ++e) {
    const FlatPart& part = group.part(e);
    if (is_flat && part.length() == 0) {
      continue;  // other slices have all of it
    }
    for (size_t s = 0; s < info.slots.size(); ++s) {
      const SlotSpec& slot = info.slots[s];
      at::Tensor values = piece.slots[s];
      if (is_flat && slot.shape == TENON_SLOT_BLOCKWISE) {
        values =
            values.narrow(0, (part.in_slice - origin) / info.block, info.num_blocks(part.length()));
      } else if (is_flat && slot.shape != TENON_SLOT_SCALAR) {
        values = values.narrow(0, part.in_slice - origin, part.length());
      }
      take("slots/" + slot.name + "/" + group.entries()[e].parameter.name,
           values,
           StatePart{.piece = piece_of_slot(info, slot, part.piece),
                     .is_sliced = group.sharing().num_slices > 1,
                     .num_copies = group.sharing().num_copies,
                     .is_saved = !group.sharing().is_copy && (slot.shape != TENON_SLOT_SCALAR ||
                                                              part.piece.first_in_tensor() == 0)});
    }
  }
}

void OptimizerDriver::snapshot(StateTree& tree, const std::string& prefix) const {
  tree.set_version(prefix, kStateVersion);
  const at::Tensor counters = steps_.cpu();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    const auto updates = static_cast<int64_t>(counters.const_data_ptr<float>()[i]);
    for (size_t e = piece.first_entry; e <= piece.last_entry; ++e) {
      const std::string& name = groups_[piece.group].entries()[e].parameter.name;
      // A rank saves the entries of its slice. If an entry lies in two slices, the first rank's
      // value is right: on the other rank, the entry always starts a piece.
      const uint32_t scope = groups_[piece.group].sharing().num_slices > 1 ? TENON_STATE_PER_SHARD
                                                                           : TENON_STATE_REPLICATED;
      tree.put_int(state_path(prefix, "updates/" + name), updates, scope);
      tree.put_int(state_path(prefix, "starts/" + name), e == piece.first_entry ? 1 : 0, scope);
    }
    each_slot(piece, [&](const std::string& name, const at::Tensor& values, const StatePart& part) {
      tree.put_part(state_path(prefix, name), values, part, StateTree::Copy::kYes);
    });
  }
}

void OptimizerDriver::load(const StateTree& tree, const std::string& prefix) {
  const at::AutoGradMode no_grad(false);
  const auto name_of = [this](const Piece& piece, size_t e) -> const std::string& {
    return groups_[piece.group].entries()[e].parameter.name;
  };
  const auto is_excluded = [&](const Piece& piece, size_t e) {
    return tree.is_excluded(state_path(prefix, "updates/" + name_of(piece, e)));
  };
  // The groups may have been others when the state was saved, so that other entries were neighbors.
  cut([&](const Piece& piece, size_t e) {
    const std::string& next = name_of(piece, e + 1);
    const bool stays = is_excluded(piece, e + 1);
    return stays != is_excluded(piece, e) ||
           (!stays && (tree.get_int(state_path(prefix, "starts/" + next)) != 0 ||
                       !share_updates(partitions_[piece.partition].optimizer.info(),
                                      tree,
                                      prefix,
                                      {name_of(piece, e), next})));
  });
  for (Piece& piece : pieces_) {
    if (is_excluded(piece, piece.first_entry)) {
      continue;
    }
    const int64_t updates = saved_signed_count(
        tree, state_path(prefix, "updates/" + name_of(piece, piece.first_entry)));
    piece.step.fill_(static_cast<float>(updates));
    each_slot(piece, [&](const std::string& name, const at::Tensor& values, const StatePart& part) {
      tree.copy_tensor(state_path(prefix, name), values, part.piece);
    });
  }
}

void OptimizerDriver::update(double factor, const CallPoint& point, const at::Tensor& found) {
  update_pieces([](const Piece&) { return true; }, factor, point, found);
}

void OptimizerDriver::update_group(size_t group,
                                   double factor,
                                   const CallPoint& point,
                                   const at::Tensor& found_inf) {
  update_pieces(
      [group](const Piece& piece) { return piece.group == group; }, factor, point, found_inf);
}

void OptimizerDriver::update_pieces(const IsChosen& is_chosen,
                                    double factor,
                                    const CallPoint& point,
                                    const at::Tensor& found) {
  const at::AutoGradMode no_grad(false);
  const at::Tensor found_inf = found.defined() ? found.to(steps_.device()) : found;
  cut_where_without_grad(is_chosen);
  for (Piece& piece : pieces_) {
    piece.has_grad = piece.has_grad && is_chosen(piece);
  }
  advance_counters(found_inf);
  for (size_t first = 0; first < pieces_.size();) {
    const auto last = std::find_if(
        pieces_.begin() + static_cast<std::ptrdiff_t>(first), pieces_.end(), [&](const Piece& p) {
          return p.call() != pieces_[first].call();
        });
    const std::span<Piece> pieces(pieces_.begin() + static_cast<std::ptrdiff_t>(first), last);
    call_update(pieces, factor, point, found_inf);
    first += pieces.size();
  }
}

void OptimizerDriver::advance_counters(const at::Tensor& found_inf) {
  if (steps_.is_cpu() && !found_inf.defined()) {  // without operators, whose call takes longer
    auto* const counters = steps_.mutable_data_ptr<float>();
    for (size_t i = 0; i < pieces_.size(); ++i) {
      counters[i] += pieces_[i].has_grad ? 1.0F : 0.0F;
    }
    return;
  }
  const at::Tensor increment = found_inf.defined() ? 1 - found_inf : one_;
  const auto advance = [&increment](at::Tensor& counters) { counters.add_(increment); };
  if (std::ranges::all_of(pieces_, &Piece::has_grad)) {
    advance(steps_);
    return;
  }
  for (Piece& piece : pieces_) {
    if (piece.has_grad) {
      advance(piece.step);
    }
  }
}

// Updates pieces of one partition and dtype.
void OptimizerDriver::call_update(std::span<Piece> pieces,
                                  double factor,
                                  const CallPoint& point,
                                  const at::Tensor& found_inf) {
  parameter_handles_.clear();
  grad_handles_.clear();
  slot_handles_.clear();
  step_handles_.clear();
  for (Piece& piece : pieces) {
    if (piece.has_grad) {
      if (groups_[piece.group].sharing().frees_gradients) {  // freed memory can have no new views
        piece.grad = grad_of(piece);
      }
      parameter_handles_.push_back(borrow_mutable(piece.data));
      grad_handles_.push_back(borrow(piece.grad));
      step_handles_.push_back(borrow(piece.step));
    }
  }
  if (parameter_handles_.empty()) {
    return;
  }
  const uint32_t i = pieces.front().partition;
  const OptimizerProxy& optimizer = partitions_[i].optimizer;
  for (size_t s = 0; s < optimizer.info().slots.size(); ++s) {
    for (Piece& piece : pieces) {
      if (piece.has_grad) {
        slot_handles_.push_back(borrow_mutable(piece.slots[s]));
      }
    }
  }
  const double lr = partitions_[i].lr * factor;
  if (lrs_[i].is_cpu()) {
    *lrs_[i].mutable_data_ptr<double>() = lr;
  } else {
    lrs_[i].fill_(lr);
  }
  tenon_update_args args{};
  args.struct_size = sizeof(args);
  args.num_pieces = parameter_handles_.size();
  args.parameters = parameter_handles_.data();
  args.grads = grad_handles_.data();
  args.slots = slot_handles_.data();
  args.steps = step_handles_.data();
  args.lr = borrow(lrs_[i]);
  args.found_inf = found_inf.defined() ? borrow(found_inf) : nullptr;
  frames_[i].move_to(point);
  optimizer.update(frames_[i].exec(), args);
  for (Piece& piece : pieces) {
    if (groups_[piece.group].sharing().frees_gradients) {
      piece.grad.reset();
    }
  }
}

bool OptimizerDriver::has_evaluation_values() const {
  return std::ranges::any_of(partitions_, [](const OptimizedPartition& partition) {
    return partition.optimizer.has_evaluation_values();
  });
}

void OptimizerDriver::use_evaluation_values(const CallPoint& point) {
  const at::AutoGradMode no_grad(false);
  TENON_ASSERT(kept_.empty(), "the parameters hold the values of evaluation already");
  for (auto piece = pieces_.begin(); piece != pieces_.end();) {
    const auto first = piece;
    piece = std::find_if(
        piece, pieces_.end(), [&](const Piece& p) { return p.call() != first->call(); });
    const OptimizerProxy& optimizer = partitions_[first->partition].optimizer;
    if (!optimizer.has_evaluation_values()) {
      continue;
    }
    std::vector<tenon_tensor*> parameters;
    std::vector<const tenon_tensor*> slots;
    std::vector<const tenon_tensor*> steps;
    for (auto it = first; it != piece; ++it) {
      kept_.emplace_back(it->data, it->data.clone());
      parameters.push_back(borrow_mutable(it->data));
      steps.push_back(borrow(it->step));
    }
    for (size_t s = 0; s < optimizer.info().slots.size(); ++s) {
      for (auto it = first; it != piece; ++it) {
        slots.push_back(borrow(it->slots[s]));
      }
    }
    tenon_evaluation_values_args args{};
    args.struct_size = sizeof(args);
    args.num_pieces = parameters.size();
    args.parameters = parameters.data();
    args.slots = slots.data();
    args.steps = steps.data();
    ExecFrame& frame = frames_[first->partition];
    frame.move_to(point);
    optimizer.evaluation_values(frame.exec(), args);
  }
}

void OptimizerDriver::use_training_values() {
  const at::AutoGradMode no_grad(false);
  for (auto& [slice, copy] : kept_) {
    slice.copy_(copy);
  }
  kept_.clear();
}

double OptimizerDriver::lr(double factor) const {
  return partitions_.empty() ? 0 : partitions_.front().lr * factor;
}

int64_t OptimizerDriver::state_bytes() const {
  size_t bytes = steps_.nbytes();
  for (const Piece& piece : pieces_) {
    for (const at::Tensor& slot : piece.slots) {
      bytes += slot.nbytes();
    }
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace tenon
