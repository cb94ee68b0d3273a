// SPDX-License-Identifier: Apache-2.0
#include "host/trust/secrets/run_secret.hpp"

#include "host/error/error.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const std::string kSecret(64, 'a');

using Environment = std::map<std::string, std::string>;

// The message with which the secret is refused; "" if it is not.
std::string secret_refusal(const Environment& environment) {
  try {
    find_run_secret(environment, RankLocality::kMachines);
    return "";
  } catch (const Error& error) {
    CHECK(error.id() == "distributed.bad_secret");
    return error.message();
  }
}

void set_mode(const fs::path& file, mode_t mode) {
  REQUIRE(::chmod(file.c_str(), mode) == 0);
}

}  // namespace

TEST_CASE("each secret is new, and has 256 bits", "[distributed]") {
  const std::string secret = new_run_secret();
  CHECK(secret.size() == 64);
  CHECK(secret.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(secret != new_run_secret());
}

TEST_CASE("the secret of the ranks comes from a variable or a private file", "[distributed]") {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("secret", "  " + kSecret + "\n");
  set_mode(file, 0600);
  const RankLocality locality = RankLocality::kMachines;
  CHECK(find_run_secret({{"TENON_RUN_SECRET", kSecret}}, locality) == kSecret);
  CHECK(find_run_secret({{"TENON_RUN_SECRET_FILE", file.string()}}, locality) == kSecret);
  CHECK(find_run_secret({{"HOME", scratch.path().string()}}, locality).empty());
}

TEST_CASE("a secret that others may read, or that is too short, is refused", "[distributed]") {
  const ScratchFolder scratch;
  const fs::path file = scratch.write("secret", kSecret);
  const Environment named = {{"TENON_RUN_SECRET_FILE", file.string()}};
  for (const mode_t mode : {0640u, 0604u, 0660u, 0644u}) {
    set_mode(file, mode);
    CHECK_THAT(secret_refusal(named), Catch::Contains("other users may read or own the secret"));
  }
  CHECK_THAT(secret_refusal({{"TENON_RUN_SECRET_FILE", (scratch.path() / "none").string()}}),
             Catch::Contains("no such file"));
  CHECK_THAT(secret_refusal({{"TENON_RUN_SECRET_FILE", scratch.path().string()}}),
             Catch::Contains("not a regular file"));
  const fs::path pipe = scratch.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_THAT(secret_refusal({{"TENON_RUN_SECRET_FILE", pipe.string()}}),
             Catch::Contains("not a regular file"));
  const std::string weak = "this-is-no-secret-of-256-bits";
  const std::string message = secret_refusal({{"TENON_RUN_SECRET", weak}});
  CHECK_THAT(message, Catch::Contains("29 characters (expected at least 43)"));
  CHECK(message.find(weak) == std::string::npos);
}

TEST_CASE("ranks of one machine use the user's own secret, which the first one creates",
          "[distributed]") {
  const ScratchFolder scratch;
  const Environment home = {{"HOME", scratch.path().string()}};
  const std::string secret = find_run_secret(home, RankLocality::kOneMachine);
  CHECK(secret.size() == 64);
  CHECK(find_run_secret(home, RankLocality::kOneMachine) == secret);
  const fs::path file = scratch.path() / ".config/tenon/run-secret";
  struct stat found {};
  REQUIRE(::stat(file.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  CHECK(std::distance(fs::directory_iterator(file.parent_path()), {}) == 1);
  CHECK(find_run_secret(home, RankLocality::kMachines).empty());
  CHECK(find_run_secret({}, RankLocality::kOneMachine).empty());
}

TEST_CASE("keys differ with purpose, run and secret", "[distributed]") {
  const RunKey key = run_key(kSecret, "", "store");
  CHECK(run_key(kSecret, "", "store") == key);
  CHECK(run_key(kSecret, "", "peers") != key);
  CHECK(run_key(kSecret, "job 2", "store") != key);
  CHECK(run_key(std::string(64, 'b'), "", "store") != key);
  CHECK(run_key("", "", "store") != key);
  // RFC 4231, test case 2, with the key padded to the size of a RunKey, which HMAC does itself.
  RunKey jefe{};
  std::memcpy(jefe.data(), "Jefe", 4);
  CHECK(hex_text(authenticator(jefe, "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST_CASE("a secret leaves the environment and the memory of the process", "[distributed]") {
  static char variable[] = "TENON_RUN_SECRET=0123456789012345678901234567890123456789abc";
  REQUIRE(::putenv(variable) == 0);  // the environment points to this text
  forget_secret_variable();
  CHECK(std::getenv("TENON_RUN_SECRET") == nullptr);
  CHECK(std::string(variable, sizeof(variable)).find("0123") == std::string::npos);
  forget_secret_variable();  // without one
}

}  // namespace tenon
