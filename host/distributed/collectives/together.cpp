// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/together.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

void together(Collective& collective, std::string_view what, const std::function<void()>& body) {
  if (collective.world_size() == 1) {
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
  const std::vector<std::string> all = collective.gather_texts(mine, what);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) {
      continue;
    }
    const size_t end = all[rank].find('\n');
    const Error error(all[rank].substr(0, end), all[rank].substr(end + 1));
    SharedFailure failure(rank == 0 ? error : error.with_context(formatted("rank {}", rank)),
                          collective.rank() == 0);
    if (std::ranges::count_if(all, [](const std::string& text) { return !text.empty(); }) == 1) {
      failure.set_lone_rank(static_cast<uint32_t>(rank));
    }
    throw failure;
  }
}

}  // namespace tenon
