// SPDX-License-Identifier: Apache-2.0
//
// Collects what a check finds in several components, and makes one result of it.
// Threads: one at a time.
#pragma once

#include "host/tools/check/check.hpp"

#include <string>
#include <vector>

namespace tenon {

class Findings {
 public:
  // A component has been checked, with or without problems.
  void add_examined() { ++num_examined_; }
  void add_problem(std::string problem);
  // A component that cannot be checked, and why.
  void add_skipped(std::string reason) { reasons_.push_back(std::move(reason)); }
  void add_remark(std::string remark) { remarks_.push_back(std::move(remark)); }

  bool has_problems() const { return !problems_.empty(); }

  // Fails if there are problems; skips if nothing was examined, for `none` if no reason was added.
  CheckResult result(const std::string& none) const;

 private:
  int num_examined_ = 0;
  std::vector<std::string> problems_;
  std::vector<std::string> reasons_;
  std::vector<std::string> remarks_;
};

}  // namespace tenon
