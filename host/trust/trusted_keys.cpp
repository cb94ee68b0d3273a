// SPDX-License-Identifier: Apache-2.0
#include "host/trust/trusted_keys.hpp"

#include "host/error/error.hpp"
#include "host/io/content_hash.hpp"
#include "host/io/regular_file.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <cstdint>
#include <utility>

namespace tenon {
namespace {

constexpr uint64_t kMaxTrustBytes = uint64_t{1} << 20;
// The signature of a file covers all its bytes at once, so the file is held in memory.
constexpr uint64_t kMaxPluginBytes = uint64_t{4} << 30;

constexpr std::string_view kBlanks = " \t\r";

[[noreturn]] void fail_trust(const std::string& file, const std::string& what) {
  throw Error("plugin.bad_trust",
              "the trust file " + file + " " + what +
                  "; each line is a name and an Ed25519 public key in base64");
}

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos
             ? std::string_view()
             : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

TrustedKeys::TrustedKeys(std::string file) : file_(std::move(file)) {}

TrustedKeys TrustedKeys::read(const std::string& file) {
  const FileText in = read_file_text(file, kMaxTrustBytes);
  if (in.is_too_large) {
    fail_trust(file, formatted("has more than {} bytes", kMaxTrustBytes));
  }
  if (!in.problem.empty()) {
    fail_trust(file, "cannot be read: " + in.problem);
  }
  TrustedKeys keys(file);
  std::size_t number = 0;
  for (const std::string_view line : lines_of(in.text)) {
    keys.add_line(without_blanks(line), ++number);
  }
  if (keys.keys_.empty()) {
    fail_trust(file, "has no key, so no plugin could be loaded");
  }
  return keys;
}

void TrustedKeys::add_line(std::string_view line, std::size_t number) {
  if (line.empty() || line.front() == '#') {
    return;
  }
  const std::size_t end = line.find_first_of(kBlanks);
  const std::string_view base64 =
      end == std::string_view::npos ? "" : without_blanks(line.substr(end));
  const std::optional<Ed25519Key> key = ed25519_key(base64);
  if (!key) {
    fail_trust(file_, formatted("has no name and key in line {}", number));
  }
  keys_.push_back({std::string(line.substr(0, end)), *key});
}

std::optional<std::string> TrustedKeys::signer_of(std::string_view bytes,
                                                  std::string_view signature) const {
  for (const Named& named : keys_) {
    if (is_signed_by(named.key, bytes, signature)) {
      return named.name;
    }
  }
  return std::nullopt;
}

SignatureCheck check_signature(const std::string& plugin, const TrustedKeys& keys) {
  const std::string file = plugin + ".sig";
  const FileText signature = read_file_text(file, kEd25519SignatureBytes);
  const std::string resign = "; sign it with a key of " + keys.file() + ", or remove it";
  if (signature.is_missing) {
    return {.problem = "is not signed: " + file + " does not exist" + resign};
  }
  if (!signature.problem.empty()) {
    return {.problem = "cannot be trusted: " + file + " cannot be read: " + signature.problem +
                       "; make it readable"};
  }
  if (signature.text.size() != kEd25519SignatureBytes) {
    return {.problem = formatted("cannot be trusted: {} is no signature (expected {} bytes){}",
                                 file,
                                 kEd25519SignatureBytes,
                                 resign)};
  }
  const FileText bytes = read_file_text(plugin, kMaxPluginBytes);
  if (!bytes.problem.empty() || bytes.is_too_large) {
    return {.problem = "cannot be trusted: reading it failed: " +
                       (bytes.is_too_large ? formatted("it has more than {} bytes", kMaxPluginBytes)
                                           : bytes.problem)};
  }
  const std::optional<std::string> signer = keys.signer_of(bytes.text, signature.text);
  if (!signer) {
    return {.problem = "cannot be trusted: " + file +
                       " is not a signature of this file by a key of " + keys.file() + resign};
  }
  return {.signer = *signer, .hash = content_hash_of(bytes.text)};
}

}  // namespace tenon
