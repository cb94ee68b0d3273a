// SPDX-License-Identifier: Apache-2.0

#include "host/error/error.hpp"

#include "host/error/catalogue.hpp"

#include <utility>

namespace tenon {

Error::Error(std::string id, std::string message)
    : id_(std::move(id)), message_(std::move(message)), what_("[" + id_ + "] " + message_) {}

ExitCode Error::exit_code() const noexcept {
  return exit_code_of(id_);
}

Error Error::with_context(std::string_view context) const {
  return Error(id_, std::string(context) + ": " + message_);
}

}  // namespace tenon
