// SPDX-License-Identifier: Apache-2.0
//
// The public keys whose owners may sign plugins, from a trust file. With a trust file, the host
// runs no code of a plugin without a valid signature of its file, FILE.so.sig: the 64 bytes of an
// Ed25519 signature, as the program openssl writes them.
// Limit: a signature covers the file of the plugin, not the libraries that the file links.
// Threads: any.
#pragma once

#include "host/trust/ed25519.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class TrustedKeys {
 public:
  // Reads a trust file. Each line is the name of a key and the key in base64; blank lines and lines
  // that start with '#' are skipped.
  //
  // Errors   plugin.bad_trust if the file cannot be read, has a malformed line, or has no key
  static TrustedKeys read(const std::string& file);

  const std::string& file() const noexcept { return file_; }

  // Returns the name of the key that made the signature; null if none did.
  std::optional<std::string> signer_of(std::string_view bytes, std::string_view signature) const;

 private:
  struct Named {
    std::string name;
    Ed25519Key key;
  };

  explicit TrustedKeys(std::string file);
  void add_line(std::string_view line, std::size_t number);

  std::string file_;
  std::vector<Named> keys_;
};

// A plugin's file that was read and verified.
struct SignatureCheck {
  std::string problem = {};  // why the file is not trusted, with advice; "" if it is
  std::string signer = {};   // the name of the key
  std::string hash = {};     // content_hash() of the bytes that were verified; "" if none were
};

// Reads `plugin` once and verifies its signature.
SignatureCheck check_signature(const std::string& plugin, const TrustedKeys& keys);

}  // namespace tenon
