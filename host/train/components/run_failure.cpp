// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/run_failure.hpp"

#include "host/error/resource_failure.hpp"
#include "host/tensor/torch_guard.hpp"

#include <c10/util/Exception.h>

#include <string>
#include <system_error>

namespace tenon {

Error run_failure(const std::exception& exception) {
  if (const auto* const error = dynamic_cast<const Error*>(&exception)) {
    return *error;
  }
  if (is_out_of_memory(exception)) {
    if (const std::string advice = address_limit_advice(); !advice.empty()) {
      return Error("run.out_of_memory",
                   "no memory is left within the limit of addresses of this process (" +
                       out_of_memory_text(exception.what()) + "); " + advice +
                       ", or use a smaller batch or model");
    }
    return Error("run.out_of_memory",
                 "no memory is left on the machine, or within the limit of this process (" +
                     out_of_memory_text(exception.what()) +
                     "); use a smaller batch or model, or \"recompute\": \"blocks\"");
  }
  if (const auto* const error = dynamic_cast<const c10::Error*>(&exception)) {
    return Error("run.operator_failed", error->what_without_backtrace());
  }
  // std::thread throws it if the system refuses a thread.
  if (const auto* const error = dynamic_cast<const std::system_error*>(&exception)) {
    const std::string advice = resource_advice(error->code().value());
    if (!advice.empty()) {
      return Error("run.out_of_resources",
                   std::string("the system refused a thread, a process or a file descriptor: ") +
                       exception.what() + "; " + advice);
    }
  }
  return Error("run.internal", exception.what());
}

}  // namespace tenon
