// SPDX-License-Identifier: Apache-2.0
#include "host/train/batch_evaluator.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

BatchEvaluator evaluator_of(LoopRig& loop) {
  return BatchEvaluator(
      loop.run, loop.state, loop.events, loop.view.step(), loop.stop, loop.step.forward_pass());
}

// Samples whose reads take long, unless the source starts over meanwhile.
class SlowMap final : public FakeSource {
 public:
  SlowMap() : FakeSource(DatasetStyle::kMap) {}

  int64_t size(const Window*) override {
    const Call call(*this, false);
    return 8;
  }
  void read(const Window*, std::span<const int64_t> indices, tenon_batch_writer& writer) override {
    constexpr int kLong = 100'000;  // turns of other threads
    const Call call(*this, true);
    for (int i = 0; i < kLong && num_resets < 2; ++i) {
      std::this_thread::yield();
    }
    write_samples(writer, indices);
  }
  void reset(uint64_t epoch) override {
    FakeSource::reset(epoch);
    ++num_resets;
  }

  std::atomic<int> num_resets = 0;
};

}  // namespace

TEST_CASE("a trial of the first batch fires no event and moves no data", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  BatchEvaluator batches = evaluator_of(loop);
  std::set<std::string> names;
  CHECK(batches.try_first_batch(run.data->eval_sets[0], names));
  CHECK(names.empty());
  CHECK(loop.hook.seen.empty());
  CHECK_FALSE(run.eval_data().epoch().has_value());
  // In the middle of an epoch, the set stays where it is.
  run.eval_data().begin_epoch(0);
  REQUIRE(run.eval_data().next_window());
  run.eval_data().loader().next();
  CHECK(batches.try_first_batch(run.data->eval_sets[0], names));
  CHECK(samples_of(*run.eval_data().loader().next()) == std::vector<int64_t>{2, 3});
}

// As a set that is evaluated beside windows of training has a window open after a resume.
TEST_CASE("a trial of a set with an open window waits for its reads", "[train]") {
  RunRig run;
  LoopRig loop(run);
  BatchEvaluator batches = evaluator_of(loop);
  SlowMap source;
  LoaderOptions options;
  options.batch_size = 2;
  options.num_threads = 1;
  options.prefetch = 2;
  DataStream data(source, options);
  data.begin_epoch(0);
  REQUIRE(data.next_window());
  REQUIRE(samples_of(*data.loader().next()) == std::vector<int64_t>{0, 1});
  while (source.num_reads < 2) {
    std::this_thread::yield();
  }
  std::set<std::string> names;
  CHECK(batches.try_first_batch({"eval/", &data}, names));
  CHECK_FALSE(source.was_unsafe);
  CHECK(samples_of(*data.loader().next()) == std::vector<int64_t>{2, 3});
}

TEST_CASE("an error of a batch cuts the evaluation, and names set, batch and sample", "[train]") {
  RunRig run;
  run.has_eval = true;
  LoopRig loop(run);
  BatchEvaluator batches = evaluator_of(loop);
  run.eval_data().begin_epoch(0);
  REQUIRE(run.eval_data().next_window());
  run.loss.fails = true;
  EvaluationSums sums(1);
  CHECK_FALSE(batches.evaluate(run.eval_data(), "eval/", sums));
  CHECK(batches.has_failed());
  CHECK(sums.microbatch == 1);
  try {
    batches.rethrow();
    FAIL("the error is kept");
  } catch (const Error& error) {
    CHECK_THAT(error.what(),
               contains_text("evaluation on eval (") &&
                   contains_text(", batch 1, sample 0 (counted from 0): "));
  }
}

TEST_CASE("the sample of an error is counted in its window, the batch in the evaluation",
          "[train]") {
  RunRig run;
  run.has_eval = true;
  run.eval_source.set_windows({make_window(0, "mon", 3), make_window(1, "tue", 8)});
  LoopRig loop(run);
  BatchEvaluator batches = evaluator_of(loop);
  run.eval_data().begin_epoch(0);
  REQUIRE(run.eval_data().next_window());
  EvaluationSums sums(1);
  REQUIRE(batches.evaluate(run.eval_data(), "eval/", sums));
  REQUIRE(run.eval_data().next_window());
  REQUIRE(samples_of(*run.eval_data().loader().next()).size() == 2);
  run.loss.fails = true;
  CHECK_FALSE(batches.evaluate(run.eval_data(), "eval/", sums));
  try {
    batches.rethrow();
    FAIL("the error is kept");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), contains_text("window tue, batch 3, sample 2 (counted from 0): "));
  }
}

}  // namespace tenon
