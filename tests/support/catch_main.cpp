// SPDX-License-Identifier: Apache-2.0
//
// main() of every test executable, compiled once: with Catch2 2.13 this is what costs the time.
#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
