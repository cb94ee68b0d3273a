// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/table.hpp"
#include "host/embedding/table_parts.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/staging_memory.hpp"
#include "host/tensor/state/saved_number.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <cstring>
#include <memory>

namespace tenon {
namespace {

[[noreturn]] void bad_state(const std::string& table, const std::string& what) {
  throw Error("table.bad_state",
              "the saved rows of table '" + table + "' do not fit: " + what +
                  "; resume with the recipe that they were saved with");
}

// The counts since the last record are part of the state.
constexpr std::pair<const char*, int64_t TableCounts::*> kCounts[] = {
    {"since_record/inserted", &TableCounts::inserted},
    {"since_record/refused", &TableCounts::refused},
    {"since_record/evicted", &TableCounts::evicted}};

constexpr int64_t kRowsLoadedAtOnce = 1 << 16;

// A number of a rank; 0 if it is missing.
int64_t saved_or_zero(const StateTree& tree, const std::string& prefix, const std::string& name) {
  const std::string path = state_path(prefix, name);
  return tree.find(path) != nullptr ? tree.get_int(path) : 0;
}

// One field of all rows, in the order of ids. Readable as long as the table does not change.
class FieldSource final : public TensorSource {
 public:
  FieldSource(const RowStore& rows,
              std::shared_ptr<const std::vector<int64_t>> order,
              const RowStore::Field& field,
              int64_t dim)
      : TensorSource(*scalar_type_of(field.dtype),
                     field.is_scalar ? std::vector<int64_t>{std::ssize(*order)}
                                     : std::vector<int64_t>{std::ssize(*order), dim}),
        rows_(rows),
        order_(std::move(order)),
        field_(field) {}

  void read(int64_t first, const at::Tensor& out) const override {
    const size_t element = c10::elementSize(dtype());
    auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
    size_t at = static_cast<size_t>(first) * element;
    for (size_t left = out.nbytes(); left > 0;) {
      const size_t in_row = at % field_.bytes;
      const size_t taken = std::min(field_.bytes - in_row, left);
      std::memcpy(to, row(at / field_.bytes) + in_row, taken);
      to += taken;
      at += taken;
      left -= taken;
    }
  }

 private:
  const std::byte* row(size_t i) const {
    return static_cast<const std::byte*>(rows_.field((*order_)[i], field_));
  }

