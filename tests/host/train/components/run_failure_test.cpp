// SPDX-License-Identifier: Apache-2.0
#include "host/train/components/run_failure.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

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

}  // namespace tenon
