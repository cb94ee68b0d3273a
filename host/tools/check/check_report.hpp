// SPDX-License-Identifier: Apache-2.0
//
// The report of checks: text for terminals and logs, or one JSON document.
// Threads: any.
#pragma once

#include "host/tools/check/check.hpp"
#include "host/tools/check/subject.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace tenon {

// The first line: what is checked, and with which seed.
std::string report_start(const CheckRequest& request,
                         const PluginInfo& info,
                         std::size_t num_checks);

// The lines of a result, after the name of its group if the previous result had another one.
std::string report_lines(const CheckedRule& rule, const CheckedRule* previous);

// The last lines: "12 passed, 1 failed, 3 skipped".
std::string report_end(std::span<const CheckedRule> rules);

std::string report_json(const CheckRequest& request,
                        const PluginInfo& info,
                        std::span<const CheckedRule> rules);

// The table of all checks, as text, JSON or a Markdown table.
std::string checks_text();
std::string checks_json();
std::string checks_markdown();

std::size_t count_of(std::span<const CheckedRule> rules, CheckOutcome outcome);

}  // namespace tenon
