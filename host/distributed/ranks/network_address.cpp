// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/network_address.hpp"

#include "host/error/error.hpp"
#include "host/log/log.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace tenon {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// Returns the local address of a datagram socket connected to `to`; "" if no network reaches it.
std::string local_end(const addrinfo& to) {
  const int socket = ::socket(to.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) {
    return "";
  }
  sockaddr_storage here{};
  socklen_t length = sizeof(here);
  char text[NI_MAXHOST] = "";
  if (connect(socket, to.ai_addr, to.ai_addrlen) != 0 ||
      getsockname(socket, reinterpret_cast<sockaddr*>(&here), &length) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&here),
                  length,
                  text,
                  sizeof(text),
                  nullptr,
                  0,
                  NI_NUMERICHOST) != 0) {
    text[0] = '\0';
  }
  close(socket);
  return text;
}

int milliseconds_until(AwakeClock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - AwakeClock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
}

// Returns a non-blocking socket that is connected to `to`; -1 if it cannot be connected.
int connected_socket(const addrinfo& to, AwakeClock::time_point end) {
  const int socket = ::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) {
    return -1;
  }
  int problem = connect(socket, to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    constexpr int kLongestTryMs = 5000;  // the address may be that of a machine that is gone
    pollfd ready{.fd = socket, .events = POLLOUT, .revents = 0};
    socklen_t length = sizeof(problem);
    if (poll(&ready, 1, std::min(milliseconds_until(end), kLongestTryMs)) != 1 ||
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &problem, &length) != 0) {
      problem = ETIMEDOUT;
    }
  }
  if (problem != 0) {
    close(socket);
    return -1;
  }
  return socket;
}

// True if the name may resolve later: a cluster publishes the name of a machine or of a pod only
// once it is ready.
bool may_resolve_later(int problem) {
  return problem == EAI_NONAME || problem == EAI_AGAIN || problem == EAI_FAIL ||
         problem == EAI_NODATA || problem == EAI_ADDRFAMILY || problem == EAI_SYSTEM;
}

// Returns the addresses of a host. Waits until `end` for a name that is unknown.
AddressList addresses_of(const std::string& host,
                         uint16_t port,
                         int type,
                         AwakeClock::time_point end) {
  constexpr std::chrono::milliseconds kBetweenTries{500};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = type;
  for (bool is_reported = false;; is_reported = true) {
    addrinfo* found = nullptr;
    const int problem = getaddrinfo(host.c_str(), formatted("{}", port).c_str(), &hints, &found);
    if (problem == 0) {
      return {found, &freeaddrinfo};
    }
    if (!may_resolve_later(problem) || milliseconds_until(end) == 0) {
      throw Error("distributed.unreachable",
                  "cannot resolve the address of the master, \"" + host +
                      "\": " + gai_strerror(problem) +
                      "; check MASTER_ADDR (limit: parallel.start_timeout_seconds)");
    }
    if (!is_reported) {
      log_info("waiting until the address of the master, \"" + host +
               "\", can be resolved: " + gai_strerror(problem));
    }
    std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(
        kBetweenTries, std::chrono::milliseconds(milliseconds_until(end))));
  }
}

}  // namespace

std::vector<std::string> network_interfaces() {
  std::vector<std::string> names;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return names;
  }
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    const bool has_address = one->ifa_addr != nullptr && (one->ifa_addr->sa_family == AF_INET ||
                                                          one->ifa_addr->sa_family == AF_INET6);
    if (has_address && (one->ifa_flags & IFF_UP) != 0 &&
        std::ranges::find(names, one->ifa_name) == names.end()) {
      names.emplace_back(one->ifa_name);
    }
  }
  freeifaddrs(list);
  return names;
}

void check_network_interface(const std::string& name) {
  const std::vector<std::string> names = network_interfaces();
  if (std::ranges::find(names, name) != names.end()) {
    return;
  }

  throw Error("distributed.no_interface",
              formatted("parallel.interface \"{}\" not found (available: {}); use an available "
                        "interface, or omit the key to use the interface that reaches the master",
                        name,
                        names.empty() ? "none is up" : joined(names)));
}

std::string local_address_towards(const std::string& host,
                                  uint16_t port,
                                  AwakeClock::time_point end) {
  const AddressList list = addresses_of(host, port, SOCK_DGRAM, end);
  // All ranks must use the same address family, so an IPv4 address goes first if one exists.
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
      if (one->ai_family == family) {
        const std::string address = local_end(*one);
        if (!address.empty()) {
          return address;
        }
      }
    }
  }
  throw Error("distributed.unreachable",
              "no network interface of this machine reaches the master, \"" + host +
                  "\"; check MASTER_ADDR");
}

std::string address_of(const std::string& host, uint16_t port, AwakeClock::time_point end) {
  const AddressList list = addresses_of(host, port, SOCK_STREAM, end);
  const addrinfo* best = list.get();
  for (const addrinfo* one = best; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      best = one;
      break;
    }
  }
  char text[NI_MAXHOST] = "";
  if (getnameinfo(
          best->ai_addr, best->ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0) {
    throw Error("distributed.unreachable",
                "cannot resolve the address of the master, \"" + host + "\"; check MASTER_ADDR");
  }
  return text;
}

int connect_to(const std::string& host, uint16_t port, AwakeClock::time_point end) {
  // Asks again: the name may still have the address of an earlier machine.
  constexpr std::chrono::seconds kBetweenLookups{2};
  AddressList list = addresses_of(host, port, SOCK_STREAM, end);
  auto looked_up = AwakeClock::now();
  for (;;) {
    if (AwakeClock::now() - looked_up > kBetweenLookups) {
      list = addresses_of(host, port, SOCK_STREAM, end);
      looked_up = AwakeClock::now();
    }
    for (const addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
      const int socket = connected_socket(*one, end);
      if (socket >= 0) {
        return socket;
      }
    }
    if (milliseconds_until(end) == 0) {
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

bool wait_for_listener(const std::string& host, uint16_t port, AwakeClock::time_point end) {
  const int socket = connect_to(host, port, end);
  if (socket >= 0) {
    close(socket);
  }
  return socket >= 0;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

}  // namespace tenon
