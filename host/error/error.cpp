// SPDX-License-Identifier: Apache-2.0

#include "host/error/error.hpp"

#include "host/error/catalogue.hpp"
#include "host/error/credentials.hpp"
#include "host/error/utf8.hpp"

#include <utility>

namespace tenon {

// Messages quote files, arguments and plugins, which may have any bytes and credentials; an Error
// is UTF-8 text without them.
Error::Error(std::string id, std::string message)
    : id_(as_utf8(std::move(id))),
      message_(hide_credentials(as_utf8(std::move(message)))),
      what_("[" + id_ + "] " + message_) {}

ExitCode Error::exit_code() const noexcept {
  return exit_code_of(id_);
}

Error Error::with_context(std::string_view context) const {
  return Error(id_, std::string(context) + ": " + message_);
}

}  // namespace tenon
