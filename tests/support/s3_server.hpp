// SPDX-License-Identifier: Apache-2.0
//
// A server of S3 on loopback, another program (moto), for as long as this object lives. Without
// `./dev deps --peers` there is none.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

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

  // Past whoever uses it: the keys that begin with `prefix`, sorted; an object to a file, and back.
  // Names have no spaces.
  std::vector<std::string> keys(const std::string& prefix);
  void get(const std::string& key, const std::filesystem::path& file);
  void put(const std::string& key, const std::filesystem::path& file);

  // It does not answer until go_on(); connections stay open.
  void hold();
  void go_on();
  // It is gone, and what it kept too.
  void kill();

 private:
  // A line that it answers to one.
  std::string ask(const std::string& line);
  std::string read_line();

  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
  std::string port_;
};

}  // namespace tenon
