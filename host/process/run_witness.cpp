// SPDX-License-Identifier: Apache-2.0
#include "host/process/run_witness.hpp"

#include "host/error/error.hpp"
#include "host/error/exit_code.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/process/crash_report.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// A message to the witness: the sizes of its texts, then the texts. All are empty to dismiss it.
struct Header {
  std::array<uint64_t, 4> sizes{};
};

// ---- in the witness ----

// Text that has arrived, without the messages that were taken from it.
struct Received {
  std::string bytes;
  RunWitness::Summary summary;  // no file: nothing is expected

  // Reads until the pipe is empty. Returns false at its end.
  bool read_from(int pipe) {
    std::array<char, 65536> buffer;
    while (true) {
      const ssize_t count = ::read(pipe, buffer.data(), buffer.size());
      if (count > 0) {
        bytes.append(buffer.data(), static_cast<std::size_t>(count));
      } else if (count == 0) {
        return false;
      } else if (errno != EINTR) {
        return true;
      }
    }
  }

  void take_messages() {
    Header header;
    while (bytes.size() >= sizeof(header)) {
      bytes.copy(reinterpret_cast<char*>(&header), sizeof(header));
      std::size_t end = sizeof(header);
      for (const uint64_t size : header.sizes) {
        end += size;
      }
      if (bytes.size() < end) {
        return;
      }
      std::size_t at = sizeof(header);
      std::size_t i = 0;
      for (std::string* const text :
           {&summary.file, &summary.text, &summary.lock, &summary.owner}) {
        *text = bytes.substr(at, header.sizes[i]);
        at += header.sizes[i++];
      }
      bytes.erase(0, end);
    }
  }
};

// False once another run has used the folder, or has removed what the watched run left in it.
bool is_still_of_run(const RunWitness::Summary& summary) {
  constexpr uint64_t kMaxBytes = 4096;
  const FileText lock = read_file_text(summary.lock, kMaxBytes);
  return summary.owner.empty() || lock.text == summary.owner + "\n";
}

// Completes the summary with how the process ended, and writes it.
void write_summary(const RunWitness::Summary& received) {
  if (!is_still_of_run(received)) {
    return;
  }
  const CrashPage& page = crash_page();
  std::string report = page.report();
  const bool has_report = !report.empty();
  if (!has_report) {
    report =
        "[run.killed] the process ended without a report, for example because it was killed "
        "(SIGKILL), because the machine ran out of memory, or because a plugin called _exit()";
  }
  Json summary = Json::parse(received.text, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object()) {
    summary = Json::object();
  }
  summary["outcome"] = "failed";
  summary["exit_code"] = has_report ? page.exit_code.load(std::memory_order_relaxed)
                                    : static_cast<int>(ExitCode::kFailed);
  summary["reason"] = report;
  summary["error_id"] = id_of_report(report);
  summary["steps"] = page.step.load(std::memory_order_relaxed);
  try {
    replace_file(received.file, summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const Error&) {  // the process has ended with its outputs closed
  }
}

// Waits until the watched process has ended.
[[noreturn]] void be_witness(int pipe, int process) {
  // The watched process handles signals of the terminal and of a job's end.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU}) {
    std::signal(signal, SIG_IGN);
  }
  ::prctl(PR_SET_NAME, "tenon-witness");
  // Whoever reads the output of the run must not wait for this process.
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int output : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(nothing, output);
  }
  Received received;
  std::array<pollfd, 2> watched{{{.fd = pipe, .events = POLLIN, .revents = 0},
                                 {.fd = process, .events = POLLIN, .revents = 0}}};
  while (true) {
    if (::poll(watched.data(), watched.size(), -1) < 0 && errno != EINTR) {
      ::_exit(1);
    }
    const bool has_ended = watched[1].revents != 0;
    if (!received.read_from(pipe)) {
      watched[0].fd = -1;  // closed: the process is about to end
    }
    received.take_messages();
    if (has_ended) {
      if (!received.summary.file.empty()) {
        write_summary(received.summary);
      }
      ::_exit(0);
    }
  }
}

}  // namespace

// ---- in the run ----

RunWitness::RunWitness() {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0));
  std::array<int, 2> ends{};
  if (process < 0) {
    return;
  }
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    ::close(process);
    return;
  }
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(ends[1]);
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    be_witness(ends[0], process);
  }
  ::close(process);
  ::close(ends[0]);
  if (pid_ < 0) {
    ::close(ends[1]);
    return;
  }
  to_witness_ = ends[1];
}

RunWitness::~RunWitness() {
  if (to_witness_ < 0) {
    return;
  }
  ::close(to_witness_);
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void RunWitness::expect(const Summary& summary) {
  if (to_witness_ < 0) {
    return;
  }
  const Header header{
      .sizes = {
          summary.file.size(), summary.text.size(), summary.lock.size(), summary.owner.size()}};
  // A witness that was killed is no reason to end the run: SIGPIPE is ignored.
  const std::string_view header_bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  (void)(write_all(to_witness_, header_bytes) && write_all(to_witness_, summary.file) &&
         write_all(to_witness_, summary.text) && write_all(to_witness_, summary.lock) &&
         write_all(to_witness_, summary.owner));
}

void RunWitness::dismiss() {
  expect({});
}

}  // namespace tenon
