// SPDX-License-Identifier: Apache-2.0
//
// Averages of parameters, for evaluation and export. A hook derives from ParameterAverage in
// addition to Hook, and returns ParameterAverageCalls<T>::find(id) from `extension`.
// <tenon/draft/parameter_average.h> defines the contract.
#ifndef TENON_CPP_PARAMETER_AVERAGE_HPP
#define TENON_CPP_PARAMETER_AVERAGE_HPP

#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/draft/parameter_average.h>

#include <cstring>

TENON_NAMESPACE_BEGIN

/* Base class of hooks that average parameters; derive from it in addition to Hook. */
class ParameterAverage {
 public:
  virtual ~ParameterAverage() = default;
  /* Includes the parameters in the averages, after an applied update.
   *
   * Shapes   as in tenon_parameter_average_args, on exec's device
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return */
  virtual void on_update(const Exec& exec, const tenon_parameter_average_args& args) = 0;
};

/* The ABI table of a class. `self` is that of the kind's tables. */
template <class T>
struct ParameterAverageCalls {
  static tenon_status* update(void* self,
                              const tenon_exec* exec,
                              const tenon_parameter_average_args* args) noexcept {
    return call_on<Hook>(self, [&](Hook& hook) {
      TENON_CHECK(args != nullptr, "the arguments of update are null");
      static_cast<T&>(hook).on_update(Exec(hook.host(), exec), *args);
    });
  }
  /* Returns the table if `id` is TENON_PARAMETER_AVERAGE_ID, otherwise null. */
  static const void* find(const char* id) {
    static const tenon_parameter_average calls{sizeof(tenon_parameter_average), update};
    return std::strcmp(id, TENON_PARAMETER_AVERAGE_ID) == 0 ? &calls : nullptr;
  }
};

TENON_NAMESPACE_END

#endif
