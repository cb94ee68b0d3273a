// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/launch/rank_output.hpp"

#include "host/log/log.hpp"

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

// Lets a rank say what it has to say, and reads it.
RankOutput read_rank(const std::function<void()>& say) {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  std::cout.flush();  // what is left in it would be printed twice
  std::fflush(stdout);
  const pid_t rank = ::fork();
  REQUIRE(rank >= 0);
  if (rank == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[1]);
    set_up_log({.rank = 1, .num_ranks = 2});
    say();
    ::_exit(0);
  }
  ::close(ends[1]);
  RankOutput output(ends[0]);
  while (output.pipe() >= 0) {
    output.read_available();
  }
  ::waitpid(rank, nullptr, 0);
  return output;
}

}  // namespace

TEST_CASE("what a rank says is kept until it has a log", "[distributed]") {
  const RankOutput output = read_rank([] {
    log_warning("mind the gap");
    log_info("nobody is looking");
    ::dprintf(STDOUT_FILENO, "printed\n");
  });
  CHECK(output.log_file().empty());
  CHECK(output.last_lines(10) ==
        std::vector<std::string>{"[rank 1] warning: mind the gap", "printed"});
  CHECK(output.last_lines(1) == std::vector<std::string>{"printed"});
}

TEST_CASE("all that a rank prints is in its log once it has one", "[distributed]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "rank-1.txt").string();
  const RankOutput output = read_rank([&] {
    log_warning("before");
    ::dprintf(STDOUT_FILENO, "printed before\n");
    move_output_to(file);
    log_info("after");
    ::dprintf(STDOUT_FILENO, "printed after\n");
    ::dprintf(STDERR_FILENO, "printed as an error\n");
  });
  CHECK(output.log_file() == file);
  CHECK(output.last_lines(100).size() == 5);
  std::ifstream stream(file);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  for (const char* const line : {"[warning] [rank 1] before\n",
                                 "[info] [rank 1] after\n",
                                 "printed before\n",
                                 "printed after\n",
                                 "printed as an error\n"}) {
    INFO(line);
    CHECK(text.find(line) != std::string::npos);
    CHECK(text.find(line) == text.rfind(line));
  }
}

TEST_CASE("a log can be read when its folder is gone", "[distributed]") {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "rank-1.txt").string();
  RankOutput output = read_rank([&] {
    move_output_to(file);
    ::dprintf(STDERR_FILENO, "the last word\n");
  });
  std::filesystem::remove(file);
  CHECK(output.last_lines(1) == std::vector<std::string>{"the last word"});
}

}  // namespace tenon
