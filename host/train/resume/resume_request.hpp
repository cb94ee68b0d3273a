// SPDX-License-Identifier: Apache-2.0
//
// What a run goes on from, as the command line says. What that comes to is found out where the run
// begins.
#pragma once

#include <string>

namespace tenon {

enum class ResumeFrom {
  kNone,  // the run begins afresh
  kAuto,  // the newest sound checkpoint of the run's folder, or of the newest run of its name
  kPath,
};

struct ResumeRequest {
  ResumeFrom from = ResumeFrom::kNone;
  std::string path = {};  // with kPath: of a checkpoint, or of a run's folder, for its newest one

  bool operator==(const ResumeRequest&) const = default;
};

}  // namespace tenon
