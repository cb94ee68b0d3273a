// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/sparse_rows.hpp"

#include "host/tensor/dtype.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon {
namespace {

constexpr uint32_t kShift = 2;  // 4 rows per block
constexpr auto kOutside = std::byte{0xA5};
constexpr double kRowLearningRate = 0.05;
constexpr uint64_t kTableSeed = 77;

std::size_t aligned(std::size_t offset, std::size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

}  // namespace

CheckedRows CheckedRows::part(std::size_t begin, std::size_t end, uint32_t dim) const {
  const auto of = [&](const auto& all, std::size_t each) {
    return std::remove_cvref_t<decltype(all)>(
        all.begin() + static_cast<std::ptrdiff_t>(begin * each),
        all.begin() + static_cast<std::ptrdiff_t>(end * each));
  };
  return {of(rows, 1), of(ids, 1), of(counts, 1), of(grads, dim)};
}

CheckedRows CheckedRows::reversed(uint32_t dim) const {
  CheckedRows made;
  for (std::size_t i = rows.size(); i-- > 0;) {
    const CheckedRows one = part(i, i + 1, dim);
    made.rows.push_back(one.rows.front());
    made.ids.push_back(one.ids.front());
    made.counts.push_back(one.counts.front());
    made.grads.insert(made.grads.end(), one.grads.begin(), one.grads.end());
  }
  return made;
}

SparseRows::SparseRows(const SparseOptimizerInfo& info,
                       uint32_t value_dtype,
                       int64_t num_rows,
                       std::mt19937_64& generator)
    : num_rows_(num_rows) {
  lay_out(info, value_dtype);
  const int64_t in_block = int64_t{1} << kShift;
  for (int64_t row = 0; row < num_rows; row += in_block) {
    blocks_.emplace_back(static_cast<std::size_t>(in_block) * stride_, kOutside);
  }
  point_layout();
  std::uniform_real_distribution<double> values(-1, 1);
  for (int64_t row = 0; row < num_rows; ++row) {
    for (std::size_t i = 0; i < kDim; ++i) {
      const double value = values(generator);
      set(row, fields_[0], i, value);
      if (has_master_) {
        set(row, fields_[1], i, get(row, fields_[0], i));
      }
    }
    for (std::size_t f = has_master_ ? 2 : 1; f < fields_.size(); ++f) {
      for (std::size_t i = 0; i < fields_[f].count; ++i) {
        set(row, fields_[f], i, fields_[f].init);
      }
    }
  }
}

SparseRows::SparseRows(const SparseRows& other)
    : num_rows_(other.num_rows_),
      fields_(other.fields_),
      stride_(other.stride_),
      has_master_(other.has_master_),
      value_dtype_(other.value_dtype_),
      blocks_(other.blocks_),
      slot_offsets_(other.slot_offsets_),
      layout_(other.layout_) {
  point_layout();
}

void SparseRows::lay_out(const SparseOptimizerInfo& info, uint32_t value_dtype) {
  value_dtype_ = value_dtype;
  has_master_ = value_dtype != TENON_F32 && info.narrow == TENON_NARROW_MASTER;
  std::size_t end = 8;  // the value does not lie at the beginning
  const auto add = [&](std::size_t count, uint32_t dtype, double init) {
    const std::size_t offset = aligned(end, dtype_size(dtype));
    fields_.push_back({.offset = offset, .count = count, .dtype = dtype, .init = init});
    end = offset + count * dtype_size(dtype);
    return static_cast<int32_t>(offset);
  };
  layout_.value_offset = add(kDim, value_dtype, 0);
  layout_.master_offset = has_master_ ? add(kDim, TENON_F32, 0) : -1;
  for (const RowSlotSpec& slot : info.slots) {
    const std::size_t count = slot.shape == TENON_ROW_SLOT_SCALAR ? 1 : kDim;
    slot_offsets_.push_back(add(count, slot.dtype, slot.init));
  }
  stride_ = aligned(end + 8, 8);
  layout_.struct_size = sizeof(layout_);
  layout_.shift = kShift;
  layout_.dim = kDim;
  layout_.stride = stride_;
  layout_.value_dtype = value_dtype;
  layout_.num_slots = static_cast<uint32_t>(slot_offsets_.size());
}

void SparseRows::point_layout() {
  addresses_.clear();
  for (std::vector<std::byte>& block : blocks_) {
    addresses_.push_back(block.data());
  }
  layout_.blocks = addresses_.data();
  layout_.slot_offsets = slot_offsets_.data();
}

std::byte* SparseRows::field(int64_t row, const Field& field) const {
  return static_cast<std::byte*>(
      tenon_row_field(&layout_, row, static_cast<int32_t>(field.offset)));
}

void SparseRows::set(int64_t row, const Field& of, std::size_t i, double value) const {
  std::byte* const at = field(row, of) + i * dtype_size(of.dtype);
  switch (of.dtype) {
    case TENON_F32:
      return store(at, static_cast<float>(value));
    case TENON_F64:
      return store(at, value);
    case TENON_BF16:
      return store(at, c10::BFloat16(static_cast<float>(value)));
    case TENON_F16:
      return store(at, c10::Half(static_cast<float>(value)));
    case TENON_I64:
      return store(at, static_cast<int64_t>(value));
    case TENON_I32:
      return store(at, static_cast<int32_t>(value));
    default:
      std::memset(at, static_cast<int>(value), dtype_size(of.dtype));
  }
}

double SparseRows::get(int64_t row, const Field& of, std::size_t i) const {
  const std::byte* const at = field(row, of) + i * dtype_size(of.dtype);
  switch (of.dtype) {
    case TENON_F32:
      return load<float>(at);
    case TENON_F64:
      return load<double>(at);
    case TENON_BF16:
      return load<c10::BFloat16>(at);
    case TENON_F16:
      return load<c10::Half>(at);
    default:
      return 0;  // integers are finite
  }
}

CheckedRows SparseRows::random_update(const std::vector<int64_t>& rows,
                                      std::mt19937_64& generator) {
  std::uniform_real_distribution<float> values(-1, 1);
  CheckedRows update;
  for (const int64_t row : rows) {
    update.rows.push_back(row);
    update.ids.push_back(id_of(row));
    update.counts.push_back(1 + row % 3);
    for (uint32_t i = 0; i < kDim; ++i) {
      update.grads.push_back(values(generator));
    }
  }
  return update;
}

void SparseRows::apply(const SparseOptimizerProxy& optimizer,
                       const tenon_exec& exec,
                       const CheckedRows& update,
                       int64_t step,
                       const float* found_inf) const {
  const double lr = kRowLearningRate;
  tenon_sparse_update_args args{};
  args.struct_size = sizeof(args);
  args.layout = &layout_;
  args.n = update.rows.size();
  args.rows = update.rows.data();
  args.ids = update.ids.data();
  args.grads = update.grads.data();
  args.counts = update.counts.data();
  args.step = &step;
  args.lr = &lr;
  args.found_inf = found_inf;
  args.seed = kTableSeed;
  optimizer.update(exec, args);
}

std::string SparseRows::row_bytes(int64_t row) const {
  std::string bytes;
  for (const Field& of : fields_) {
    bytes.append(reinterpret_cast<const char*>(field(row, of)), of.count * dtype_size(of.dtype));
  }
  return bytes;
}

bool SparseRows::is_finite(int64_t row) const {
  return std::ranges::all_of(fields_, [&](const Field& of) {
    for (std::size_t i = 0; i < of.count; ++i) {
      if (!std::isfinite(get(row, of, i))) {
        return false;
      }
    }
    return true;
  });
}

bool SparseRows::is_padding_kept() const {
  for (std::vector<std::byte> block : blocks_) {  // a copy, whose fields are painted over
    for (std::size_t begin = 0; begin < block.size(); begin += stride_) {
      for (const Field& of : fields_) {
        std::memset(block.data() + begin + of.offset,
                    static_cast<int>(kOutside),
                    of.count * dtype_size(of.dtype));
      }
    }
    if (!std::ranges::all_of(block, [](std::byte byte) { return byte == kOutside; })) {
      return false;
    }
  }
  return true;
}

}  // namespace tenon
