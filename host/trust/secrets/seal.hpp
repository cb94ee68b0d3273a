// SPDX-License-Identifier: Apache-2.0
//
// Names and values for a store that strangers can read and write. A name is replaced by its
// HMAC-SHA256, and a value is encrypted with AES-256-GCM together with its name. So strangers learn
// nothing, and a value that they changed or copied from another name is detected; an earlier value
// of the same name is not.
// Threads: any.
#pragma once

#include "host/trust/secrets/run_secret.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

class Seal {
 public:
  using Bytes = std::vector<uint8_t>;

  // `names` and `values` are different keys.
  // Errors  distributed.bad_secret if the system has no random bytes
  Seal(const RunKey& names, const RunKey& values);

  // Returns the name that the store sees for a key: "tenon/" and 64 hexadecimal digits.
  std::string name_of(std::string_view key) const;

  // Throws std::length_error if the value has more than 32 MiB.
  Bytes seal(std::string_view key, const Bytes& value);

  // Errors  distributed.unauthenticated if the value was not sealed for this key with the run's
  //         secret; names the key
  Bytes unseal(std::string_view key, const Bytes& sealed) const;

 private:
  const RunKey names_;
  const RunKey values_;
  const RunKey salt_;                     // of this writer
  std::atomic<uint64_t> num_sealed_ = 0;  // no nonce is used twice with one salt
};

// Errors  distributed.unauthenticated, always: the value of `key` is not from this run
[[noreturn]] void fail_unauthenticated(std::string_view key);

}  // namespace tenon
