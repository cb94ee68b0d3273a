// SPDX-License-Identifier: Apache-2.0

#include "host/error/resource_failure.hpp"

#include <cerrno>
#include <string_view>
#include <sys/resource.h>
#include <system_error>

namespace tenon {

const char* resource_advice(int error) noexcept {
  switch (error) {
    case EAGAIN:
      return "raise ulimit -u or ulimit -v, or end other processes of this user";
    case EMFILE:
    case ENFILE:
      return "raise ulimit -n";
    case ENOMEM:
      return "raise ulimit -v, or free memory on the machine";
    default:
      return "";
  }
}

std::string address_limit_advice() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return "";
  }
  return "raise ulimit -v, which is " + std::to_string(limit.rlim_cur / 1024) + " KiB";
}

Error resource_failure(const std::string& what, int error) {
  const std::string_view advice = resource_advice(error);
  return Error("run.out_of_resources",
               what + ": " + std::generic_category().message(error) + "; " +
                   std::string(advice.empty() ? "check the limits that ulimit -a prints" : advice));
}

}  // namespace tenon
