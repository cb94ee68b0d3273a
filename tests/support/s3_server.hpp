// SPDX-License-Identifier: Apache-2.0
//
// A server of S3 on loopback, another program (moto), for as long as this object lives. Without
// `./dev deps --peers` there is none.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <sys/types.h>

namespace tenon {

class S3Server {
 public:
  // Whether this machine has one.
  static bool is_there();

  // Starts it with one bucket, that has the files of a folder. port() is "" where it did not start.
  S3Server(const std::filesystem::path& folder, const std::string& bucket);
  ~S3Server();
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;
  S3Server(S3Server&&) = delete;
  S3Server& operator=(S3Server&&) = delete;

  const std::string& port() const { return port_; }
  // What a URI needs behind its path: "?region=...&...".
  std::string uri_options() const;
  // What a client needs in its environment.
  static std::map<std::string, std::string> environment();

  // It does not answer until go_on(); connections stay open.
  void hold();
  void go_on();
  // It is gone, and what it kept too.
  void kill();

 private:
  pid_t process_ = -1;
  int input_ = -1;
  std::string port_;
};

}  // namespace tenon
