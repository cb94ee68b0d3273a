// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/bundle_storage.hpp"

#include "host/error/error.hpp"

#include <string_view>

namespace tenon {

bool is_bundle_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  // What a storage keeps for itself begins with a dot; longer names do not fit every file system.
  return !name.empty() && name.front() != '.' && name.size() <= 200 &&
         name.find_first_not_of(kAllowed) == std::string_view::npos && name != "latest" &&
         name != "COMMITTED" && name != "COMMITTED.tmp";
}

void check_bundle_name(const std::string& name) {
  if (!is_bundle_name(name)) {
    throw Error("storage.bad_name",
                "\"" + name +
                    "\" cannot be the name of a bundle or of a file in one; use letters, digits, "
                    "'_', '-' and '.', not at the beginning, at most 200 of them, and neither "
                    "\"latest\" nor \"COMMITTED\"");
  }
}

}  // namespace tenon
