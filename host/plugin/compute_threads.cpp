// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/compute_threads.hpp"

#include "host/log/log.hpp"
#include "host/plugin/component_identity.hpp"
#include "host/plugin/process_settings.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Parallel.h>

#include <exception>

namespace tenon {

int num_operator_threads() noexcept {
  return at::get_num_threads();
}

void ComputeThreads::restore() const noexcept {
  try {
    const int changed = num_operator_threads();
    at::set_num_threads(before_);
    report_restored(
        formatted("{}: {} changed the number of compute threads of the process from {} to {}; "
                  "Tenon has restored it",
                  identity_.describe(),
                  function_,
                  before_,
                  changed));
  } catch (const std::exception& error) {  // out of memory for the text
    log_warning(error.what());
  }
}

}  // namespace tenon
