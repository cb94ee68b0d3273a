// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/checked/checked_calls.hpp"

#include "host/log/log.hpp"
#include "host/plugin/call_checker.hpp"
#include "host/plugin/call_checks.hpp"
#include "host/plugin/checked/call_frame.hpp"
#include "host/plugin/checked/checked_services.hpp"
#include "host/plugin/checked/checked_tables.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/tensor/handle_pool.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/service_misuse.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

// What the checker knows of an instance.
struct InstanceCalls {
  std::map<std::string_view, uint64_t> numbers;  // of calls, by function
  std::vector<const CallFrame*> running;
};

// True if the roles allow the two calls of an instance at the same time.
bool may_overlap(Role a, Role b) {
  if (a == Role::kAny || b == Role::kAny) {
    return true;
  }
  return (a == Role::kWorker && (b == Role::kWorker || b == Role::kStep)) ||
         (a == Role::kStep && b == Role::kWorker);
}

thread_local std::string problem_of_call;

class RuleChecker : public CallChecker {
 public:
  void begin(const ComponentIdentity& identity, const char* function) override {
    const std::lock_guard lock(mutex_);
    InstanceCalls& calls = instances_[&identity];
    auto frame = std::make_unique<CallFrame>(identity, function, ++calls.numbers[function]);
    for (const CallFrame* const other : calls.running) {
      if (!may_overlap(frame->role().role, other->role().role)) {
        frame->add_problem(
            formatted("{} was called by the host while {} is running: they are {} and {}. This is "
                      "a bug of the host; report it",
                      function,
                      other->call().function,
                      role_name(frame->role().role),
                      role_name(other->role().role)));
      }
    }
    calls.running.push_back(frame.get());
    CallFrame* const in_use = frame.get();
    scopes_of_thread().push_back({std::move(frame), std::make_unique<FrameScope>(in_use)});
  }

  void end(const ComponentIdentity& identity, const char* function) noexcept override {
    try {
      finish(identity, function);
    } catch (const std::exception& error) {  // out of memory for the text
      log_warning(error.what());
    }
  }

  std::string take_problem() noexcept override { return std::exchange(problem_of_call, {}); }

  const void* table_of(const LoadedComponent& component) override {
    return checked_table(component);
  }
  const tenon_stateful* stateful_of(const LoadedComponent& component,
                                    void* self,
                                    const tenon_stateful* table) override {
    return checked_stateful(component, self, table);
  }
  const void* service(std::string_view id, const void* table) override {
    return checked_service(id, table);
  }

 private:
  struct Scope {
    std::unique_ptr<CallFrame> frame;
    std::unique_ptr<FrameScope> in_use;  // ends before the frame
  };

  static std::vector<Scope>& scopes_of_thread() {
    thread_local std::vector<Scope> scopes;
    return scopes;
  }

  void finish(const ComponentIdentity& identity, std::string_view function) {
    std::vector<Scope>& scopes = scopes_of_thread();
    if (scopes.empty()) {
      return;  // the checking mode began during the call
    }
    if (function == "destroy") {
      report_leaks(identity);
    }
    const Scope scope = std::move(scopes.back());
    scopes.pop_back();
    {
      const std::lock_guard lock(mutex_);
      InstanceCalls& calls = instances_[&identity];
      std::erase(calls.running, scope.frame.get());
      if (function == "destroy") {
        instances_.erase(&identity);
      }
    }
    std::string problem = scope.frame->first_problem();
    if (problem.empty()) {
      problem = take_thread_problem(identity.component());
    }
    if (!problem.empty()) {
      problem_of_call = std::move(problem);
      service_misuse = kBrokenRule;
    }
  }

  static void report_leaks(const ComponentIdentity& identity) {
    const auto owned = handle_history().take_owned(&identity);
    if (!owned.empty()) {
      report_problem(CallRule::kHandles,
                     formatted("left {} of the instance's tensor handles unreleased; the first: {}",
                               owned.size(),
                               owned.begin()->second.origin()));
    }
  }

  std::mutex mutex_;
  std::map<const ComponentIdentity*, InstanceCalls> instances_;
};

}  // namespace

void start_checking_calls() {
  if (call_checker() != nullptr) {
    return;
  }
  HandlePool::get().keep_released();
  replace_tensor_service(checked_tensor_service(*tensor_service()));
  replace_op_service(checked_op_service(*op_service()));
  set_call_checker(new RuleChecker);  // used until the end of the process
  check_calls(true);
}

}  // namespace tenon
