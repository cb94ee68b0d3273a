// SPDX-License-Identifier: Apache-2.0
#include "tests/support/subprocess.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace tenon {
namespace {

struct Pipe {
  int read_end = -1;
  int write_end = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  return {ends[0], ends[1]};
}

// Async-signal-safe.
void set_limit(__rlimit_resource resource, const std::optional<std::uint64_t>& limit) {
  if (limit.has_value()) {
    const rlimit value{*limit, *limit};
    if (setrlimit(resource, &value) != 0) {
      _exit(127);
    }
  }
}

// Reads both ends as they fill, so that neither blocks the child.
void drain(int out_end, std::string& out, int err_end, std::string& err) {
  std::array<pollfd, 2> polled{pollfd{out_end, POLLIN, 0}, pollfd{err_end, POLLIN, 0}};
  const std::array<std::string*, 2> texts{&out, &err};
  int open_ends = out_end < 0 ? 1 : 2;  // poll() passes over what is below 0
  while (open_ends > 0) {
    if (poll(polled.data(), polled.size(), -1) < 0) {
      if (errno == EINTR) {
        continue;
      }
      throw std::system_error(errno, std::generic_category(), "poll");
    }
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) {
        continue;
      }
      std::array<char, 4096> buffer{};
      const ssize_t count = read(polled[i].fd, buffer.data(), buffer.size());
      if (count > 0) {
        texts[i]->append(buffer.data(), static_cast<size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        close(polled[i].fd);
        polled[i].fd = -1;
        --open_ends;
      }
    }
  }
}

}  // namespace

SubprocessResult run_subprocess(const std::vector<std::string>& arguments,
                                const SubprocessOptions& options) {
  // All that allocates is done before fork(): after it, only async-signal-safe calls are allowed.
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (options.environment.count(variable.substr(0, variable.find('='))) == 0) {
      variables.push_back(variable);
    }
  }
  for (const auto& [name, value] : options.environment) {
    variables.push_back(name + "=" + value);
  }
  std::vector<char*> envp;
  for (std::string& variable : variables) {
    envp.push_back(variable.data());
  }
  envp.push_back(nullptr);

  const Pipe out = make_pipe();
  const Pipe err = make_pipe();
  if (options.is_out_closed) {
    close(out.read_end);
  }
  const pid_t child = fork();
  if (child < 0) {
    throw std::system_error(errno, std::generic_category(), "fork");
  }
  if (child == 0) {
    const int out_file =
        options.out_file.empty() ? out.write_end : open(options.out_file.c_str(), O_WRONLY);
    if (out_file < 0) {
      _exit(127);
    }
    dup2(out_file, STDOUT_FILENO);
    dup2(err.write_end, STDERR_FILENO);
    for (const int end : {out.read_end, out.write_end, err.read_end, err.write_end}) {
      close(end);
    }
    if (!options.working_dir.empty() && chdir(options.working_dir.c_str()) != 0) {
      _exit(127);
    }
    set_limit(RLIMIT_FSIZE, options.file_size_limit);
    set_limit(RLIMIT_AS, options.memory_limit);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out.write_end);
  close(err.write_end);
  SubprocessResult result;
  drain(options.is_out_closed ? -1 : out.read_end, result.out, err.read_end, result.err);
  int status = 0;
  rusage used{};
  while (wait4(child, &status, 0, &used) < 0) {
    if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "wait4");
    }
  }
  result.peak_bytes = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace tenon
