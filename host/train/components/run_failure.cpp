// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/run_failure.hpp"

#include "host/tensor/torch_guard.hpp"

#include <c10/util/Exception.h>

#include <string>

namespace tenon {

Error run_failure(const std::exception& exception) {
  if (const auto* const error = dynamic_cast<const Error*>(&exception)) {
    return *error;
  }
  if (is_out_of_memory(exception)) {
    return Error("run.out_of_memory",
                 "no memory is left on the machine, or within the limit of this process (" +
                     out_of_memory_text(exception.what()) +
                     "); use a smaller batch or model, or \"recompute\": \"blocks\"");
  }
  if (const auto* const error = dynamic_cast<const c10::Error*>(&exception)) {
    return Error("run.operator_failed", error->what_without_backtrace());
  }
  return Error("run.internal", exception.what());
}

}  // namespace tenon
