// SPDX-License-Identifier: Apache-2.0
#include "host/train/metric_state.hpp"

#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "tests/plugins/made_component.hpp"

namespace tenon {
namespace {

using Numbers = std::vector<double>;

MetricProxy four_states(const std::string& options = "{}") {
  return MetricProxy(make_component("metric", "four_states", options));
}

void take(MetricState& state, const MetricProxy& metric, const Numbers& numbers) {
  const at::Tensor x = at::tensor(numbers, at::kDouble);
  const tenon_tensor* const input = borrow(x);
  state.update(make_exec(metric.instance()), &input, 1, at::kCPU);
}

MetricState state_of(const MetricProxy& metric, const std::vector<Numbers>& batches) {
  MetricState state(metric);
  for (const Numbers& batch : batches) {
    take(state, metric, batch);
  }
  return state;
}

// Ranks that are threads: each reduction waits for all.
class ThreadRanks {
 public:
  explicit ThreadRanks(uint32_t size) : barrier_(size), size_(size) {}

  class Rank final : public Collective {
   public:
    Rank(ThreadRanks& all, uint32_t rank) : all_(all), rank_(rank) {}
    uint32_t rank() const override { return rank_; }
    uint32_t world_size() const override { return all_.size_; }
    void all_reduce(std::span<int64_t> values, Reduce reduce) override {
      all_.reduce(all_.integers_, rank_, values, reduce);
    }
    void all_reduce(std::span<double> values, Reduce reduce) override {
      all_.reduce(all_.doubles_, rank_, values, reduce);
    }

   private:
    ThreadRanks& all_;
    uint32_t rank_;
  };

  static void run(uint32_t size, const std::function<void(Collective&)>& body) {
    ThreadRanks all(size);
    std::vector<std::jthread> threads;
    for (uint32_t r = 0; r < size; ++r) {
      threads.emplace_back([&all, &body, r] {
        Rank rank(all, r);
        body(rank);
      });
    }
  }

 private:
  template <class T>
  void reduce(std::vector<std::vector<T>>& given,
              uint32_t rank,
              std::span<T> values,
              Reduce reduce) {
    if (rank == 0) {
      given.resize(size_);
    }
    barrier_.arrive_and_wait();
    given[rank].assign(values.begin(), values.end());
    barrier_.arrive_and_wait();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = given[0].at(i);
      for (uint32_t r = 1; r < size_; ++r) {
        const T other = given[r].at(i);
        values[i] = reduce == Reduce::kSum ? values[i] + other : std::max(values[i], other);
      }
    }
    barrier_.arrive_and_wait();
  }

  std::barrier<> barrier_;
  uint32_t size_;
  std::vector<std::vector<int64_t>> integers_;
  std::vector<std::vector<double>> doubles_;
};

}  // namespace

TEST_CASE("a metric gathers over batches what it declared", "[train]") {
  const MetricProxy metric = four_states();
  MetricState state = state_of(metric, {{3, 9, 1}, {4}});
  CHECK(state.compute(make_exec(metric.instance())) == Numbers{17, 9, 4, 9, 3, 4});
  state.reset();
  const auto empty = state.compute(make_exec(metric.instance()));
  CHECK(empty[0] == 0);
  CHECK(empty[1] == -1e15);
  CHECK(empty[2] == 0);
  CHECK(std::isnan(empty[3]));
  // The metric's own reset comes after the states have their first values.
  CHECK(empty[4] == -1);
  take(state, metric, {5});
  CHECK(state.compute(make_exec(metric.instance()))[0] == 5);
}

TEST_CASE("two stretches of the data become what one has", "[train]") {
  const MetricProxy metric = four_states();
  const tenon_exec exec = make_exec(metric.instance());
  const Numbers whole = state_of(metric, {{3, 9}, {1}, {4, 2}}).compute(exec);
  MetricState merged(metric);
  merged.merge(exec, state_of(metric, {}));
  merged.merge(exec, state_of(metric, {{3, 9}}));
  const MetricState rest = state_of(metric, {{1}, {4, 2}});
  merged.merge(exec, rest);
  merged.merge(exec, MetricState(metric));
  CHECK(merged.compute(exec) == whole);
  // What was merged from is left as it was.
  MetricState copy(metric);
  copy.merge(exec, rest);
  take(copy, metric, {100});
  MetricState again(metric);
  again.merge(exec, rest);
  CHECK(again.compute(exec) == Numbers{7, 4, 3, 4, 1, 2});
}

TEST_CASE("ranks merge states in their order, also where one has no data", "[train]") {
  const std::vector<std::vector<Numbers>> given = {{{3, 0.1}}, {}, {{1}, {4, 1e-9, 8}}};
  std::vector<Numbers> got(given.size());
  ThreadRanks::run(3, [&](Collective& collective) {
    const MetricProxy metric = four_states();
    MetricState state = state_of(metric, given[collective.rank()]);
    state.merge_ranks(make_exec(metric.instance()), collective);
    got[collective.rank()] = state.compute(make_exec(metric.instance()));
  });
  const Numbers want = {3 + 0.1 + (1 + 4 + 1e-9 + 8), 8, 6, 0.1, 3, 8};
  for (const Numbers& figures : got) {
    REQUIRE(figures.size() == want.size());
    CHECK(figures[0] == Approx(want[0]).epsilon(1e-15));
    CHECK(Numbers(figures.begin() + 1, figures.end()) == Numbers(want.begin() + 1, want.end()));
  }
}

TEST_CASE("rows for a state that takes none are refused", "[train]") {
  const MetricProxy metric = four_states(R"({"wrong_rows": true})");
  CHECK_THAT(error_of([&] {
               state_of(metric, {{3, 9}});
             }),
             contains_text("update appended [3] of Double to state \"total\", which is not "
                           "reduced by CONCAT"));
}

}  // namespace tenon
