// SPDX-License-Identifier: Apache-2.0
#include "host/trust/trusted_keys.hpp"

#include "host/error/error.hpp"
#include "host/io/content_hash.hpp"

#include <filesystem>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/signer.hpp"

using namespace tenon;

namespace fs = std::filesystem;

namespace {

std::string trust_error_of(const std::string& file) {
  try {
    (void)TrustedKeys::read(file);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a trust file names keys, and a signature is matched with its key", "[plugin]") {
  const ScratchFolder folder;
  const Signer alice;
  const Signer bob;
  const std::string file = folder
                               .write("trusted-keys",
                                      "# keys of the team\n\nalice " + alice.public_key() +
                                          "\r\n  bob \t" + bob.public_key() + "  \n")
                               .string();
  const TrustedKeys keys = TrustedKeys::read(file);
  CHECK(keys.file() == file);
  CHECK(keys.signer_of("bytes", alice.sign("bytes")) == "alice");
  CHECK(keys.signer_of("bytes", bob.sign("bytes")) == "bob");
  CHECK_FALSE(keys.signer_of("other bytes", bob.sign("bytes")));
  CHECK_FALSE(keys.signer_of("bytes", Signer().sign("bytes")));
}

TEST_CASE("a trust file that cannot be used is an error with its line", "[plugin]") {
  const ScratchFolder folder;
  const std::string key = Signer().public_key();
  const std::string missing = (folder.path() / "missing").string();
  CHECK_THAT(
      trust_error_of(missing),
      contains_text("[plugin.bad_trust] the trust file " + missing + " cannot be read: No "));
  CHECK_THAT(trust_error_of(folder.write("empty", "# nobody\n").string()),
             contains_text("has no key"));
  CHECK_THAT(
      trust_error_of(folder.write("short", "a " + key + "\nb " + key.substr(1) + "\n").string()),
      contains_text("has no name and key in line 2"));
  CHECK_THAT(trust_error_of(folder.write("unnamed", key + "\n").string()),
             contains_text("in line 1"));
  CHECK_THAT(
      trust_error_of(folder.write("pem", "-----BEGIN PUBLIC KEY-----\n" + key + "\n").string()),
      contains_text("in line 1"));
  CHECK_THAT(trust_error_of(folder.path().string()), contains_text("it is a folder"));
  CHECK_THAT(trust_error_of(folder.write("large", std::string((1 << 20) + 1, '#')).string()),
             contains_text("has more than 1048576 bytes"));
}

TEST_CASE("a file is trusted if a key signed its bytes", "[plugin]") {
  const ScratchFolder folder;
  const Signer team;
  const Signer stranger;
  const TrustedKeys keys =
      TrustedKeys::read(folder.write("keys", "team " + team.public_key() + "\n").string());
  const std::string plugin = folder.write("a.so", "the plugin").string();
  CHECK_THAT(check_signature(plugin, keys).problem,
             contains_text("is not signed: " + plugin + ".sig does not exist; sign it"));

  folder.write("a.so.sig", team.sign("the plugin"));
  const SignatureCheck good = check_signature(plugin, keys);
  CHECK(good.problem.empty());
  CHECK(good.signer == "team");
  CHECK(good.hash == content_hash(plugin));

  for (const std::string& wrong :
       {team.sign("the plugin of yesterday"), stranger.sign("the plugin"), std::string(64, '\0')}) {
    folder.write("a.so.sig", wrong);
    const SignatureCheck check = check_signature(plugin, keys);
    CHECK_THAT(check.problem, contains_text("is not a signature of this file by a key of"));
    CHECK(check.hash.empty());
  }
  for (const std::string& wrong :
       {std::string(), team.sign("the plugin") + "\n", std::string(1000, 'x')}) {
    folder.write("a.so.sig", wrong);
    CHECK_THAT(check_signature(plugin, keys).problem,
               contains_text("is no signature (expected 64 bytes)"));
  }
  fs::remove(folder.path() / "a.so.sig");
  fs::create_directory(folder.path() / "a.so.sig");
  CHECK_THAT(check_signature(plugin, keys).problem, contains_text("it is a folder"));
}
