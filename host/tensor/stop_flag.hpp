// SPDX-License-Identifier: Apache-2.0
//
// Whether the run was asked to stop, for calls into plugins that wait or take long
// (tenon_exec::stop_requested). Process-wide, because signals are.
// Threads: any; signal handlers too.
#pragma once

namespace tenon {

void set_stop_requested(bool is_requested) noexcept;
bool is_stop_requested() noexcept;

}  // namespace tenon
