// SPDX-License-Identifier: Apache-2.0
//
// Keeps c10d from writing its own pages to the terminal about a store that does not exist (yet):
// what comes of it is thrown, and reported once.
// Threads: any.
#pragma once

namespace tenon {

// While one of these lives, only fatal messages of libtorch are written.
class QuietC10d {
 public:
  QuietC10d();
  ~QuietC10d();
  QuietC10d(const QuietC10d&) = delete;
  QuietC10d& operator=(const QuietC10d&) = delete;
};

}  // namespace tenon
