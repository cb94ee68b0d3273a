// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host/train/run_owner.hpp"

#include <string>

namespace tenon {

// The owner of a run that has no session.
class TestOwner final : public RunOwner {
 public:
  FailedEnd fail(const Error& error) override {
    return FailedEnd{error, ExitCode::kFailed, /*is_reported=*/true};
  }
  std::string folder_problem() override { return problem; }

  std::string problem;
};

}  // namespace tenon
