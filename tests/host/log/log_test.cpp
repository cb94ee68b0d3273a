// SPDX-License-Identifier: Apache-2.0
#include "host/log/log.hpp"

#include "host/error/error.hpp"
#include "host/log/log_listener.hpp"

#include <atomic>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

// What the log writes to the terminal while it lives: stderr goes to a file instead.
class CapturedStderr {
 public:
  CapturedStderr() : path_(folder_.path() / "stderr"), original_(dup(STDERR_FILENO)) {
    const int file = open(path_.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    REQUIRE(file >= 0);
    (void)dup2(file, STDERR_FILENO);
    close(file);
  }
  ~CapturedStderr() { restore(); }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;

  std::string text() {
    flush_log();
    restore();
    return read_file(path_);
  }

 private:
  void restore() {
    if (original_ >= 0) {
      (void)dup2(original_, STDERR_FILENO);
      close(original_);
      original_ = -1;
    }
  }

  ScratchFolder folder_;
  std::filesystem::path path_;
  int original_;
};

}  // namespace

TEST_CASE("what a line quotes from a file cannot control a terminal", "[log]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  CapturedStderr captured;
  set_up_log({.file = file});
  log_warning("'a\x1b[31m\xc2\x9b\xff' is odd\nsecond line");
  for (const std::string& text : {captured.text(), read_file(file)}) {
    CHECK_THAT(text, contains_text("'a\\x1b[31m\\u009b\\xff' is odd\nsecond line"));
  }
}

TEST_CASE("a file attached late holds the lines that came before it, in order", "[log]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  set_up_log({.terminal = false});
  log_info("first");
  log_warning("second");
  attach_log_file(file);
  log_info("third");
  flush_log();
  const std::string text = read_file(file);
  const std::regex whole(
      "\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d\\.\\d{3} \\[info\\] first\n"
      ".* \\[warning\\] second\n.* \\[info\\] third\n");
  CHECK(std::regex_match(text, whole));
}

TEST_CASE("a listener gets warnings and errors after the log has them", "[log]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  set_up_log({.terminal = false, .file = file});
  std::vector<std::string> heard;
  set_log_listener([&](LoggedKind kind, std::string_view text) {
    heard.push_back((kind == LoggedKind::kError ? "error: " : "warning: ") + std::string(text));
    CHECK_THAT(read_file(file), contains_text(std::string(text)));
    log_warning("of the listener itself");
  });
  log_info("info");
  log_warning("at s3://key:secret@host/a");
  log_error("'\x1b[31m'");
  log_to_file("only in the file");
  set_log_listener({});
  log_warning("after it");
  CHECK(heard == std::vector<std::string>{"warning: at s3://***@host/a", "error: '\\x1b[31m'"});
  CHECK(count_of(read_file(file), "of the listener itself") == 2);
}

TEST_CASE("lines below the level do not reach the listener", "[log]") {
  set_up_log({.level = LogLevel::kError, .terminal = false});
  int num_heard = 0;
  set_log_listener([&](LoggedKind, std::string_view) { ++num_heard; });
  log_warning("below the level");
  log_error("at the level");
  set_log_listener({});
  CHECK(num_heard == 1);
}

TEST_CASE("a listener is not called any more once it is replaced", "[log]") {
  set_up_log({.terminal = false});
  std::atomic<bool> is_ended = false;
  std::thread logging([&] {
    while (!is_ended) {
      log_warning("a line");
    }
  });
  int num_late = 0;
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> is_alive = true;
    set_log_listener([&](LoggedKind, std::string_view) { num_late += is_alive ? 0 : 1; });
    set_log_listener({});
    is_alive = false;
  }
  is_ended = true;
  logging.join();
  CHECK(num_late == 0);
}

TEST_CASE("a file is appended to, not cut", "[log]") {
  const ScratchFolder folder;
  const std::string file = folder.write("log.txt", "of another run\n").string();
  set_up_log({.terminal = false, .file = file});
  log_info("of this run");
  flush_log();
  CHECK_THAT(read_file(file), contains_text("of another run\n"));
  CHECK_THAT(read_file(file), contains_text("of this run"));
}

TEST_CASE("lines below the level are dropped", "[log]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  set_up_log({.level = LogLevel::kWarning, .terminal = false, .file = file});
  CHECK_FALSE(is_logged(LogLevel::kInfo));
  CHECK(is_logged(LogLevel::kWarning));
  log_debug("d");
  log_info("i");
  log_warning("w");
  log_error("e");
  const std::string text = read_file(file);
  CHECK(count_of(text, "\n") == 2);
  CHECK_THAT(text, contains_text("[warning] w"));
  CHECK_THAT(text, contains_text("[error] e"));
}

