// SPDX-License-Identifier: Apache-2.0
#include "host/cli/quantity.hpp"

#include "host/error/error.hpp"

#include <cmath>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

template <class Read>
std::string quantity_failure(Read read) {
  try {
    (void)read();
  } catch (const Error& error) {
    CHECK(error.id() == "usage.bad_option");
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST_CASE("quantities are read with and without units", "[cli]") {
  CHECK(read_bytes("x", "400e9") == 400e9);
  CHECK(read_bytes("x", "50GB") == 50e9);
  CHECK(read_bytes("x", "25e9B") == 25e9);
  CHECK(read_whole_bytes("x", "80GiB", "machine") == int64_t{80} << 30);
  CHECK(read_flops("x", "400T") == 400e12);
  CHECK(std::abs(read_seconds("x", "5us") - 5e-6) < 1e-18);
}

TEST_CASE("quantities that cannot exist are errors", "[cli]") {
  for (const char* const bytes : {"0", "-1GiB", "80 GiB", "80gib", "GiB", "nan", "inf", "1e400"}) {
    CAPTURE(bytes);
    CHECK(quantity_failure([&] { return read_bytes("memory", bytes); }) ==
          "--memory: expected a number of bytes above 0, plain or with one of the units B, kB, MB, "
          "GB, TB, KiB, MiB, GiB and TiB, as in 80GiB or 50e9, found \"" +
              std::string(bytes) + "\"");
  }
  CHECK(quantity_failure([] { return read_whole_bytes("memory", "1e30", "machine"); }) ==
        "--memory is \"1e30\"; no machine has that many bytes");
  CHECK(quantity_failure([] { return read_flops("flops", "400TB"); }) ==
        "--flops: expected operations per second above 0, as in 400e12 or 400T, found \"400TB\"");
  CHECK(quantity_failure([] { return read_seconds("latency", "5 us"); }) ==
        "--latency: expected a time above 0 in seconds, as in 5us or 5e-6, found \"5 us\"");
}

}  // namespace tenon
