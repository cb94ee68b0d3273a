// SPDX-License-Identifier: Apache-2.0
#include "host/hook/event_name.hpp"

#include <tenon/hook.h>

#include <array>

namespace tenon {

const char* event_name(uint32_t event) {
  static constexpr std::array<const char*, TENON_NUM_EVENTS> kNames = {"before_init",
                                                                       "after_init",
                                                                       "start",
                                                                       "after_load",
                                                                       "window_mode",
                                                                       "before_epoch",
                                                                       "before_window",
                                                                       "before_step",
                                                                       "after_data",
                                                                       "before_forward",
                                                                       "after_forward",
                                                                       "before_loss",
                                                                       "after_loss",
                                                                       "before_backward",
                                                                       "after_backward",
                                                                       "before_optimizer_step",
                                                                       "after_optimizer_step",
                                                                       "after_step",
                                                                       "update_skipped",
                                                                       "before_evaluate",
                                                                       "after_evaluate",
                                                                       "before_checkpoint",
                                                                       "after_checkpoint",
                                                                       "out_of_data",
                                                                       "after_window",
                                                                       "after_epoch",
                                                                       "on_error",
                                                                       "end"};
  return event < kNames.size() ? kNames[event] : "";
}

}  // namespace tenon
