// SPDX-License-Identifier: Apache-2.0
//
// Bounds what one rendering of a template may cost. A template is data from elsewhere: without
// bounds, `{% for i in range(100000) %}` in itself, or a string that doubles in each round, would
// stop the run or take all memory.
// Threads: one rendering.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <stdexcept>

namespace tenon {

struct TemplateLimits {
  int64_t steps = 2'000'000;       // statements executed
  size_t bytes = size_t{1} << 30;  // of all values made, freed ones included
  int64_t work = 100'000'000;      // items, and pieces of 16 bytes of text, that functions visit
  int depth = 150;                 // statements in statements, calls of macros included
  size_t stack = size_t{2} << 20;  // bytes that nested statements and macros use
  std::chrono::seconds time = std::chrono::seconds(30);  // of processor time
};

class TemplateBudget {
 public:
  explicit TemplateBudget(TemplateLimits limits = TemplateLimits()) : limits_(limits) {}

  // Makes a budget that of the calling thread, while the object lives.
  class Use {
   public:
    explicit Use(TemplateBudget& budget) { current_ = &budget; }
    ~Use() { current_ = nullptr; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
  };
  // Counts memory for the budget of the calling thread, if it has one.
  //
  // Errors   std::runtime_error
  static void charge_current(size_t bytes) {
    if (current_ != nullptr) {
      current_->charge(bytes);
    }
  }
  // Counts what a filter, test or operator visits, for the budget of the calling thread.
  //
  // Errors   std::runtime_error
  static void work_current(size_t items) {
    if (current_ != nullptr) {
      current_->work(items);
    }
  }

  // Starts a rendering.
  void start() {
    stack_begin_ = stack_position();
    steps_ = 0;
    work_ = 0;
    bytes_ = 0;
    depth_ = 0;
    position_ = 0;
    is_exceeded_ = false;
    end_ = time_used() + limits_.time;
  }
  // Counts a statement at a position of the source.
  //
  // Errors   std::runtime_error
  void step(size_t position) {
    position_ = position;
    if (++steps_ > limits_.steps) {
      exceed("the template executes more than 2 million statements");
    }
    if (steps_ % 256 == 0 && time_used() > end_) {
      exceed("rendering takes longer than 30 seconds of processor time");
    }
  }
  // Counts items that a function visits. One expression may visit many.
  //
  // Errors   std::runtime_error
  void work(size_t items) {
    constexpr int64_t kBetweenChecks = 1'000'000;
    const int64_t before = work_;
    work_ += static_cast<int64_t>(std::min(items, size_t{1} << 40));
    if (work_ > limits_.work) {
      exceed("the filters and operators of the template visit more than 100 million items");
    }
    if (before / kBetweenChecks != work_ / kBetweenChecks && time_used() > end_) {
      exceed("rendering takes longer than 30 seconds of processor time");
    }
  }
  // Counts the memory of a new value.
  //
  // Errors   std::runtime_error
  void charge(size_t bytes) {
    if (bytes > limits_.bytes - bytes_) {
      exceed("the values of the template need more than 1 GiB");
    }
    bytes_ += bytes;
  }
  // A level of nesting, while the object lives.
  class Level {
   public:
    explicit Level(TemplateBudget& budget) : budget_(budget) {
      // A long expression in each level needs more of the stack than its level says.
      const auto used = static_cast<size_t>(std::abs(budget_.stack_begin_ - stack_position()));
      if (budget_.depth_ >= budget_.limits_.depth || used > budget_.limits_.stack) {
        budget_.exceed("statements or macros are nested more than 150 deep");
      }
      ++budget_.depth_;
    }
    ~Level() { --budget_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TemplateBudget& budget_;
  };

  // Position in the source of the statement that was executed last.
  size_t position() const { return position_; }
  bool is_exceeded() const { return is_exceeded_; }

 private:
  // Of this thread. Other processes do not make a rendering fail.
  static std::chrono::nanoseconds time_used() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  static intptr_t stack_position() {
    return reinterpret_cast<intptr_t>(__builtin_frame_address(0));
  }

  [[noreturn]] void exceed(const char* why) {
    is_exceeded_ = true;
    throw std::runtime_error(why);
  }

  static inline thread_local TemplateBudget* current_ = nullptr;

  TemplateLimits limits_;
  intptr_t stack_begin_ = 0;
  int64_t steps_ = 0;
  int64_t work_ = 0;
  size_t bytes_ = 0;
  int depth_ = 0;
  size_t position_ = 0;
  bool is_exceeded_ = false;
  std::chrono::nanoseconds end_{};
};

}  // namespace tenon
