// SPDX-License-Identifier: Apache-2.0
//
// Names of metrics. Threads: any.
#pragma once

#include <string_view>

namespace tenon {

// True for valid names of metrics: 1 to 100 characters of [A-Za-z0-9_/.-].
bool is_legal_metric_name(std::string_view name);

// True for names that only the host gives to metrics, such as "loss" and "eval/loss". Neither a
// plugin nor a recipe may use them. All names below "aux", "data", "eval", "loss", "next", "tables"
// and "test" are of the host.
bool is_host_metric(std::string_view name);

// True for metrics of the host that differ between equal runs: times, rates and memory. They are no
// part of the state of a run.
bool is_measured_metric(std::string_view name);

}  // namespace tenon
