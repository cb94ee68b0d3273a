// SPDX-License-Identifier: Apache-2.0
//
// A page of memory in which a process says how far it is and how it ends. Another process can read
// it after the first one has died, however it died.
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace tenon {

// Filled with zeros at first.
struct CrashPage {
  std::atomic<uint32_t> is_used;    // 1: a process writes to the page
  std::atomic<uint32_t> has_ended;  // 1: the process ended as it was meant to
  std::atomic<uint64_t> step;       // last step that began; 0 before the first
  std::atomic<uint32_t> event;      // 1 + the last event of the loop; 0 before the first
  std::atomic<uint64_t> attempt;    // of the run in its folder, from 1; 0 before the run started
  std::atomic<uint64_t> entry;      // last entry of the journal; 0 before the first
  // The entry up to which a committed checkpoint covers the journal; 0 before the first commit.
  std::atomic<uint64_t> durable_entry;
  std::atomic<uint32_t> bytes;     // of `text`; 0: no report
  std::atomic<int32_t> exit_code;  // with the report
  std::array<char, 4096> text;     // "[id] message" of a crash; written before `bytes`

  // Returns the text; "" if there is none.
  std::string report() const;
};

// Environment variable with the file descriptor of the page that a started process is to use.
inline constexpr const char* kCrashPageVariable = "TENON_CRASH_PAGE";

// Maps the page that the environment names, or else a new one, which forked processes share.
// Removes the variable and the descriptor, so that other programs do not inherit them. Never null:
// without memory to share, returns a page of this process.
//
// Threads  [main], before other threads exist
CrashPage* map_own_crash_page();

// The page of a process that this one is going to start.
class ChildCrashPage {
 public:
  // If the system refuses a page, file() is -1 and page() is null.
  ChildCrashPage();
  ChildCrashPage(ChildCrashPage&& other) noexcept;
  ChildCrashPage& operator=(ChildCrashPage&& other) noexcept;
  ~ChildCrashPage();

  // Closed by exec(), unless the child changes that.
  int file() const { return file_; }
  const CrashPage* page() const { return page_; }

 private:
  int file_ = -1;
  CrashPage* page_ = nullptr;
};

// Returns the id of a text "[id] message"; "" if it has none.
std::string id_of_report(const std::string& report);

}  // namespace tenon
