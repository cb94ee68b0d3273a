// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/together.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace tenon {

void together(Group& ranks, std::string_view what, const std::function<void()>& body) {
  if (ranks.size() == 1) {
    body();
    return;
  }
  // Wire format: the id, a line break, the message.
  std::string mine;
  try {
    body();
  } catch (const Error& error) {
    mine = error.id() + "\n" + error.message();
  } catch (const std::exception& error) {
    mine = std::string("run.internal\n") + error.what();
  }
  const std::vector<std::string> all = ranks.gather_texts(mine, what);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) {
      continue;
    }
    const size_t end = all[rank].find('\n');
    const Error error(all[rank].substr(0, end), all[rank].substr(end + 1));
    SharedFailure failure(rank == 0 ? error : error.with_context(formatted("rank {}", rank)),
                          ranks.rank() == 0);
    if (std::ranges::count_if(all, [](const std::string& text) { return !text.empty(); }) == 1) {
      failure.set_lone_rank(static_cast<uint32_t>(rank));
    }
    throw failure;
  }
}

void together_for_long(Group& ranks, std::string_view what, const std::function<void()>& body) {
  if (ranks.size() == 1) {
    body();
    return;
  }
  constexpr std::chrono::milliseconds kBetweenSigns{500};
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false;
  std::exception_ptr lost;
  std::thread signs([&] {
    try {
      for (int64_t working = 1; working != 0;) {
        {
          std::unique_lock lock(mutex);
          changed.wait_for(lock, kBetweenSigns, [&] { return is_done; });
          working = is_done ? 0 : 1;
        }
        ranks.all_reduce(std::span(&working, 1), Reduce::kMax, what);
      }
    } catch (const std::exception&) {
      lost = std::current_exception();
    }
  });
  std::exception_ptr failure;
  try {
    body();
  } catch (const std::exception&) {
    failure = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    is_done = true;
  }
  changed.notify_all();
  signs.join();
  if (lost != nullptr) {
    std::rethrow_exception(lost);
  }
  together(ranks, what, [&] {
    if (failure != nullptr) {
      std::rethrow_exception(failure);
    }
  });
}

}  // namespace tenon