TEST_CASE("a line is on its way to the disk when the call returns", "[log]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  set_up_log({.terminal = false, .file = file});
  log_info("not lost if the process ends now");
  CHECK_THAT(read_file(file), contains_text("not lost"));
}

TEST_CASE("the rank stands before each line of a run of several ranks", "[log]") {
  const ScratchFolder folder;
  const std::string alone = (folder.path() / "alone.txt").string();
  set_up_log({.terminal = false, .file = alone, .rank = 0, .num_ranks = 1});
  log_info("hello");
  CHECK_THAT(read_file(alone), contains_text("[info] hello\n"));
  const std::string third = (folder.path() / "third.txt").string();
  set_up_log({.terminal = false, .file = third, .rank = 2, .num_ranks = 4});
  log_info("hello");
  CHECK_THAT(read_file(third), contains_text("[info] [rank 2] hello\n"));
}

TEST_CASE("the terminal shows bare text, and the word of the level where it matters", "[log]") {
  CapturedStderr captured;
  set_up_log({});
  log_info("training");
  log_warning("slow");
  log_error("failed");
  const std::string text = captured.text();
  set_up_log({.terminal = false});
  CHECK(text == "training\nwarning: slow\nerror: failed\n");  // a file is no terminal: no colour
}

TEST_CASE("a terminal that is not wanted stays empty", "[log]") {
  CapturedStderr captured;
  set_up_log({.terminal = false});
  log_error("failed");
  CHECK(captured.text().empty());
}

TEST_CASE("braces and percent signs in a text are text", "[log]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  set_up_log({.terminal = false, .file = file});
  log_info("100% of {} and {0} and %v");
  CHECK_THAT(read_file(file), contains_text("100% of {} and {0} and %v\n"));
}

TEST_CASE("a file that cannot be opened is an error with its name", "[log]") {
  const ScratchFolder folder;
  const std::string file = folder.write("file", "").string() + "/log.txt";
  set_up_log({.terminal = false});
  try {
    attach_log_file(file);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_unwritable");
    CHECK_THAT(error.message(), contains_text(file));
  }
  log_info("still alive");  // and the log goes on without it
}

TEST_CASE("a FIFO in place of the log file is refused, and nothing waits for a reader", "[log]") {
  const ScratchFolder folder;
  const std::string fifo = (folder.path() / "log.txt").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  set_up_log({.terminal = false});
  try {
    attach_log_file(fifo);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.id() == "run.dir_unwritable");
    CHECK_THAT(error.message(), contains_text(fifo + ": it is not a regular file"));
  }
}

TEST_CASE("a link in place of the log file counts only if this user has made it", "[log]") {
  const ScratchFolder folder;
  const std::string link = (folder.path() / "log.txt").string();
  const std::string target = (folder.path() / "target").string();
  std::filesystem::create_symlink(target, link);
  set_up_log({.terminal = false});
  attach_log_file(link);
  log_info("through it");
  CHECK_THAT(read_file(target), contains_text("through it"));
  if (::lchown(link.c_str(), 54321, 54321) == 0) {
    CHECK_THROWS_AS(attach_log_file(link), Error);
  }
}

TEST_CASE("a full disk costs lines, counted, and nothing else", "[log]") {
  if (access("/dev/full", W_OK) != 0) {
    TENON_SKIP("there is no /dev/full");
  }
  set_up_log({.terminal = false});
  log_info("before");
  attach_log_file("/dev/full");
  log_info("lost");
  log_error("lost too");
  flush_log();
  CHECK(num_lost_log_lines() > 0);
  set_up_log({.terminal = false});
  CHECK(num_lost_log_lines() == 0);
}

TEST_CASE("lines of several threads stay whole", "[log]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "log.txt").string();
  set_up_log({.terminal = false, .file = file});
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < kLines; ++line) {
        log_info("a line of a thread");
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string text = read_file(file);
  CHECK(count_of(text, "\n") == kThreads * kLines);
  CHECK(count_of(text, "[info] a line of a thread\n") == kThreads * kLines);
}

TEST_CASE("levels have names", "[log]") {
  CHECK(log_level_name(LogLevel::kDebug) == "debug");
  CHECK(log_level_name(LogLevel::kInfo) == "info");
  CHECK(log_level_name(LogLevel::kWarning) == "warning");
  CHECK(log_level_name(LogLevel::kError) == "error");
}

}  // namespace tenon