  const RowStore& rows_;
  std::shared_ptr<const std::vector<int64_t>> order_;
  RowStore::Field field_;
};

}  // namespace

std::vector<std::pair<int64_t, int32_t>> TableParts::sorted_entries() const {
  std::vector<std::pair<int64_t, int32_t>> entries;
  entries.reserve(static_cast<size_t>(index.size()));
  index.visit(0, UINT64_MAX, [&](uint64_t, int64_t id, int32_t number) {
    entries.emplace_back(id, number);
    return false;
  });
  std::ranges::sort(entries);
  return entries;
}

std::string TableParts::field_name(size_t f) const {
  const size_t first_slot = rows.fields().size() - spec.slots.size();
  return f == 0 ? "values" : f < first_slot ? "master" : "slots/" + spec.slots[f - first_slot].name;
}

void Table::snapshot(StateTree& tree, const std::string& prefix) const {
  const RowStore& rows = parts_->rows;
  const auto put = [&](const std::string& name, const at::Tensor& tensor) {
    tree.put_tensor(state_path(prefix, name),
                    tensor,
                    StateTree::Copy::kNo,  // created for this tree
                    kStateByRow);
  };
  const auto entries = parts_->sorted_entries();
  const auto n = num_rows();
  const auto waiting = static_cast<int64_t>(entries.size()) - n;
  const at::Tensor ids = staged_empty({n}, at::kLong);
  const at::Tensor counts = staged_empty({n}, at::kLong);
  const at::Tensor last_steps = staged_empty({n}, at::kLong);
  const at::Tensor waiting_ids = at::empty({waiting}, at::kLong);
  const at::Tensor waiting_notes = at::empty({waiting}, at::kInt);
  const auto order = std::make_shared<std::vector<int64_t>>();
  order->reserve(static_cast<size_t>(n));
  int64_t at_waiting = 0;
  for (const auto& [id, number] : entries) {
    if (number < 0) {
      waiting_ids.mutable_data_ptr<int64_t>()[at_waiting] = id;
      waiting_notes.mutable_data_ptr<int32_t>()[at_waiting++] = number;
      continue;
    }
    const size_t at = order->size();
    ids.mutable_data_ptr<int64_t>()[at] = id;
    counts.mutable_data_ptr<int64_t>()[at] = rows.notes(number).count;
    last_steps.mutable_data_ptr<int64_t>()[at] = rows.notes(number).last_step;
    order->push_back(number);
  }
  put("ids", ids);
  put("counts", counts);
  put("last_steps", last_steps);
  for (size_t f = 0; f < rows.fields().size(); ++f) {
    if (tree.is_excluded(state_path(prefix, parts_->field_name(f)))) {
      continue;
    }
    auto field =
        std::make_shared<FieldSource>(rows, order, rows.fields()[f], int64_t{parts_->spec.dim});
    if (tree.copies() == StateTree::Copies::kNone) {
      tree.put_source(state_path(prefix, parts_->field_name(f)), std::move(field), kStateByRow);
    } else {
      const at::Tensor values = staged_empty(field->shape(), field->dtype());
      field->read(0, values);
      put(parts_->field_name(f), values);
    }
  }
  put("waiting/ids", waiting_ids);
  put("waiting/notes", waiting_notes);
  parts_->put_counts(tree, prefix);
}

void TableParts::put_counts(StateTree& tree, const std::string& prefix) const {
  const auto put = [&](const char* name, auto value, uint32_t scope) {
    tree.put_int(state_path(prefix, name), static_cast<int64_t>(value), scope);
  };
  put("step", step, TENON_STATE_REPLICATED);
  put("steps_before", steps_before, TENON_STATE_REPLICATED);
  put("sweep_at", sweep_at, TENON_STATE_REPLICATED);
  put("excess_at", excess_at, TENON_STATE_PER_RANK);
  for (const auto& [name, member] : kCounts) {
    put(name, counts.*member, TENON_STATE_PER_RANK);
  }
}

void Table::load(const StateTree& tree, const std::string& prefix) {
  load(tree, prefix, [](int64_t) { return true; });
}

void Table::load(const StateTree& tree,
                 const std::string& prefix,
                 const std::function<bool(int64_t id)>& is_mine) {
  const auto is_row = parts_->spec.with_rows(is_mine);
  const int64_t num_rows = parts_->check_saved(tree, prefix);
  auto loaded = std::make_unique<TableParts>(parts_->spec);
  loaded->load_counts(tree, prefix);
  // Loads a range of rows at a time, to avoid another copy of all rows.
  for (int64_t first = 0; first < num_rows; first += kRowsLoadedAtOnce) {
    loaded->load_rows(tree, prefix, first, std::min(kRowsLoadedAtOnce, num_rows - first), is_row);
  }
  loaded->load_waiting(tree, prefix, is_row);
  parts_ = std::move(loaded);
}

// Checks all shapes before any data is read.
int64_t TableParts::check_saved(const StateTree& tree, const std::string& prefix) const {
  const auto check = [&](const std::string& name, const std::vector<int64_t>& sizes) {
    const std::vector<int64_t> have = tree.shape_of(state_path(prefix, name));
    if (have != sizes) {
      bad_state(spec.name,
                name + " is " + shape_text(have) + " where " + shape_text(sizes) + " belongs");
    }
  };
  const std::vector<int64_t> shape = tree.shape_of(state_path(prefix, "ids"));
  const int64_t n = shape.empty() ? 0 : shape[0];
  check("ids", {n});
  check("counts", {n});
  check("last_steps", {n});
  for (size_t f = 0; f < rows.fields().size(); ++f) {
    check(field_name(f),
          rows.fields()[f].is_scalar ? std::vector<int64_t>{n}
                                     : std::vector<int64_t>{n, int64_t{spec.dim}});
  }
  return n;
}

// The counts of a rank are missing if the number of ranks has changed. The search for excess rows
// then starts over.
void TableParts::load_counts(const StateTree& tree, const std::string& prefix) {
  const auto get = [&](const std::string& name) { return saved_or_zero(tree, prefix, name); };
  step = saved_signed_count(tree, state_path(prefix, "step"));
  steps_before = get("steps_before");  // checkpoints of earlier versions lack it
  sweep_at = static_cast<uint64_t>(get("sweep_at"));
  excess_at = static_cast<uint64_t>(get("excess_at"));
  for (const auto& [name, member] : kCounts) {
    counts.*member = get(name);
  }
}

void TableParts::load_rows(const StateTree& tree,
                           const std::string& prefix,
                           int64_t first,
                           int64_t size,
                           const std::function<bool(int64_t id)>& is_mine) {
  const auto read = [&](const std::string& name, at::Tensor to) {
    tree.copy_rows(state_path(prefix, name), first, to);
    return to;
  };
  const at::Tensor ids = read("ids", at::empty({size}, at::kLong));
  const at::Tensor row_counts = read("counts", at::empty({size}, at::kLong));
  const at::Tensor last_steps = read("last_steps", at::empty({size}, at::kLong));
  std::vector<at::Tensor> fields;
  for (size_t f = 0; f < rows.fields().size(); ++f) {
    const RowStore::Field& field = rows.fields()[f];
    const auto type = *scalar_type_of(field.dtype);
    fields.push_back(read(
        field_name(f),
        field.is_scalar ? at::empty({size}, type) : at::empty({size, int64_t{spec.dim}}, type)));
  }
  for (int64_t i = 0; i < size; ++i) {
    const int64_t id = ids.const_data_ptr<int64_t>()[i];
    if (!is_mine(id)) {
      continue;
    }
    check_is_new(id);
    const int64_t row = add_row(id,
                                {narrowed(row_counts.const_data_ptr<int64_t>()[i]),
                                 narrowed(last_steps.const_data_ptr<int64_t>()[i])},
                                nullptr);
    for (size_t f = 0; f < fields.size(); ++f) {
      const RowStore::Field& field = rows.fields()[f];
      std::memcpy(rows.field(row, field),
                  static_cast<const std::byte*>(fields[f].const_data_ptr()) +
                      static_cast<size_t>(i) * field.bytes,
                  field.bytes);
    }
  }
}

void TableParts::for_each_waiting(
    const StateTree& tree,
    const std::string& prefix,
    const std::function<void(int64_t id, int32_t number)>& use) const {
  const at::Tensor ids = tree.get_tensor(state_path(prefix, "waiting/ids")).contiguous();
  const at::Tensor notes = tree.get_tensor(state_path(prefix, "waiting/notes")).contiguous();
  if (ids.scalar_type() != at::kLong || notes.scalar_type() != at::kInt || ids.dim() != 1 ||
      notes.sizes() != ids.sizes()) {
    bad_state(spec.name, "waiting/ids and waiting/notes do not go together");
  }
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const int32_t number = notes.const_data_ptr<int32_t>()[i];
    if (number >= 0 || number == IdIndex::kNothing) {
      bad_state(spec.name, formatted("waiting/notes holds {}", number));
    }
    use(ids.const_data_ptr<int64_t>()[i], number);
  }
}

