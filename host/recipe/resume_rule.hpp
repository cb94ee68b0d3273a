// SPDX-License-Identifier: Apache-2.0
//
// Whether a key of the recipe may change when a run resumes, and why. Each key states its rule
// where it is bound; recipe_difference.hpp applies the rules.
#pragma once

#include <string>

namespace tenon {

enum class ChangeClass {
  kFree,     // the run is the same, except for what the key itself says
  kWarns,    // the run resumes, but is not the run that it would have been
  kRefused,  // the saved state would not fit, or would mean something else
};

// The rule of a key, and of all keys below it that have no rule of their own.
struct ResumeRule {
  std::string key;  // a pointer into the frozen recipe, in which "*" is any name or number
  ChangeClass change = ChangeClass::kRefused;
  std::string why;
};

// The rule as a key states it: `.resume(resume::kSameState)`.
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
