// SPDX-License-Identifier: Apache-2.0
//
// Numbers the attempts of a run: each start in its folder, whether it resumes or starts over.
// Invariant: no number is used twice, also after a kill or a power failure, and if the files of an
// earlier attempt were moved aside.
// Threads: [main] of rank 0, while the run folder is locked.
#pragma once

#include <cstdint>
#include <string>

namespace tenon {

// The file with the number of the last attempt, in the run folder. A folder without it had no
// attempts that were numbered.
inline constexpr char kAttemptFile[] = "attempt";

// Returns the number of this attempt: 1, or that of the last attempt plus 1. The file is durable
// before the function returns. If it is corrupt, the number is the time in seconds, with a warning.
//
// Errors  run.dir_unwritable if the file cannot be read or written
uint64_t claim_attempt(const std::string& run_dir);

}  // namespace tenon
