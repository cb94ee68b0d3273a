// SPDX-License-Identifier: Apache-2.0
//
// Converts Arrow's results to this plugin's errors.
#pragma once

#include <tenon/cpp/guard.hpp>

#include <arrow/result.h>
#include <arrow/status.h>
#include <string>
#include <utility>

namespace tenon {

inline constexpr const char* kUnreadable = "cannot read";

// Throws if an Arrow call on a file failed. The message is "FILE: WHAT: REASON".
//
// Errors   columnar.read: TENON_IO for the file system, TENON_INVALID for the file's content
inline void check_arrow(const arrow::Status& status,
                        const std::string& file,
                        const std::string& what) {
  if (!status.ok()) {
    TENON_FAIL(status.IsIOError() ? TENON_IO : TENON_INVALID,
               "columnar.read",
               file,
               ": ",
               what,
               ": ",
               status.message());
  }
}

template <class T>
T value_of(arrow::Result<T> result, const std::string& file, const std::string& what) {
  check_arrow(result.status(), file, what);
  return std::move(result).ValueUnsafe();
}

}  // namespace tenon
