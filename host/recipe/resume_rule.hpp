// SPDX-License-Identifier: Apache-2.0
//
// Whether a key of the recipe may change when a run resumes, and why. Each key states its rule
// where it is bound; recipe_difference.hpp applies the rules.
#pragma once

#include <string>

namespace tenon {

enum class ChangeClass {
  kFree,     // the run is the same, except for the direct effect of the key
  kWarns,    // the run resumes, but its results differ from those of an unchanged run
  kRefused,  // the saved state would not fit, or its meaning would change
};

// The rule of a key, and of all keys below it that have no rule themselves.
struct ResumeRule {
  std::string key;  // pointer into the frozen recipe; "*" stands for any name or number
  ChangeClass change = ChangeClass::kRefused;
  std::string why;
};

// The rule as a key states it: `.resume(resume::kFree)`.
struct ResumeReason {
  ChangeClass change = ChangeClass::kRefused;
  const char* why = "";
};

// Reasons that several keys share.
namespace resume {

inline constexpr ResumeReason kFree = {ChangeClass::kFree, "the saved state does not depend on it"};
inline constexpr ResumeReason kLength = {ChangeClass::kFree, "sets the run length only"};
inline constexpr ResumeReason kBits = {ChangeClass::kWarns, "results differ in the last bits"};
inline constexpr ResumeReason kUpdates = {ChangeClass::kWarns, "later updates differ"};
inline constexpr ResumeReason kRows = {ChangeClass::kWarns,
                                       "rows are handled differently from now on"};
inline constexpr ResumeReason kObjective = {ChangeClass::kWarns, "the training objective changes"};
inline constexpr ResumeReason kBatch = {ChangeClass::kWarns,
                                        "free if a step has as many samples as before"};
inline constexpr ResumeReason kDataOrder = {ChangeClass::kRefused, "the order of the data changes"};
inline constexpr ResumeReason kShapes = {ChangeClass::kRefused,
                                         "the saved tensors do not fit, or compute something else"};

}  // namespace resume

}  // namespace tenon
