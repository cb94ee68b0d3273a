// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/network_address.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sched.h>
#include <string>
#include <sys/mount.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int kSkipped = 77;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs `body` in a process whose names come from the file `hosts` alone. Returns its exit status.
int with_names_of(const fs::path& hosts, const std::function<int()>& body) {
  const fs::path servers = hosts.string() + ".resolv";  // none: no query leaves the machine
  std::ofstream(servers) << "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_ready =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
        ::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0 &&
        ::mount(servers.c_str(), "/etc/resolv.conf", nullptr, MS_BIND, nullptr) == 0;
    ::_exit(is_ready ? body() : kSkipped);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

// As in Kubernetes, where a pod's name appears once the pod is ready.
TEST_CASE("a name that is not known yet is looked up until it is", "[distributed]") {
  const ScratchFolder folder;
  const fs::path hosts = folder.write("hosts", "127.0.0.1 localhost\n");
  const std::string log = (folder.path() / "log.txt").string();
  const int code = with_names_of(hosts, [&] {
    set_up_log({.terminal = false, .file = log});
    std::thread publisher([&] {
      while (text_of(log).find("waiting until the address of the master, \"late-master\"") ==
             std::string::npos) {
        std::this_thread::yield();
      }
      std::ofstream(hosts, std::ios::app) << "127.0.0.1 late-master\n";
    });
    const std::string address =
        local_address_towards("late-master", 4711, AwakeClock::now() + std::chrono::minutes(5));
    publisher.join();
    return address == "127.0.0.1" ? 0 : 1;
  });
  if (code == kSkipped) {
    TENON_SKIP("needs permission to mount a hosts file");
  }
  CHECK(code == 0);
}

TEST_CASE("a name that stays unknown is an error with the key of the limit", "[distributed]") {
  const ScratchFolder folder;
  const int code = with_names_of(folder.write("hosts", "127.0.0.1 localhost\n"), [] {
    set_up_log({.terminal = false});
    try {
      address_of("no-such-host", 4711, AwakeClock::now());
    } catch (const Error& error) {
      const std::string said = error.what();
      return said.find("[distributed.unreachable]") != std::string::npos &&
                     said.find("\"no-such-host\"") != std::string::npos &&
                     said.find("parallel.start_timeout_seconds") != std::string::npos
                 ? 0
                 : 1;
    }
    return 2;
  });
  if (code == kSkipped) {
    TENON_SKIP("needs permission to mount a hosts file");
  }
  CHECK(code == 0);
}

}  // namespace tenon
