// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/kernel_choice.hpp"

#include "host/text/formatted.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// A question without text: what the fast path compares.
struct Key {
  const char* op = nullptr;  // by address: names are literals
  at::ScalarType dtype = at::kFloat;
  int threads = 1;
  std::array<int64_t, 3> sizes = {};

  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    auto hash = std::bit_cast<size_t>(key.op);
    const auto add = [&hash](int64_t x) {
      hash = (hash ^ static_cast<size_t>(x)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29U;
    };
    add(static_cast<int64_t>(key.dtype));
    add(key.threads);
    for (const int64_t size : key.sizes) {
      add(size);
    }
    return hash;
  }
};

struct State {
  std::shared_mutex mutex;  // of `found`
  std::unordered_map<Key, size_t, KeyHash> found;
  std::mutex slow;  // of all below; taken before `mutex`
  KernelPolicy policy;
  KernelAnswers answers;
  KeepKernelAnswer keeper;
};

// Never destroyed: operators may run until the process ends.
State& state() {
  static auto* const it = new State;
  return *it;
}

std::string text_of(const KernelQuestion& question, int threads) {
  const auto& s = question.sizes;
  return formatted("{} {} {}x{}x{} {} threads",
                   question.op,
                   c10::toString(question.dtype),
                   s[0],
                   s[1],
                   s[2],
                   threads);
}

std::string_view operator_of(std::string_view op) {
  return op.substr(0, op.find('.'));
}

// Another candidate must be faster than the default by this, so that noise seldom decides.
constexpr double kClearlyFaster = 0.98;
constexpr size_t kRounds = 4;  // the first of them warms up
// Before a round, a candidate that takes as many times as long as the fastest has lost. Another
// process may have slowed its first runs down, so the limit is wide at first, and the default never
// loses early.
constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::array<double, kRounds> kClearlySlower = {kNever, kNever, 2.0, 1.1};

// The fastest candidate, by the shortest of some runs in turn, since other processes only slow one
// down.
size_t measure(const KernelQuestion& question, const std::function<void(size_t)>& run) {
  const size_t num = question.candidates.size();
  std::vector<double> best(num, std::numeric_limits<double>::infinity());
  for (size_t round = 0; round < kRounds; ++round) {
    const double longest = *std::ranges::min_element(best) * kClearlySlower[round];
    std::vector<size_t> left;
    for (size_t i = 0; i < num; ++i) {
      if (best[i] <= longest || i == 0) {
        left.push_back(i);
      }
    }
    if (left.size() == 1) {
      break;
    }
    for (const size_t i : left) {
      const auto begin = std::chrono::steady_clock::now();
      run(i);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (round > 0) {
        best[i] = std::min(best[i], took.count());
      }
    }
  }
  size_t chosen = 0;
  double limit = best[0] * kClearlyFaster;
  for (size_t i = 1; i < num; ++i) {
    if (best[i] < limit) {
      chosen = i;
      limit = best[i];
    }
  }
  return chosen;
}

size_t index_of(const KernelQuestion& question, std::string_view name) {
  const auto found = std::ranges::find(question.candidates, name);
  return static_cast<size_t>(found - question.candidates.begin());
}

size_t answer(State& s,
              const KernelQuestion& question,
              int threads,
              const std::function<void(size_t)>& run) {
  const auto num = question.candidates.size();
  if (const auto forced = s.policy.forced.find(operator_of(question.op));
      forced != s.policy.forced.end()) {
    if (const size_t index = index_of(question, forced->second); index < num) {
      return index;
    }
    return 0;
  }
  if (num < 2) {
    return 0;
  }
  const std::string text = text_of(question, threads);
  if (const auto known = s.answers.find(text); known != s.answers.end()) {
    if (const size_t index = index_of(question, known->second); index < num) {
      return index;
    }
  }
  const auto measured = [&] { return std::string(question.candidates[measure(question, run)]); };
  const std::string name = s.keeper ? s.keeper(text, measured) : measured();
  size_t index = index_of(question, name);
  if (index >= num) {  // kept by a process with other candidates
    index = measure(question, run);
  }
  s.answers[text] = question.candidates[index];
  return index;
}

}  // namespace

int64_t size_class(int64_t size, int64_t largest) {
  if (size >= largest) {
    return largest;
  }
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))));
}

void set_kernel_policy(KernelPolicy policy) {
  State& s = state();
  const std::lock_guard slow(s.slow);
  const std::lock_guard lock(s.mutex);
  s.policy = std::move(policy);
  s.answers.clear();
  s.found.clear();
}

const KernelPolicy& kernel_policy() {
  return state().policy;
}

bool is_plain(std::string_view op) {
  const KernelPolicy& policy = state().policy;
  const auto forced = policy.forced.find(op);
  return forced == policy.forced.end() ? policy.mode == KernelPolicy::Mode::kPlain
                                       : forced->second == "plain";
}

size_t choose_kernel(const KernelQuestion& question, const std::function<void(size_t)>& run) {
  State& s = state();
  const Key key{question.op.data(), question.dtype, at::get_num_threads(), question.sizes};
  {
    const std::shared_lock lock(s.mutex);
    if (const auto found = s.found.find(key); found != s.found.end()) {
      return found->second;
    }
  }
  const std::lock_guard slow(s.slow);
  {
    const std::shared_lock lock(s.mutex);
    if (const auto found = s.found.find(key); found != s.found.end()) {
      return found->second;
    }
  }
  const size_t chosen = answer(s, question, key.threads, run);
  const std::lock_guard lock(s.mutex);
  return s.found.try_emplace(key, chosen).first->second;
}

KernelAnswers kernel_answers() {
  State& s = state();
  const std::lock_guard slow(s.slow);
  return s.answers;
}

void restore_kernel_answers(const KernelAnswers& answers) {
  State& s = state();
  const std::lock_guard slow(s.slow);
  s.answers.insert(answers.begin(), answers.end());
}

KeepKernelAnswer set_kernel_answer_keeper(KeepKernelAnswer keeper) {
  State& s = state();
  const std::lock_guard slow(s.slow);
  return std::exchange(s.keeper, std::move(keeper));
}

}  // namespace tenon
