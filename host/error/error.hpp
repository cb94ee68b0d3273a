// SPDX-License-Identifier: Apache-2.0
//
// The one exception type of the host: a stable id that users and scripts can rely on, and a message
// that says what happened, where, and what to try next. Bugs are TENON_ASSERT, never an Error.
// Invariant: each id that is thrown stands in catalogue.cpp and in docs/reference/errors.md.

#pragma once

#include "host/error/exit_code.hpp"

#include <exception>
#include <string>
#include <string_view>

namespace tenon {

class Error : public std::exception {
 public:
  // `id` is "area.some_id"; `message` starts in lower case and has no full stop at its end.
  Error(std::string id, std::string message);

  // "[id] message".
  const char* what() const noexcept override { return what_.c_str(); }
  const std::string& id() const noexcept { return id_; }
  const std::string& message() const noexcept { return message_; }

  // The exit status that the catalogue has for this id. After the first step the caller maps it
  // to kFailed: the catalogue does not know how far the run has come.
  ExitCode exit_code() const noexcept;

  // The same error with "context: " before its message: for a caller that knows more of the place.
  Error with_context(std::string_view context) const;

 private:
  std::string id_;
  std::string message_;
  std::string what_;
};

}  // namespace tenon
