// SPDX-License-Identifier: Apache-2.0
//
// A call of the host into a plugin in the checking mode: its thread role, the handles and objects
// that it lends, and the rules that it broke. Frames of a thread nest. A thread of a parallel loop
// works in the frame of the call that runs the loop.
// Threads: a frame belongs to the thread of its call; report() may be called by any.
#pragma once

#include <tenon/status.h>
#include <tenon/tensor.h>

#include "host/plugin/checked/function_roles.hpp"
#include "host/plugin/checked/handle_history.hpp"

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tenon {

class ComponentIdentity;

// An object that the host lends for a call, such as a batch writer. It outlives the call, so that a
// later use is recognized.
struct LentObject {
  CallName call = {};
  std::string_view what = {};  // "batch writer"
  std::thread::id thread = {};
  std::atomic<bool> has_ended = false;

  LentObject() = default;
  LentObject(const LentObject&) = delete;
  LentObject& operator=(const LentObject&) = delete;
  virtual ~LentObject() = default;
};

class CallFrame {
 public:
  CallFrame(const ComponentIdentity& identity, const char* function, uint64_t number);
  CallFrame(const CallFrame&) = delete;
  CallFrame& operator=(const CallFrame&) = delete;
  // Ends what the frame lent.
  ~CallFrame();

  // Returns the frame of this thread; null if it is in no call.
  static CallFrame* current() noexcept;
  // The call of this thread, or none.
  static CallName current_call() noexcept;

  const CallName& call() const noexcept { return call_; }
  const FunctionRole& role() const noexcept { return role_; }
  std::thread::id thread() const noexcept { return thread_; }
  CallFrame* outer() const noexcept { return outer_; }

  // Returns a handle of the same tensor that is valid until the call returns. `what` names it:
  // "inputs[0]". Null gives null.
  tenon_tensor* lend(const tenon_tensor* handle, std::string what);
  tenon_tensor* const* lend_all(const tenon_tensor* const* handles,
                                std::size_t count,
                                std::string_view what);
  // Keeps an object that the call lends.
  void keep(std::shared_ptr<LentObject> object);

  void add_problem(std::string problem);
  // Returns the first problem; "" if there is none.
  std::string first_problem() const;

 private:
  CallName call_;
  FunctionRole role_;
  std::thread::id thread_;
  CallFrame* outer_;
  std::vector<tenon_tensor*> lent_;
  std::deque<std::vector<tenon_tensor*>> arrays_;
  std::vector<std::shared_ptr<LentObject>> objects_;  // shared with the list of ended ones
  mutable std::mutex mutex_;                          // of problems_
  std::vector<std::string> problems_;
};

// Makes a frame that of this thread during its lifetime. Null: this thread is in no call.
class FrameScope {
 public:
  explicit FrameScope(CallFrame* frame) noexcept;
  FrameScope(const FrameScope&) = delete;
  FrameScope& operator=(const FrameScope&) = delete;
  ~FrameScope();

 private:
  CallFrame* outer_;
};

// The rules that a call can break.
enum class CallRule { kHandles, kRoles };

// The handles of the process.
HandleHistory& handle_history();

// Reports a broken rule of the call of this thread, for example "released a handle twice: ...". If
// the thread is in no call, or `of` is a call that has ended, reports it as one of a thread of the
// plugin: in the log, and in the next call of the plugin.
void report_problem(CallRule rule, const std::string& what, const LoadedComponent* of = nullptr);

// Takes the problem of the plugin's threads; "" if there is none.
std::string take_thread_problem(const LoadedComponent& component);

// All problems of this process with a rule, in order.
std::vector<std::string> reported_problems(CallRule rule);

// Reports a handle that a plugin passes to `service` and that is not valid. Returns true if it is.
bool check_passed(const tenon_tensor* handle, std::string_view service);
// Checks a result that the call stored in `slot`, and records that the host owns it. A handle that
// is not the plugin's is reported and removed from the slot.
void take_result(tenon_tensor*& slot, std::string_view name);
void take_results(tenon_tensor** slots, std::size_t count, std::string_view name);

// A status for a service that was called against the rules.
tenon_status* bad_call_status(const tenon_host* host);

}  // namespace tenon
