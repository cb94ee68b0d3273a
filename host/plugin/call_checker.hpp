// SPDX-License-Identifier: Apache-2.0
//
// Where the checking mode of calls (--check-plugins) takes part in them: host/plugin/checked/
// implements it. Without that mode there is no checker, and plugins get the host's own tables.
// Threads: set once before the first plugin is loaded; read by any.
#pragma once

#include <tenon/host.h>
#include <tenon/state.h>

#include <string>
#include <string_view>

namespace tenon {

class ComponentIdentity;
struct LoadedComponent;

class CallChecker {
 public:
  virtual ~CallChecker() = default;

  // Enclose a call of the host on this thread. If the call broke a rule, end() sets service_misuse
  // to kBrokenRule, and take_problem() returns the text.
  //
  // Threads  any
  virtual void begin(const ComponentIdentity& identity, const char* function) = 0;
  virtual void end(const ComponentIdentity& identity, const char* function) noexcept = 0;
  virtual std::string take_problem() noexcept = 0;

  // Return the tables to use in place of the plugin's and of the host's own. They live as long as
  // the process.
  virtual const void* table_of(const LoadedComponent& component) = 0;
  virtual const tenon_stateful* stateful_of(const LoadedComponent& component,
                                            void* self,
                                            const tenon_stateful* table) = 0;
  virtual const void* service(std::string_view id, const void* table) = 0;
};

// The value of service_misuse (host/tensor/service_misuse.hpp) if a checker has the text.
extern const char* const kBrokenRule;

// Returns null unless calls are checked.
CallChecker* call_checker() noexcept;
void set_call_checker(CallChecker* checker) noexcept;

}  // namespace tenon
