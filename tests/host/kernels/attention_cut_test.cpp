// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/attention_cut.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// First visible keys of segments of the given lengths, repeated until S.
std::vector<int32_t> starts_of(int64_t S, const std::vector<int64_t>& lengths) {
  std::vector<int32_t> starts;
  for (size_t i = 0; static_cast<int64_t>(starts.size()) < S; ++i) {
    const auto start = static_cast<int32_t>(starts.size());
    starts.insert(starts.end(), static_cast<size_t>(lengths[i % lengths.size()]), start);
  }
  starts.resize(static_cast<size_t>(S));
  return starts;
}

AttentionInput input_of(const AttentionSizes& sizes, const std::vector<int32_t>& starts) {
  AttentionInput in;
  in.sizes = sizes;
  in.starts = starts.empty() ? nullptr : starts.data();
  return in;
}

// How many tasks visit the query, the key and the heads of each visible pair of sample 0.
void check_each_pair_once(const AttentionInput& in) {
  const AttentionSizes& s = in.sizes;
  const BackwardTasks cut = backward_tasks(in);
  for (int64_t t = 0; t < s.T; t += 7) {
    const int64_t first = in.starts == nullptr ? 0 : in.starts[t];
    for (int64_t key = first; key <= in.first + t; key += 5) {
      for (int64_t h = 0; h < s.H; ++h) {
        const auto visits = [&](const BackwardTask& task) {
          const AttentionPart& p = task.part;
          return p.b == 0 && p.first_head <= h && h < p.end_head && p.first_key <= key &&
                 key < p.end_key && p.first_query <= t && t < p.end_query;
        };
        if (std::count_if(cut.tasks.begin(), cut.tasks.end(), visits) != 1) {
          FAIL("query " << t << ", key " << key << ", head " << h);
        }
      }
    }
  }
}

// Each place of each gradient is written once in each of its memories that a task uses; the first
// memory is complete.
void check_writes(const AttentionInput& in) {
  const AttentionSizes& s = in.sizes;
  const BackwardTasks cut = backward_tasks(in);
  std::vector<int> queries(static_cast<size_t>(cut.key_parts * s.B * s.H * s.T));
  std::vector<int> keys(static_cast<size_t>(cut.head_parts * s.B * s.K * s.S));
  for (const auto& [p, key_part, head_part] : cut.tasks) {
    for (int64_t h = p.first_head; h < p.end_head; ++h) {
      for (int64_t t = p.first_query; t < p.end_query; ++t) {
        ++queries[static_cast<size_t>(((key_part * s.B + p.b) * s.H + h) * s.T + t)];
      }
    }
    for (int64_t j = p.first_key; j < p.end_key; ++j) {
      ++keys[static_cast<size_t>(((head_part * s.B + p.b) * s.K + p.kv_head) * s.S + j)];
    }
  }
  CHECK(std::all_of(queries.begin(), queries.end(), [](int n) { return n == 1; }));
  CHECK(std::all_of(keys.begin(), keys.end(), [](int n) { return n == 1; }));
}

}  // namespace

TEST_CASE("tasks of the backward of attention visit each pair once", "[kernels]") {
  const AttentionSizes s = GENERATE(AttentionSizes{1, 1500, 1500, 1, 1, 32},
                                    AttentionSizes{1, 1024, 1024, 9, 3, 64},
                                    AttentionSizes{2, 700, 700, 4, 2, 128},
                                    AttentionSizes{3, 5, 5, 2, 1, 4});
  const std::vector<int32_t> segments =
      starts_of(s.T, GENERATE(std::vector<int64_t>{128}, std::vector<int64_t>{3, 400, 1, 90}));
  CAPTURE(s.B, s.T, s.H, s.K);
  for (const AttentionInput& in : {input_of(s, {}), input_of(s, segments)}) {
    check_each_pair_once(in);
    check_writes(in);
  }
}

TEST_CASE("queries of a part of the keys visit each pair once", "[kernels]") {
  const AttentionSizes s = GENERATE(AttentionSizes{1, 700, 1500, 1, 1, 32},
                                    AttentionSizes{2, 513, 1024, 9, 3, 64},
                                    AttentionSizes{1, 1, 700, 4, 2, 128});
  const int64_t first = std::min(s.S - s.T, GENERATE(int64_t{0}, int64_t{250}, int64_t{1500}));
  const std::vector<int32_t> of_keys = starts_of(s.S, {3, 100, 1, 90});
  const auto begin = of_keys.begin() + first;
  const std::vector<int32_t> segments(begin, begin + s.T);
  CAPTURE(s.B, s.T, s.H, s.K, first);
  for (AttentionInput in : {input_of(s, {}), input_of(s, segments)}) {
    in.first = first;
    check_each_pair_once(in);
    check_writes(in);
  }
}

TEST_CASE("the backward of packed attention is cut between segments", "[kernels]") {
  const AttentionSizes s{1, 8192, 8192, 4, 1, 64};
  const std::vector<int32_t> segments = starts_of(s.T, {512});
  const BackwardTasks cut = backward_tasks(input_of(s, segments));
  CHECK(cut.key_parts == 1);
  CHECK(cut.head_parts == 1);
  CHECK(cut.tasks.size() == 16);
  for (const BackwardTask& task : cut.tasks) {
    CHECK(task.part.first_key % 512 == 0);
    CHECK(task.part.first_key == task.part.first_query);
    CHECK(task.part.end_key == task.part.end_query);
  }
  CHECK(backward_tasks(input_of(s, {})).tasks.size() == 16);
}

TEST_CASE("short segments are not worth a cut", "[kernels]") {
  const AttentionSizes s{1, 2048, 2048, 1, 1, 8};
  CHECK(backward_tasks(input_of(s, starts_of(s.T, {16}))).tasks.size() == 1);
}

}  // namespace tenon
