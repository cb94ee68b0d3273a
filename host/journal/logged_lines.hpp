// SPDX-License-Identifier: Apache-2.0
//
// Adds each logged warning and error to a journal, as a notice. At most one object at a time.
// Threads: created and destroyed by the train thread; lines are logged by any thread.
#pragma once

namespace tenon {

class Journal;

class LoggedLines {
 public:
  // `journal` is borrowed.
  explicit LoggedLines(Journal& journal);
  ~LoggedLines();
  LoggedLines(const LoggedLines&) = delete;
  LoggedLines& operator=(const LoggedLines&) = delete;
};

}  // namespace tenon
