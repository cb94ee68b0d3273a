// SPDX-License-Identifier: Apache-2.0

#include "host/error/status.hpp"

#include <fstream>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const auto* const kHost = reinterpret_cast<const tenon_host*>(0x40);

TEST_CASE("a status carries what it was made of until it is taken", "[error]") {
  const StatusText text =
      take(make_status(kHost, TENON_IO, "data.short", "file x ends at 12", "plugin.c", 34));
  CHECK_FALSE(text.ok());
  CHECK(text.code == TENON_IO);
  CHECK(text.id == "data.short");
  CHECK(text.message == "file x ends at 12");
  CHECK(text.file == "plugin.c");
  CHECK(text.line == 34);
  CHECK(text.host == kHost);
}

TEST_CASE("no status is success", "[error]") {
  CHECK(take(nullptr).ok());
  release(nullptr);
}

TEST_CASE("null strings of a status read as empty ones", "[error]") {
  const StatusText text = take(make_status(nullptr, TENON_INVALID, nullptr, nullptr, nullptr, 0));
  CHECK(text.code == TENON_INVALID);
  CHECK(text.id.empty());
  CHECK(text.message.empty());
  CHECK(text.file.empty());
}

TEST_CASE("a status object is never OK", "[error]") {
  CHECK(take(make_status(nullptr, TENON_OK, "a.b", "c")).code == TENON_INTERNAL);
}

TEST_CASE("the status service makes, reads and releases statuses", "[error]") {
  const tenon_status_api& api = *status_service();
  CHECK(api.struct_size == sizeof(tenon_status_api));
  tenon_status* const status = api.make(kHost, TENON_UNSUPPORTED, "toy.no", "not that", "toy.c", 7);
  CHECK(api.code(status) == TENON_UNSUPPORTED);
  CHECK(std::string(api.id(status)) == "toy.no");
  CHECK(std::string(api.message(status)) == "not that");
  CHECK(std::string(api.file(status)) == "toy.c");
  CHECK(api.line(status) == 7);
  api.release(status);
  api.release(nullptr);
}

TEST_CASE("a null status reads as success through the service", "[error]") {
  const tenon_status_api& api = *status_service();
  CHECK(api.code(nullptr) == TENON_OK);
  CHECK(std::string(api.id(nullptr)).empty());
  CHECK(std::string(api.message(nullptr)).empty());
  CHECK(std::string(api.file(nullptr)).empty());
  CHECK(api.line(nullptr) == 0);
}

TEST_CASE("a guard turns each kind of exception into its status", "[error]") {
  const auto text_of = [](auto body) { return take(guard(kHost, body)); };

  CHECK(text_of([] {}).ok());

  const StatusText error = text_of([] { throw Error("recipe.bad_value", "no such value"); });
  CHECK(error.code == TENON_INVALID);
  CHECK(error.id == "recipe.bad_value");
  CHECK(error.message == "no such value");
  CHECK(error.host == kHost);

  const StatusText coded =
      text_of([] { throw StatusError(TENON_NOT_FOUND, "state.missing_entry", "no 'x'"); });
  CHECK(coded.code == TENON_NOT_FOUND);
  CHECK(coded.id == "state.missing_entry");

  CHECK(text_of([] { throw std::bad_alloc(); }).code == TENON_OUT_OF_MEMORY);

  const StatusText standard = text_of([] { throw std::runtime_error("surprise"); });
  CHECK(standard.code == TENON_INTERNAL);
  CHECK(standard.id == "host.internal");
  CHECK(standard.message == "surprise");

  CHECK(text_of([] { throw 42; }).code == TENON_INTERNAL);
}

TEST_CASE("a guard hands on the status that its body returns", "[error]") {
  tenon_status* const inner = make_status(kHost, TENON_IO, "a.b", "inner");
  tenon_status* const outer = guard(nullptr, [&] { return inner; });
  CHECK(outer == inner);
  release(outer);
  CHECK(guard(nullptr, []() -> tenon_status* { return nullptr; }) == nullptr);
}

TEST_CASE("the backtrace of a libtorch message is cut off", "[error]") {
  CHECK(what_without_backtrace("size differs\nException raised from f at g.cpp:3\nframe #0") ==
        "size differs");
  CHECK(what_without_backtrace("two\nlines") == "two\nlines");
  CHECK(what_without_backtrace("").empty());
  const StatusText text = take(guard(nullptr, [] {
    throw std::runtime_error("sizes differ\nException raised from check at a.cpp:1");
  }));
  CHECK(text.message == "sizes differ");
}

#ifndef __SANITIZE_ADDRESS__  // it reserves terabytes of addresses, and ends the process instead
TEST_CASE("without memory for a status there is one that says so", "[error]") {
  const std::string message(size_t{64} << 20, 'x');
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    long pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto bytes = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (rlim_t{16} << 20);
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_AS, &limit);
    tenon_status* const first = make_status(kHost, TENON_IO, "a.b", message.c_str());
    tenon_status* const second = make_status(kHost, TENON_IO, "a.b", message.c_str());
    const tenon_status_api& api = *status_service();
    const bool says_so = api.code(first) == TENON_OUT_OF_MEMORY && first == second &&
                         std::string(api.id(first)) == "host.out_of_memory";
    release(first);
    release(second);
    _exit(says_so && api.code(second) == TENON_OUT_OF_MEMORY ? 0 : 1);
  }
  int result = -1;
  REQUIRE(waitpid(child, &result, 0) == child);
  CHECK(result == 0);
}
#endif

}  // namespace
}  // namespace tenon
