// SPDX-License-Identifier: Apache-2.0
#include "host/kernels/kernel_choice.hpp"

#include <ATen/Parallel.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/host/kernels/kernel_rig.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr std::array<std::string_view, 3> kThree = {"first", "second", "third"};

KernelQuestion question(std::array<int64_t, 3> sizes = {8, 4, 2}) {
  return {.op = "maths.part", .dtype = at::kFloat, .sizes = sizes, .candidates = kThree};
}

// Candidates that sleep as many milliseconds.
std::function<void(size_t)> sleeping(std::array<int, 3> milliseconds) {
  return [milliseconds](size_t i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds[i]));
  };
}

void must_not_run(size_t /*candidate*/) {
  FAIL("measured");
}

std::string text() {
  return "maths.part Float 8x4x2 " + std::to_string(at::get_num_threads()) + " threads";
}

}  // namespace

TEST_CASE("classes of sizes are powers of two up to a largest", "[kernels]") {
  CHECK(size_class(0, 512) == 1);
  CHECK(size_class(1, 512) == 1);
  CHECK(size_class(5, 512) == 8);
  CHECK(size_class(384, 512) == 512);
  CHECK(size_class(512, 512) == 512);
  CHECK(size_class(100000, 512) == 512);
}

TEST_CASE("the fastest candidate is chosen, once", "[kernels]") {
  set_kernel_policy({});
  CHECK(choose_kernel(question(), sleeping({40, 40, 1})) == 2);
  CHECK(choose_kernel(question(), must_not_run) == 2);
  CHECK(kernel_answers() == KernelAnswers{{text(), "third"}});
  // Another class of shapes is another question.
  CHECK(choose_kernel(question({16, 4, 2}), sleeping({1, 40, 40})) == 0);
  set_kernel_policy({});
  CHECK(kernel_answers().empty());
}

TEST_CASE("a candidate that is clearly slower than the fastest runs twice", "[kernels]") {
  set_kernel_policy({});
  std::array<int, 3> num_runs = {};
  const auto counted = [&](std::array<int, 3> milliseconds) {
    num_runs = {};
    return [&num_runs, milliseconds](size_t i) {
      ++num_runs[i];
      sleeping(milliseconds)(i);
    };
  };
  // No candidate is left, so that the default does not run again either.
  CHECK(choose_kernel(question({8, 8, 8}), counted({5, 40, 40})) == 0);
  CHECK(num_runs == std::array{2, 2, 2});
  CHECK(choose_kernel(question({8, 8, 16}), counted({10, 100, 1})) == 2);
  CHECK(num_runs == std::array{4, 2, 4});
  set_kernel_policy({});
}

TEST_CASE("the recipe's choice and restored ones need no measurement", "[kernels]") {
  set_kernel_policy({.mode = KernelPolicy::Mode::kAuto, .forced = {{"maths", "second"}}});
  CHECK(choose_kernel(question(), must_not_run) == 1);
  CHECK(kernel_answers().empty());
  set_kernel_policy({.mode = KernelPolicy::Mode::kAuto, .forced = {{"maths", "unknown"}}});
  CHECK(choose_kernel(question(), must_not_run) == 0);

  set_kernel_policy({});
  restore_kernel_answers({{text(), "third"}, {"of another operator", "kernel"}});
  CHECK(choose_kernel(question(), must_not_run) == 2);
  restore_kernel_answers({{text(), "second"}});  // too late
  CHECK(choose_kernel(question(), must_not_run) == 2);
  CHECK(kernel_answers().size() == 2);
  // An answer that this host does not have as a kernel is measured again.
  set_kernel_policy({});
  restore_kernel_answers({{text(), "of a later host"}});
  CHECK(choose_kernel(question(), sleeping({40, 1, 40})) == 1);
  set_kernel_policy({});
}

TEST_CASE("a keeper answers before anything is measured", "[kernels]") {
  set_kernel_policy({});
  std::vector<std::string> asked;
  set_kernel_answer_keeper([&](const std::string& of, const std::function<std::string()>&) {
    asked.push_back(of);
    return std::string("third");
  });
  CHECK(choose_kernel(question(), must_not_run) == 2);
  CHECK(asked == std::vector{text()});
  set_kernel_answer_keeper([](const std::string&, const auto& measure) { return measure(); });
  CHECK(choose_kernel(question({32, 4, 2}), sleeping({40, 1, 40})) == 1);
  set_kernel_answer_keeper(nullptr);
  set_kernel_policy({});
}

TEST_CASE("threads that ask at the same time get one answer", "[kernels]") {
  set_kernel_policy({});
  std::atomic<int> num_runs = 0;
  std::vector<size_t> chosen(4);
  {
    std::vector<std::jthread> threads;
    for (size_t& mine : chosen) {
      threads.emplace_back([&] {
        mine = choose_kernel(question(), [&](size_t i) {
          ++num_runs;
          sleeping({20, 1, 20})(i);
        });
      });
    }
  }
  CHECK(chosen == std::vector<size_t>(4, 1));
  CHECK(num_runs <= 12);
  set_kernel_policy({});
}

}  // namespace tenon
