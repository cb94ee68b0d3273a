// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint to resume from, as requested on the command line. Tenon looks for the checkpoint
// when the run starts.
#pragma once

#include <string>

namespace tenon {

enum class ResumeFrom {
  kNone,  // the run starts over
  kAuto,  // the newest valid checkpoint of the run folder, or of the newest run of this name
  kPath,
};

struct ResumeRequest {
  ResumeFrom from = ResumeFrom::kNone;
  std::string path = {};  // with kPath: a checkpoint, or a run folder for its newest checkpoint

  bool operator==(const ResumeRequest&) const = default;
};

}  // namespace tenon
