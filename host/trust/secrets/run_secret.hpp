// SPDX-License-Identifier: Apache-2.0
//
// The secret that the ranks of a run share. Keys derived from it authenticate their store and their
// connections (docs/security.md). A secret is never printed, logged or saved.
// Threads: any, unless a function says otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tenon {

// Returns a new secret of 256 random bits, as 64 hexadecimal digits.
// Errors  distributed.bad_secret if the system has no random bytes
std::string new_run_secret();

// Whether the ranks of a run are all on this machine.
enum class RankLocality { kOneMachine, kMachines };

// Returns the secret of a run of several ranks: TENON_RUN_SECRET, or the text of the file
// TENON_RUN_SECRET_FILE, or the user's own secret if all ranks are on this machine. That secret is
// in ~/.config/tenon/run-secret, and is created if it does not exist. Otherwise returns "", and the
// run is not protected. `environment` has the variables of the process.
// Errors  distributed.bad_secret if a secret is too short, or others may read its file
std::string find_run_secret(const std::map<std::string, std::string>& environment,
                            RankLocality locality);

// Overwrites TENON_RUN_SECRET in the memory of this process, and removes it from the environment
// that child processes inherit.
// Threads: [main], before other threads.
void forget_secret_variable();

// A key for one purpose. Different purposes, runs and secrets have different keys. With the secret
// "" the key is public.
using RunKey = std::array<uint8_t, 32>;
RunKey run_key(const std::string& secret, std::string_view run_id, std::string_view purpose);

// Source  HMAC-SHA256, RFC 2104
RunKey authenticator(const RunKey& key, std::string_view text);
std::string hex_text(const RunKey& bytes);
// Compares in constant time.
bool is_authentic(const RunKey& expected, std::string_view found);

// Fills `bytes` with random bytes for keys and nonces.
// Errors  distributed.bad_secret
void fill_random(uint8_t* bytes, size_t count);

}  // namespace tenon
