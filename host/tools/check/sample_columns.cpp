// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/sample_columns.hpp"

#include <tenon/tensor.h>

#include "host/text/formatted.hpp"

#include <ATen/Functions.h>

#include <cstring>
#include <random>

namespace tenon {
namespace {

constexpr int64_t kWidth = 3;
constexpr int64_t kMaxEntries = 3;

// Appends the entries of samples to a column, level by level.
class ColumnMaker {
 public:
  ColumnMaker(const ColumnType& type, EmptyLists empty) : type_(type), empty_(empty) {
    offsets_.resize(type.num_levels);
    for (std::vector<int64_t>& level : offsets_) {
      level.push_back(0);
    }
  }

  void add_sample(int64_t sample, uint64_t seed) {
    std::mt19937_64 generator(seed * 1000003 + static_cast<uint64_t>(sample));
    const bool is_empty = empty_ == EmptyLists::kSome && sample % 3 == 2;
    if (type_.num_levels == 0) {
      const int64_t entries = type_.width > 0 ? type_.width : 1;
      for (int64_t i = 0; i < entries; ++i) {
        add_number(generator);
      }
      return;
    }
    add_list(0, is_empty, generator);
  }

  Column finish(int64_t samples) const {
    Column column;
    column.values = tensor_of_numbers();
    if (type_.width > 0) {
      column.values = column.values.view({samples, type_.width});
    }
    for (const std::vector<int64_t>& level : offsets_) {
      at::Tensor made = at::empty({static_cast<int64_t>(level.size())}, at::kLong);
      std::memcpy(made.mutable_data_ptr(), level.data(), level.size() * sizeof(int64_t));
      column.offsets.push_back(std::move(made));
    }
    if (type_.has_weights) {
      column.weights = at::empty({static_cast<int64_t>(weights_.size())}, at::kFloat);
      std::memcpy(
          column.weights.mutable_data_ptr(), weights_.data(), weights_.size() * sizeof(float));
    }
    return column;
  }

 private:
  // Pieces of level `level`: lists of the level below, strings or numbers.
  void add_list(std::size_t level, bool is_empty, std::mt19937_64& generator) {
    const bool is_string = type_.is_text && level + 1 == type_.num_levels;
    if (is_string) {
      const std::string text = formatted("{}", 10 + generator() % 90);
      text_ += text;
      offsets_[level].push_back(static_cast<int64_t>(text_.size()));
      return;
    }
    const auto entries =
        is_empty ? int64_t{0} : 1 + static_cast<int64_t>(generator() % kMaxEntries);
    const bool is_last = level + 1 == type_.num_levels;
    for (int64_t i = 0; i < entries; ++i) {
      if (is_last) {
        add_number(generator);
      } else {
        add_list(level + 1, false, generator);
      }
      const bool is_entry = is_last || (type_.is_text && level + 2 == type_.num_levels);
      if (type_.has_weights && is_entry) {
        weights_.push_back(0.5F + static_cast<float>(generator() % 8) / 8);
      }
    }
    offsets_[level].push_back(offsets_[level].back() + entries);
  }

  void add_number(std::mt19937_64& generator) {
    numbers_.push_back(type_.dtype == TENON_I64
                           ? static_cast<double>(generator() % 8)
                           : std::uniform_real_distribution<double>(0.1, 0.9)(generator));
  }

  at::Tensor tensor_of_numbers() const {
    if (type_.is_text) {
      at::Tensor bytes = at::empty({static_cast<int64_t>(text_.size())}, at::kByte);
      std::memcpy(bytes.mutable_data_ptr(), text_.data(), text_.size());
      return bytes;
    }
    at::Tensor values = at::empty({static_cast<int64_t>(numbers_.size())}, at::kDouble);
    std::memcpy(values.mutable_data_ptr(), numbers_.data(), numbers_.size() * sizeof(double));
    return values.to(static_cast<at::ScalarType>(type_.dtype));
  }

  const ColumnType& type_;
  EmptyLists empty_;
  std::vector<std::vector<int64_t>> offsets_;
  std::vector<double> numbers_;
  std::string text_;
  std::vector<float> weights_;
};

void append_range(std::string& bytes, const at::Tensor& tensor, int64_t begin, int64_t end) {
  const at::Tensor part = tensor.narrow(0, begin, end - begin).contiguous();
  bytes.append(static_cast<const char*>(part.const_data_ptr()), part.nbytes());
}

}  // namespace

std::span<const ColumnType> column_types() {
  static const std::vector<ColumnType> types = {
      {.dtype = TENON_F32},
      {.dtype = TENON_I64},
      {.dtype = TENON_F32, .width = kWidth},
      {.dtype = TENON_I64, .width = kWidth},
      {.dtype = TENON_F32, .num_levels = 1},
      {.dtype = TENON_I64, .num_levels = 1},
      {.dtype = TENON_I64, .num_levels = 1, .has_weights = true},
      {.dtype = TENON_I64, .num_levels = 2},
      {.dtype = TENON_U8, .num_levels = 1, .is_text = true},
      {.dtype = TENON_U8, .num_levels = 2, .is_text = true},
  };
  return types;
}

Column make_column(const ColumnType& type,
                   const std::vector<int64_t>& samples,
                   uint64_t seed,
                   EmptyLists empty) {
  ColumnMaker maker(type, empty);
  for (const int64_t sample : samples) {
    maker.add_sample(sample, seed);
  }
  return maker.finish(static_cast<int64_t>(samples.size()));
}

std::string bytes_of_sample(const Column& column, std::size_t i) {
  std::string bytes;
  auto begin = static_cast<int64_t>(i);
  int64_t end = begin + 1;
  for (std::size_t level = 0; level < column.offsets.size(); ++level) {
    const auto* const offsets = column.offsets[level].const_data_ptr<int64_t>();
    for (int64_t piece = begin; piece < end; ++piece) {
      bytes += formatted("{},", offsets[piece + 1] - offsets[piece]);
    }
    begin = offsets[begin];
    end = offsets[end];
    // Weights belong to entries: numbers, or the strings that the last level splits bytes into.
    const bool is_entry = column.weights.defined() && column.weights.numel() >= end &&
                          (level + 1 == column.offsets.size()
                               ? column.weights.numel() == column.values.size(0)
                               : column.weights.numel() + 1 == column.offsets[level + 1].numel());
    if (is_entry) {
      append_range(bytes, column.weights, begin, end);
    }
  }
  append_range(bytes, column.values, begin, end);
  return bytes;
}

}  // namespace tenon
