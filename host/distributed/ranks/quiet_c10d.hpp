// SPDX-License-Identifier: Apache-2.0
//
// Suppresses messages that c10d prints itself about a store that does not exist (yet): the error is
// thrown, and reported once.
// Threads: any.
#pragma once

namespace tenon {

// While an object of this class lives, libtorch prints only fatal messages.
class QuietC10d {
 public:
  QuietC10d();
  ~QuietC10d();
  QuietC10d(const QuietC10d&) = delete;
  QuietC10d& operator=(const QuietC10d&) = delete;
};

}  // namespace tenon
