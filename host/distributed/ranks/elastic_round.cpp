// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/elastic_round.hpp"

#include "host/distributed/ranks/awake_clock.hpp"
#include "host/distributed/ranks/quiet_c10d.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"
#include "host/text/rank_list.hpp"

#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tenon {
namespace {

constexpr std::chrono::milliseconds kRoundPoll{5};
constexpr const char* kHint =
    "; check the logs of the missing ranks (limit: parallel.start_timeout_seconds)";

std::string hello_of(uint32_t rank) {
  return formatted("round/hello/{}", rank);
}
std::string answer_to(const std::string& hello) {
  return "round/answer/" + hello;
}
std::string thanks_of(const std::string& hello) {
  return "round/thanks/" + hello;
}

std::string text_at(c10d::Store& store, const std::string& key) {
  return store.check({key}) ? store.get_to_str(key) : "";
}

// Returns a text that no rank has sent before.
std::string new_hello(uint32_t rank) {
  std::random_device random;
  char text[32];
  std::snprintf(text, sizeof(text), "%u.%08x%08x", rank, random(), random());
  return text;
}

// Answers each rank's hello, until every rank has read the answer to its last hello. Hellos of
// ranks of an earlier start are answered too, but nobody reads those answers.
void answer_all(c10d::Store& store, uint32_t round, uint32_t size, AwakeClock::time_point end) {
  std::vector<std::string> answered(size);
  for (;;) {
    std::vector<uint32_t> missing;
    for (uint32_t rank = 1; rank < size; ++rank) {
      const std::string hello = text_at(store, hello_of(rank));
      if (!hello.empty() && hello != answered[rank]) {
        store.set(answer_to(hello), std::to_string(round));
        answered[rank] = hello;
      }
      if (hello.empty() || text_at(store, thanks_of(hello)) != std::to_string(round)) {
        missing.push_back(rank);
      }
    }
    if (missing.empty()) {
      return;
    }
    if (AwakeClock::now() >= end) {
      throw Error("distributed.unreachable",
                  formatted("{} of {} did not connect to the launcher's store{}",
                            rank_list(missing),
                            size,
                            kHint));
    }
    std::this_thread::sleep_for(kRoundPoll);
  }
}

uint32_t ask_for_round(c10d::Store& store,
                       uint32_t rank,
                       uint32_t size,
                       AwakeClock::time_point end) {
  const std::string hello = new_hello(rank);
  store.set(hello_of(rank), hello);
  while (AwakeClock::now() < end) {
    const std::string answer = text_at(store, answer_to(hello));
    if (!answer.empty()) {
      store.set(thanks_of(hello), answer);
      return static_cast<uint32_t>(std::stoul(answer));
    }
    std::this_thread::sleep_for(kRoundPoll);
  }
  throw Error("distributed.unreachable",
              formatted("rank 0 of {} did not connect to the launcher's store{}", size, kHint));
}

}  // namespace

uint32_t agree_on_round(c10d::Store& store,
                        uint32_t rank,
                        uint32_t size,
                        std::chrono::steady_clock::time_point end) {
  const QuietC10d quiet;
  try {
    if (rank != 0) {
      return ask_for_round(store, rank, size, end);
    }
    const auto round = static_cast<uint32_t>(store.add("round/number", 1) - 1);
    answer_all(store, round, size, end);
    return round;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(
        "distributed.unreachable",
        "the launcher's store was lost: " + std::string(what_without_backtrace(error.what())) +
            "; check that the launcher is still running");
  }
}

}  // namespace tenon
