// SPDX-License-Identifier: Apache-2.0
//
// The exception type of the host: a stable id that users and scripts can rely on, and a message
// with the problem, its place, and what to try next. Bugs use TENON_ASSERT, never an Error.
// Invariant: each id is listed in catalogue.cpp and in docs/reference/errors.md.

#pragma once

#include "host/error/exit_code.hpp"

#include <exception>
#include <string>
#include <string_view>

namespace tenon {

class Error : public std::exception {
 public:
  // `id` is "area.some_id"; `message` starts in lower case and has no final period.
  Error(std::string id, std::string message);

  // "[id] message".
  const char* what() const noexcept override { return what_.c_str(); }
  const std::string& id() const noexcept { return id_; }
  const std::string& message() const noexcept { return message_; }

  // Returns the catalogue's exit status for this id. After the first step, callers use kFailed
  // instead, because the catalogue does not know the progress of the run.
  ExitCode exit_code() const noexcept;

  // Returns the same error with "context: " before its message.
  Error with_context(std::string_view context) const;

 private:
  std::string id_;
  std::string message_;
  std::string what_;
};

}  // namespace tenon
