// SPDX-License-Identifier: Apache-2.0
//
// Refuses the plugins of a folder that others could have changed or that nobody trusted has signed.
// Threads: one at a time per object.
#pragma once

#include "host/error/error.hpp"
#include "host/trust/notices.hpp"
#include "host/trust/trusted_keys.hpp"
#include "host/trust/write_access.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

enum class Writable {
  kRefused,  // a plugin that every user of the machine can change
  kAllowed
};

// Reads a trust file. Whoever can change it can add a key to it.
//
// Errors   plugin.bad_trust, also if every user of the machine can change the file and `writable`
//          is kRefused
TrustedKeys read_trust_file(const std::string& file, Writable writable);

class FolderGuard {
 public:
  // The result for one file.
  struct Finding {
    std::optional<Error> refusal = std::nullopt;  // plugin.writable or plugin.untrusted
    std::string hash = {};    // content_hash() of the file whose signature was verified, else ""
    std::string signer = {};  // the name of the key that signed it, else ""
  };

  // With `keys`, only files are accepted that one of them has signed; null accepts all. The keys
  // must outlive the guard.
  FolderGuard(std::string folder, Writable writable, const TrustedKeys* keys);

  // Looks at who can change a file of the folder, for add_notice().
  void look_at(const std::string& file);

  // Checks a file of the folder. `described` names the plugin in messages.
  Finding check(const std::string& file, const std::string& described) const;

  // Adds one line about all files that some other users can change.
  void add_notice(std::vector<Notice>& notices) const;

 private:
  void note(const WriteAccess& access);

  std::string folder_;
  Writable writable_;
  const TrustedKeys* keys_;
  WriteAccess access_;
  std::size_t num_noted_ = 0;
  std::string first_noted_;
};

}  // namespace tenon
