// SPDX-License-Identifier: Apache-2.0
#include "host/embedding/row_exchange.hpp"

#include "host/error/assert.hpp"
#include "host/tensor/philox.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon {

RowExchange::RowExchange(Group& group, size_t num_tables)
    : group_(group), num_tables_(num_tables) {}

uint32_t RowExchange::owner_of(int64_t id, uint32_t num_ranks) {
  return static_cast<uint32_t>(mix_bits(static_cast<uint64_t>(id)) % num_ranks);
}

void RowExchange::ask(const std::vector<std::vector<SeenIds>>& ids) {
  TENON_ASSERT(!is_asking_ && ids.size() == num_tables_, "one question at a time, of all tables");
  is_asking_ = true;
  const auto n = static_cast<int64_t>(size());
  const auto tables = static_cast<int64_t>(num_tables_);
  sent_lengths_ = at::empty({n * tables}, at::kLong);
  lengths_ = at::empty({n * tables}, at::kLong);
  auto* length = sent_lengths_.mutable_data_ptr<int64_t>();
  sent_counts_.assign(size(), 0);
  for (uint32_t r = 0; r < size(); ++r) {
    for (size_t t = 0; t < num_tables_; ++t) {
      *length = static_cast<int64_t>(ids[t][r].ids.size());
      sent_counts_[r] += 2 * *length++;
    }
  }
  const std::vector<int64_t> equal(size(), tables);
  lengths_work_ = group_.all_to_all(lengths_, equal, sent_lengths_, equal, "numbers of ids");
  sent_ids_ = at::empty({std::reduce(sent_counts_.begin(), sent_counts_.end())}, at::kLong);
  auto* out = sent_ids_.mutable_data_ptr<int64_t>();
  for (uint32_t r = 0; r < size(); ++r) {
    for (size_t t = 0; t < num_tables_; ++t) {
      out = std::ranges::copy(ids[t][r].ids, out).out;
      out = std::ranges::copy(ids[t][r].counts, out).out;
    }
  }
}

std::vector<std::vector<RowExchange::Asked>> RowExchange::asked() {
  TENON_ASSERT(is_asking_, "there is a question");
  is_asking_ = false;
  std::exchange(lengths_work_, nullptr)->wait();
  const auto* const lengths = lengths_.const_data_ptr<int64_t>();
  std::vector<int64_t> counts(size(), 0);
  for (uint32_t r = 0; r < size(); ++r) {
    for (size_t t = 0; t < num_tables_; ++t) {
      counts[r] += 2 * lengths[r * num_tables_ + t];
    }
  }
  ids_ = at::empty({std::reduce(counts.begin(), counts.end())}, at::kLong);
  group_.all_to_all(ids_, counts, sent_ids_, sent_counts_, "ids")->wait();
  std::vector<std::vector<Asked>> asked(num_tables_, std::vector<Asked>(size()));
  const auto* in = ids_.const_data_ptr<int64_t>();
  for (uint32_t r = 0; r < size(); ++r) {
    for (size_t t = 0; t < num_tables_; ++t) {
      const auto length = static_cast<size_t>(lengths[r * num_tables_ + t]);
      asked[t][r] = {{in, length}, {in + length, length}};
      in += 2 * length;
    }
  }
  return asked;
}

void RowExchange::send(std::span<const int64_t> numbers,
                       std::span<const int64_t> expected,
                       const Fill& fill,
                       std::string_view what) {
  TENON_ASSERT(numbers_work_ == nullptr, "one sending at a time");
  expected_.assign(expected.begin(), expected.end());
  sent_numbers_ = at::empty({std::reduce(numbers.begin(), numbers.end())}, at::kFloat);
  numbers_ = at::empty({std::reduce(expected.begin(), expected.end())}, at::kFloat);
  auto* out = sent_numbers_.mutable_data_ptr<float>();
  for (uint32_t r = 0; r < size(); ++r) {
    fill(r, out);
    out += numbers[r];
  }
  numbers_work_ = group_.all_to_all(numbers_, expected, sent_numbers_, numbers, what);
}

std::vector<const float*> RowExchange::receive() {
  TENON_ASSERT(numbers_work_ != nullptr, "something was sent");
  std::exchange(numbers_work_, nullptr)->wait();
  std::vector<const float*> rows;
  const auto* in = numbers_.const_data_ptr<float>();
  for (const int64_t count : expected_) {
    rows.push_back(in);
    in += count;
  }
  return rows;
}

}  // namespace tenon
