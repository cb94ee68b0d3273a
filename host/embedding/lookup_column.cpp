// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/lookup_column.hpp"

#include <tenon/model.h>

#include "host/error/error.hpp"
#include "host/tensor/field_match.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <algorithm>

namespace tenon {
namespace {

[[noreturn]] void refuse_ids(const LookupUse& use, const std::string& what) {
  throw Error("table.bad_ids",
              "lookup '" + use.value + "': the column '" + use.column + "' " + what);
}

const FieldInfo* find_info(const std::vector<FieldInfo>& fields, const std::string& name) {
  const auto found = find_field(fields, name);
  return found.has_value() ? &fields[*found] : nullptr;
}

at::Tensor on_host(const at::Tensor& tensor) {
  return tensor.to(at::kCPU).contiguous();
}

// The ids of a fixed column, [B] or [B, n].
void take_fixed(const LookupUse& use, const at::Tensor& given, LookupIds& result) {
  if (given.scalar_type() != at::kLong || given.dim() < 1 || given.dim() > 2) {
    refuse_ids(use,
               "is " + shape_text(given.sizes()) + " " + c10::toString(given.scalar_type()) +
                   ", but ids are i64 [B] or [B, n]");
  }
  result.num_samples = given.size(0);
  result.is_matrix = given.dim() == 2;
  result.per_sample = result.is_matrix ? given.size(1) : 1;
  result.ids = on_host(given).view({-1});
}

// Returns the ids of the positions in a batch. A column that a feature made has no axis "T", so it
// is whole.
at::Tensor ids_at_positions(const LookupUse& use, const at::Tensor& ids, const Batch& batch) {
  const FieldInfo* const field = find_info(*batch.schema, use.column);
  const bool is_part = field != nullptr && std::ranges::count(field->axes, "T", &Axis::name) > 0;
  if (is_part || ids.dim() != 2) {
    return ids;
  }
  const BatchPositions& positions = *batch.positions;
  if (ids.size(1) != positions.whole) {
    refuse_ids(use,
               formatted("has {} ids for sequences of {} positions, which ranks divide",
                         ids.size(1),
                         positions.whole));
  }
  return ids.narrow(1, positions.range.begin, positions.range.length).contiguous();
}

// The ids and offsets of a ragged column.
void take_ragged(const LookupUse& use, const Batch& batch, LookupIds& result) {
  const at::Tensor* const values = batch.find(use.column + ".values");
  const at::Tensor* const offsets = batch.find(use.column + ".offsets");
  if (values == nullptr || offsets == nullptr) {
    refuse_ids(use, "is not in this batch");
  }
  result.ids = on_host(*values).view({-1});
  result.offsets = on_host(*offsets).view({-1});
}

void check_offsets(const LookupUse& use, const LookupIds& ids, int64_t num_samples) {
  const auto* const offsets = ids.offsets.const_data_ptr<int64_t>();
  if (ids.num_samples != num_samples) {
    refuse_ids(
        use,
        formatted("has {} offsets in a batch of {} samples", ids.offsets.numel(), num_samples));
  }
  for (int64_t s = 0; s <= ids.num_samples; ++s) {
    const int64_t least = s > 0 ? offsets[s - 1] : 0;
    if (offsets[s] < least || (s == 0 && offsets[s] != 0)) {
      refuse_ids(use, formatted("has the offset {} at sample {} after {}", offsets[s], s, least));
    }
  }
  if (offsets[ids.num_samples] != ids.ids.numel()) {
    refuse_ids(use,
               formatted("has {} entries, and offsets that end at {}",
                         ids.ids.numel(),
                         offsets[ids.num_samples]));
  }
}

}  // namespace

LookupIds lookup_ids(const LookupUse& use, const at::Tensor& ids, const Batch* batch) {
  LookupIds result;
  const at::Tensor* const fixed = use.column.empty() ? &ids : batch->find(use.column);
  if (fixed == nullptr) {
    take_ragged(use, *batch, result);
  }
  const at::Tensor* const weights =
      use.column.empty() ? nullptr : batch->find(use.column + ".weights");
  if (weights != nullptr) {
    result.weights = on_host(*weights).view({-1});
  }
  if (fixed != nullptr) {
    const bool is_divided =
        use.is_over_positions && batch != nullptr && batch->positions.has_value();
    take_fixed(use, is_divided ? ids_at_positions(use, *fixed, *batch) : *fixed, result);
  }
  if (result.weights.defined() && result.weights.numel() != result.ids.numel()) {
    refuse_ids(
        use,
        formatted("has {} weights for {} entries", result.weights.numel(), result.ids.numel()));
  }
  if (result.offsets.defined()) {
    result.num_samples = result.offsets.numel() - 1;
    check_offsets(use, result, batch->samples);
  }
  return result;
}

void check_lookup_columns(const std::vector<LookupUse>& lookups,
                          const std::vector<FieldInfo>& fields,
                          const std::string& dataset) {
  for (const LookupUse& use : lookups) {
    if (use.column.empty()) {
      continue;
    }
    const std::string called = "lookup '" + use.value + "' reads the column '" + use.column + "'";
    const FieldInfo* const fixed = find_info(fields, use.column);
    const FieldInfo* const values = find_info(fields, use.column + ".values");
    const FieldInfo* const offsets = find_info(fields, use.column + ".offsets");
    const bool is_ragged = fixed == nullptr && values != nullptr && offsets != nullptr;
    if (fixed == nullptr && !is_ragged) {
      throw Error(
          "table.column_missing",
          called + ", which " + dataset + " does not have (it has: " + field_names(fields) + ")");
    }
    const auto refuse = [&](const std::string& what) {
      throw Error("table.column_mismatch", called + " of " + dataset + ", " + what);
    };
    const FieldInfo& ids = fixed != nullptr ? *fixed : *values;
    if (ids.dtype != TENON_I64) {
      refuse("whose entries are not i64: hash it, or number it, by a feature");
    }
    if (fixed != nullptr && (ids.axes.empty() || ids.axes.size() > 2)) {
      refuse(formatted("which has {} axes: ids are [B] or [B, n]", ids.axes.size()));
    }
    if (is_ragged) {
      if (offsets->dtype != TENON_I64) {
        refuse("whose offsets are not i64");
      }
      if (find_info(fields, use.column + ".offsets.1") != nullptr) {
        refuse("which has lists of lists");
      }
      if (use.pooling.kind == TENON_POOL_NONE) {
        refuse("which is ragged, without a pooling");
      }
    }
    if (is_weighted(use.pooling.kind)) {
      const FieldInfo* const weights = find_info(fields, use.column + ".weights");
      if (weights == nullptr || weights->dtype != TENON_F32) {
        refuse("which has no weights (a field '" + use.column + ".weights' of f32)");
      }
    }
  }
}

}  // namespace tenon
