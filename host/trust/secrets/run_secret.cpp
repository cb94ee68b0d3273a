// SPDX-License-Identifier: Apache-2.0
#include "host/trust/secrets/run_secret.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/text/formatted.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tenon {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr const char* kSecretVariable = "TENON_RUN_SECRET";
constexpr const char* kSecretFileVariable = "TENON_RUN_SECRET_FILE";
// 256 bits are 64 hexadecimal digits, or 43 of base64.
constexpr size_t kShortestSecret = 43;
constexpr size_t kLongestSecret = 4096;
constexpr const char* kHowToMake = "openssl rand -hex 32";

[[noreturn]] void fail_secret(const std::string& message) {
  throw Error("distributed.bad_secret", message);
}

std::string variable(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// Without the white space around it. `source` is for messages: the text itself is never shown.
std::string checked_secret(const std::string& text, const std::string& source) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  const std::string secret = begin == std::string::npos
                                 ? ""
                                 : text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  if (secret.size() < kShortestSecret) {
    fail_secret(
        formatted("{}: the secret has {} characters (expected at least {}); create one "
                  "with `{}`",
                  source,
                  secret.size(),
                  kShortestSecret,
                  kHowToMake));
  }
  return secret;
}

// Returns the text of a secret file; none if it does not exist.
std::optional<std::string> read_secret_file(const std::string& path) {
  const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) {
    if (errno == ENOENT) {
      return std::nullopt;
    }
    fail_secret(path + ": " + std::strerror(errno));
  }
  struct stat found {};
  if (::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) {
    fail_secret(path + ": not a regular file; name a file that holds the secret");
  }
  if (found.st_uid != ::geteuid() || (found.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof(mode), "%04o", static_cast<unsigned>(found.st_mode & 07777));
    fail_secret(
        formatted("{}: other users may read or own the secret (mode {}, owner {}); run "
                  "`chmod 600` on it, or create a new secret",
                  path,
                  mode,
                  found.st_uid));
  }
  std::string text(kLongestSecret, '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  if (count < 0) {
    fail_secret(path + ": " + std::strerror(errno));
  }
  text.resize(static_cast<size_t>(count));
  return checked_secret(text, path);
}

std::string user_secret_path(const Environment& environment) {
  std::string folder = variable(environment, "XDG_CONFIG_HOME");
  if (folder.empty() || folder.front() != '/') {
    const std::string home = variable(environment, "HOME");
    if (home.empty() || home.front() != '/') {
      return "";
    }
    folder = home + "/.config";
  }
  return folder + "/tenon/run-secret";
}

// Creates the file with a new secret, if it does not exist. Of several processes that do so at
// once, one creates it. Returns false if it cannot be created.
bool create_secret_file(const std::string& path) {
  std::error_code problem;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), problem);
  const std::string draft = path + "." + new_run_secret().substr(0, 16);
  const OpenFile file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) {
    return false;
  }
  const bool is_written =
      write_all(file.get(), new_run_secret() + "\n") && ::fsync(file.get()) == 0;
  const bool is_linked =
      is_written && (::link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  ::unlink(draft.c_str());
  return is_linked;
}

// "" if there is no place for it.
std::string user_secret(const Environment& environment) {
  const std::string path = user_secret_path(environment);
  const bool is_readable = ::access(path.c_str(), R_OK) == 0 || errno == ENOENT;
  if (path.empty() || !is_readable) {
    return "";
  }
  std::optional<std::string> secret = read_secret_file(path);
  if (!secret.has_value() && create_secret_file(path)) {
    secret = read_secret_file(path);
  }
  return secret.value_or("");
}

}  // namespace

void fill_random(uint8_t* bytes, size_t count) {
  if (RAND_priv_bytes(bytes, static_cast<int>(count)) != 1) {
    fail_secret("the system has no random bytes for a secret; check /dev/urandom");
  }
}

std::string new_run_secret() {
  RunKey bytes{};
  fill_random(bytes.data(), bytes.size());
  return hex_text(bytes);
}

std::string find_run_secret(const Environment& environment, RankLocality locality) {
  const std::string text = variable(environment, kSecretVariable);
  const std::string path = variable(environment, kSecretFileVariable);
  if (!text.empty()) {
    return checked_secret(text, kSecretVariable);
  }
  if (!path.empty()) {
    std::optional<std::string> secret = read_secret_file(path);
    if (!secret.has_value()) {
      fail_secret(formatted("{}={}: no such file; create it with `umask 077; {} > {}`",
                            kSecretFileVariable,
                            path,
                            kHowToMake,
                            path));
    }
    return std::move(*secret);
  }
  return locality == RankLocality::kOneMachine ? user_secret(environment) : "";
}

void forget_secret_variable() {
  if (char* const text = std::getenv(kSecretVariable); text != nullptr) {
    ::OPENSSL_cleanse(text, std::strlen(text));  // /proc shows the memory of the process
    ::unsetenv(kSecretVariable);
  }
}

RunKey run_key(const std::string& secret, std::string_view run_id, std::string_view purpose) {
  const std::string info = formatted("tenon 1\n{}\n{}", purpose, run_id);
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr), &EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(kdf.get()), &EVP_KDF_CTX_free);
  // libcrypto does not write to what the parameters point to.
  const auto octets = [](const char* name, std::string_view text) {
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.data()), text.size());
  };
  char digest[] = "SHA256";
  const std::string_view known = secret.empty() ? "no secret" : std::string_view(secret);
  const std::array<OSSL_PARAM, 4> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, known),
      octets(OSSL_KDF_PARAM_INFO, info),
      OSSL_PARAM_construct_end()};
  RunKey key{};
  if (EVP_KDF_derive(context.get(), key.data(), key.size(), parameters.data()) != 1) {
    fail_secret("libcrypto cannot derive a key from the secret");
  }
  return key;
}

RunKey authenticator(const RunKey& key, std::string_view text) {
  RunKey result{};
  unsigned size = 0;
  if (HMAC(EVP_sha256(),
           key.data(),
           static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()),
           text.size(),
           result.data(),
           &size) == nullptr) {
    fail_secret("libcrypto cannot compute an HMAC");
  }
  return result;
}

std::string hex_text(const RunKey& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool is_authentic(const RunKey& expected, std::string_view found) {
  return found.size() == expected.size() &&
         CRYPTO_memcmp(expected.data(), found.data(), expected.size()) == 0;
}

}  // namespace tenon
