// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_name.hpp"

#include "host/error/error.hpp"

namespace tenon {

bool is_checkpoint_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  // Storages use names that start with a dot. Some file systems do not allow longer names.
  return !name.empty() && name.front() != '.' && name.size() <= 200 &&
         name.find_first_not_of(kAllowed) == std::string_view::npos && name != "latest" &&
         name != "COMMITTED" && name != "COMMITTED.tmp";
}

void check_checkpoint_name(const std::string& name) {
  if (!is_checkpoint_name(name)) {
    throw Error("storage.bad_name",
                "\"" + name +
                    "\" is not a valid checkpoint or file name; use at most 200 letters, digits, "
                    "'_', '-' and '.', not starting with '.', and not \"latest\" or \"COMMITTED\"");
  }
}

}  // namespace tenon
