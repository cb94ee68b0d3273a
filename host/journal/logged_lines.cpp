// SPDX-License-Identifier: Apache-2.0
#include "host/journal/logged_lines.hpp"

#include "host/journal/journal.hpp"
#include "host/log/log_listener.hpp"

#include <string_view>

namespace tenon {

LoggedLines::LoggedLines(Journal& journal) {
  set_log_listener([&journal](LoggedKind kind, std::string_view text) {
    if (kind == LoggedKind::kError) {
      journal.add(ErrorLogged{text});
    } else {
      journal.add(WarningLogged{text});
    }
  });
}

LoggedLines::~LoggedLines() {
  set_log_listener({});
}

}  // namespace tenon
