// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/run_failure.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a limit of the system is an error of its own, with the way out", "[train]") {
  // What std::thread throws.
  const Error threads = run_failure(
      std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  CHECK(threads.id() == "run.out_of_resources");
  CHECK_THAT(threads.message(), contains_text("Resource temporarily unavailable; raise ulimit -u"));
  const Error files =
      run_failure(std::system_error(std::make_error_code(std::errc::too_many_files_open), "pipe"));
  CHECK(files.id() == "run.out_of_resources");
  CHECK_THAT(files.message(), contains_text("pipe: Too many open files; raise ulimit -n"));
}

TEST_CASE("other exceptions keep their meaning", "[train]") {
  CHECK(run_failure(Error("data.empty", "no sample")).id() == "data.empty");
  CHECK(run_failure(std::bad_alloc()).id() == "run.out_of_memory");
  CHECK(run_failure(std::runtime_error("x")).id() == "run.internal");
  CHECK(run_failure(std::system_error(std::make_error_code(std::errc::no_such_file_or_directory)))
            .id() == "run.internal");
}

// A model of kilobytes fails, too, if the process may have few addresses.
TEST_CASE("a limit of addresses is named, not the size of the batch", "[train]") {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = rlim_t{1} << 40, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
    const std::string message = run_failure(std::bad_alloc()).message();
    ::_exit(message.find("raise ulimit -v, which is 1073741824 KiB") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace tenon