void TableParts::load_waiting(const StateTree& tree,
                              const std::string& prefix,
                              const std::function<bool(int64_t id)>& is_mine) {
  for_each_waiting(tree, prefix, [&](int64_t id, int32_t number) {
    if (!is_mine(id)) {
      return;
    }
    check_is_new(id);
    check_room(/*with_row=*/false);
    index.insert(id, number);
    ++num_waiting;
  });
}

int64_t Table::continue_steps(const StateTree& tree, const std::string& prefix, int64_t step) {
  const int64_t saved = saved_signed_count(tree, state_path(prefix, "step"));
  if (parts_->index.size() > 0) {
    return std::max(parts_->step, step + 1 + parts_->steps_before) - saved;
  }
  parts_->steps_before = std::max<int64_t>(0, saved - 1 - step);
  parts_->step = step + 1 + parts_->steps_before;  // `saved`, if the run is not past it
  parts_->sweep_at = static_cast<uint64_t>(saved_or_zero(tree, prefix, "sweep_at"));
  parts_->excess_at = static_cast<uint64_t>(saved_or_zero(tree, prefix, "excess_at"));
  return parts_->step - saved;
}

void Table::take_waiting(const StateTree& tree,
                         const std::string& prefix,
                         const std::function<bool(int64_t id)>& is_mine) {
  if (parts_->admits_all()) {
    return;
  }
  const bool keeps_ages =
      parts_->step == saved_signed_count(tree, state_path(prefix, "step"));  // continue_steps()
  parts_->for_each_waiting(tree, prefix, [&](int64_t id, int32_t number) {
    if (!is_mine(id)) {
      return;
    }
    const Waiting saved = waiting_of(number);
    int32_t* const here = parts_->index.find_one(id);
    if (here == nullptr) {
      parts_->check_room(/*with_row=*/false);
      parts_->index.insert(id, keeps_ages ? number : number_of({saved.seen, parts_->age_now()}));
      ++parts_->num_waiting;
    } else if (*here < 0) {
      const Waiting own = waiting_of(*here);
      *here = number_of({std::max(own.seen, saved.seen), own.age});
    }
  });
}

void TableParts::check_is_new(int64_t id) const {
  if (index.find_one(id) != nullptr) {
    bad_state(spec.name, formatted("id {} stands there twice", id));
  }
}

}  // namespace tenon
