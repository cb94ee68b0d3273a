// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/saved_rows.hpp"

#include "host/error/error.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace tenon {
namespace {

constexpr int64_t kRowsAtOnce = 1 << 16;

at::ScalarType dtype_of(const StateTree& tree, const std::string& name) {
  const StateEntry* const entry = tree.find(name);
  if (const auto* const source =
          entry != nullptr ? std::get_if<std::shared_ptr<const TensorSource>>(&entry->value)
                           : nullptr) {
    return (*source)->dtype();
  }
  return tree.get_tensor(name).scalar_type();
}

// Returns the rows `mine` among rows [first, first + size) of an entry, as `dtype`.
at::Tensor chosen_rows(const StateTree& tree,
                       const std::string& name,
                       int64_t first,
                       int64_t size,
                       const at::Tensor& mine,
                       at::ScalarType dtype) {
  std::vector<int64_t> shape = tree.shape_of(name);
  shape[0] = size;
  const at::Tensor saved = at::empty(shape, dtype_of(tree, name));
  tree.copy_rows(name, first, saved);
  return saved.index_select(0, mine).to(dtype).contiguous();
}

std::span<const int64_t> numbers(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<int64_t>(), static_cast<size_t>(tensor.numel())};
}

// Returns the entry name of a slot.
std::string slot_name(const std::string& prefix, const RowSlot& slot) {
  return state_path(prefix, "slots/" + slot.name);
}

// Returns the entry name of the values: the fp32 master, if saved, is more precise.
std::string values_name(const StateTree& tree, const std::string& prefix) {
  const std::string master = state_path(prefix, "master");
  return tree.find(master) != nullptr ? master : state_path(prefix, "values");
}

// Returns rows for the selected ids. Adds missing rows; with RowParts::kAll, resets existing ones.
std::vector<int64_t> rows_for(Table& table,
                              const at::Tensor& ids,
                              const at::Tensor& counts,
                              const at::Tensor& last_steps,
                              RowParts parts) {
  std::vector<int64_t> rows(static_cast<size_t>(ids.numel()), kNoRow);
  if (parts == RowParts::kValues) {
    table.find(numbers(ids), rows);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == kNoRow) {
      const Table::RowInfo info = {.count = numbers(counts)[i],
                                   .last_step = numbers(last_steps)[i]};
      table.renew(numbers(ids).subspan(i, 1), {&info, 1}, {&rows[i], 1});
    }
  }
  return rows;
}

}  // namespace

std::string misfit_of_saved_rows(const TableSpec& spec,
                                 const StateTree& tree,
                                 const std::string& prefix,
                                 RowParts parts) {
  const std::vector<int64_t> ids = tree.shape_of(state_path(prefix, "ids"));
  const std::vector<int64_t> values = tree.shape_of(values_name(tree, prefix));
  if (ids.size() != 1 || values.size() != 2 || values[0] != ids[0] ||
      tree.shape_of(state_path(prefix, "counts")) != ids ||
      tree.shape_of(state_path(prefix, "last_steps")) != ids) {
    return "no rows of a table";
  }
  if (values[1] != int64_t{spec.dim}) {
    return formatted("rows of {}, and here of {}", values[1], spec.dim);
  }
  for (const RowSlot& slot : parts == RowParts::kAll ? spec.slots : std::vector<RowSlot>()) {
    const std::string name = slot_name(prefix, slot);
    if (tree.find(name) == nullptr) {
      return "no slot '" + slot.name + "', which the optimizer here keeps";
    }
    const std::vector<int64_t> wanted =
        slot.is_scalar ? std::vector<int64_t>{ids[0]} : std::vector<int64_t>{ids[0], values[1]};
    if (tree.shape_of(name) != wanted) {
      return "the slot '" + slot.name + "' as " + shape_text(tree.shape_of(name)) +
             ", and here it is " + shape_text(wanted);
    }
  }
  return "";
}

int64_t take_saved_rows(Table& table,
                        const StateTree& tree,
                        const std::string& prefix,
                        RowParts parts,
                        int64_t step,
                        const std::function<bool(int64_t id)>& is_mine) {
  const TableSpec& spec = table.spec();
  if (const std::string misfit = misfit_of_saved_rows(spec, tree, prefix, parts); !misfit.empty()) {
    throw Error("table.bad_state",
                "the saved rows of table '" + spec.name + "' do not fit: they are " + misfit);
  }
  const auto is_row = spec.with_rows(is_mine);
  const int64_t shift = table.continue_steps(tree, prefix, step);
  const std::string ids_name = state_path(prefix, "ids");
  const int64_t n = tree.shape_of(ids_name)[0];
  int64_t taken = 0;
  // Loads a range of rows at a time, to avoid a second copy of the table.
  for (int64_t first = 0; first < n; first += kRowsAtOnce) {
    const int64_t size = std::min(kRowsAtOnce, n - first);
    const at::Tensor all_ids = at::empty({size}, at::kLong);
    tree.copy_rows(ids_name, first, all_ids);
    std::vector<int64_t> chosen;
    for (int64_t i = 0; i < size; ++i) {
      if (is_row(numbers(all_ids)[static_cast<size_t>(i)])) {
        chosen.push_back(i);
      }
    }
    const at::Tensor mine = at::tensor(chosen, at::kLong);
    const auto read = [&](const std::string& name, at::ScalarType dtype) {
      return chosen_rows(tree, name, first, size, mine, dtype);
    };
    const at::Tensor counts = read(state_path(prefix, "counts"), at::kLong);
    const at::Tensor last_steps = read(state_path(prefix, "last_steps"), at::kLong).add_(shift);
    const at::Tensor values = read(values_name(tree, prefix), at::kFloat);
    const std::vector<int64_t> rows =
        rows_for(table, all_ids.index_select(0, mine), counts, last_steps, parts);
    table.write(rows, values.const_data_ptr<float>(), int64_t{spec.dim});
    for (size_t s = 0; parts == RowParts::kAll && s < spec.slots.size(); ++s) {
      const at::Tensor slot =
          read(slot_name(prefix, spec.slots[s]), *scalar_type_of(spec.slots[s].dtype));
      const size_t bytes =
          slot.element_size() * (spec.slots[s].is_scalar ? size_t{1} : size_t{spec.dim});
      const auto* const from = static_cast<const std::byte*>(slot.const_data_ptr());
      for (size_t i = 0; i < rows.size(); ++i) {
        std::memcpy(tenon_row_field(&table.layout(), rows[i], table.layout().slot_offsets[s]),
                    from + i * bytes,
                    bytes);
      }
    }
    taken += std::ssize(chosen);
  }
  table.take_waiting(tree, prefix, is_row);
  return taken;
}

}  // namespace tenon
