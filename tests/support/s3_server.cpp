// SPDX-License-Identifier: Apache-2.0
#include "tests/support/s3_server.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <iterator>
#include <sstream>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "tests/support/paths.hpp"

namespace tenon {

bool S3Server::is_there() {
  return std::filesystem::exists(source_dir() / ".deps/peers/bin/moto_server");
}

S3Server::S3Server(const std::filesystem::path& folder, const std::string& bucket) {
  const std::string python = (source_dir() / ".deps/peers/bin/python").string();
  const std::string script = (source_dir() / "tests/support/s3_server.py").string();
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::execl(python.c_str(),
            python.c_str(),
            "-B",
            script.c_str(),
            folder.c_str(),
            bucket.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
  port_ = read_line();
}

S3Server::~S3Server() {
  ::close(input_);  // it ends when its input does
  ::close(output_);
  kill();
}

std::string S3Server::read_line() {
  std::string line;
  char byte = 0;
  while (::read(output_, &byte, 1) == 1 && byte != '\n') {
    line += byte;
  }
  return line;
}

std::string S3Server::ask(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(input_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::system_error(errno, std::generic_category(), "the server of S3");
  }
  return read_line();
}

std::vector<std::string> S3Server::keys(const std::string& prefix) {
  std::istringstream words(ask("list " + prefix));
  return {std::istream_iterator<std::string>(words), {}};
}

void S3Server::get(const std::string& key, const std::filesystem::path& file) {
  ask("get " + key + " " + file.string());
}

void S3Server::put(const std::string& key, const std::filesystem::path& file) {
  ask("put " + key + " " + file.string());
}

std::string S3Server::uri_options() const {
  return "?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:" + port_;
}

std::map<std::string, std::string> S3Server::environment() {
  return {{"AWS_ACCESS_KEY_ID", "test"},
          {"AWS_SECRET_ACCESS_KEY", "test"},
          {"AWS_EC2_METADATA_DISABLED", "true"},
          // This server keeps checksums that come behind the data as if they were data.
          {"AWS_REQUEST_CHECKSUM_CALCULATION", "when_required"}};
}

void S3Server::hold() {
  ::kill(process_, SIGSTOP);
}

void S3Server::go_on() {
  ::kill(process_, SIGCONT);
}

void S3Server::kill() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }
}

}  // namespace tenon
