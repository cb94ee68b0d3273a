// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/store_server.hpp"

#include "host/distributed/ranks/rank_environment.hpp"
#include "host/distributed/ranks/tcp_store.hpp"
#include "host/error/error.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <exception>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace tenon {
namespace {

[[noreturn]] void fail_to_serve(const std::string& what) {
  throw Error("distributed.launch_failed",
              "the launcher cannot open a port for the rendezvous on " +
                  std::string(StoreServer::kAddress) + ": " + what +
                  "; check the loopback interface and ulimit -n");
}

// A listening socket at a port that the system has chosen.
struct Listener {
  int socket = -1;
  uint16_t port = 0;
};

Listener listen_on_loopback() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    fail_to_serve(std::strerror(errno));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd, any, size) != 0 || ::listen(fd, SOMAXCONN) != 0 ||
      ::getsockname(fd, any, &size) != 0) {
    const int error = errno;
    ::close(fd);
    fail_to_serve(std::strerror(error));
  }
  return {fd, ntohs(address.sin_port)};
}

}  // namespace

struct StoreServer::Impl {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

StoreServer::StoreServer() : impl_(std::make_unique<Impl>()) {
  const Listener listener = listen_on_loopback();
  c10d::TCPStoreOptions options;
  options.port = listener.port;
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = listener.socket;  // closed by the store
  try {
    impl_->store = c10::make_intrusive<c10d::TCPStore>(kAddress, options);
  } catch (const std::exception& error) {
    fail_to_serve(error.what());
  }
  port_ = listener.port;
}

StoreServer::~StoreServer() = default;

std::unique_ptr<Store> StoreServer::open(const std::string& run_id, uint32_t restart) const {
  constexpr std::chrono::seconds kLimit{5};  // the server is in this process
  RankEnvironment environment;
  environment.master_addr = kAddress;
  environment.master_port = port_;
  environment.run_id = run_id;
  environment.restart = restart;
  return make_bounded_store(open_tcp_store(environment, StoreRole::kClient, kLimit),
                            [=] { return kLimit; });
}

}  // namespace tenon
