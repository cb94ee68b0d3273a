// SPDX-License-Identifier: Apache-2.0
//
// The options that go with --plan, as text, and what they mean.

#pragma once

#include "host/model/plan_machine.hpp"

#include <string>
#include <string_view>

namespace tenon {

// "" where an option is not given.
struct PlanWords {
  std::string ranks = {};
  std::string ranks_per_node = {};
  std::string flops = {};
  std::string memory = {};
  std::string bandwidth_node = {};
  std::string bandwidth_network = {};
  std::string bandwidth_host = {};
  std::string latency = {};
};

// Bytes are a number with or without a unit: 80GiB, 80GB, 85899345920, 50e9.
//
// Errors   usage.bad_option, with the option and what it takes
PlanRequest read_plan_request(const PlanWords& words);

// A number of bytes, as above, that is the value of an option.  Errors  usage.bad_option
double read_bytes(std::string_view option, const std::string& text);

}  // namespace tenon
