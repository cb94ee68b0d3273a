// SPDX-License-Identifier: Apache-2.0
//
// A fuzz program whose judge has the mistakes that fuzzing is to find, for the test of
// fuzz_run.cpp. TENON_PLANTED in the environment names one of them.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tests/fuzz/fuzz_run.hpp"

namespace tenon {
namespace {

std::string_view planted_mistake() {
  const char* const value = std::getenv("TENON_PLANTED");
  return value != nullptr ? value : "";
}

std::string make(Mutator& mutator) {
  static const std::vector<std::string> kTexts = {"abcdefgh", "the quick brown fox"};
  return mutator.mutated(mutator.pick(kTexts), {"word"}, kTexts);
}

std::string judge(const std::string& input) {
  const bool is_hit = input.size() > 3 && input.find("ww") == std::string::npos &&
                      input[1] == 'b' && input[2] != 'c';
  if (!is_hit) {
    return input.size() % 2 == 0 ? kFuzzAccepted : "planted.odd";
  }
  const std::string_view mistake = planted_mistake();
  if (mistake == "overrun") {
    const auto copy = std::make_unique<char[]>(input.size());
    const volatile char* const bytes = copy.get();
    std::cout << static_cast<int>(bytes[input.size()]);
  } else if (mistake == "overflow") {
    volatile int large = 2147483647;
    large = large + static_cast<int>(input.size());
  } else if (mistake == "abort") {
    std::abort();
  } else if (mistake == "hang") {
    const volatile bool goes_on = true;
    while (goes_on) {
    }
  } else if (mistake == "throw") {
    throw std::out_of_range("planted");
  } else if (mistake == "memory") {
    const std::string much(std::size_t{1} << 31, 'x');
    std::cout << much.back();
  } else if (mistake == "message") {
    check_fuzz_message("planted.bad", "\xff");
  }
  return kFuzzAccepted;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "planted_fuzz", .make = tenon::make, .judge = tenon::judge, .max_seconds = 1});
}
