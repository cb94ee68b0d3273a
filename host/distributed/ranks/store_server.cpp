// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/store_server.hpp"

#include "host/distributed/ranks/bounded_store.hpp"
#include "host/distributed/ranks/rank_store.hpp"
#include "host/error/error.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <chrono>
#include <system_error>

namespace tenon {

StoreServer::StoreServer(const std::string& run_id, const std::string& secret) {
  environment_.master_addr = kAddress;
  environment_.run_id = run_id;
  environment_.secret = secret;
  try {
    keys_ = std::make_unique<KeyServer>(listen_at(kAddress, 0), run_key(secret, run_id, "store"));
  } catch (const std::system_error& problem) {
    throw Error("distributed.launch_failed",
                "the launcher cannot open a port for the rendezvous on " + std::string(kAddress) +
                    ": " + problem.code().message() +
                    "; check the loopback interface and ulimit -n");
  }
  environment_.master_port = keys_->port();
}

StoreServer::~StoreServer() = default;

std::unique_ptr<Store> StoreServer::open(uint32_t restart) const {
  constexpr std::chrono::seconds kLimit{5};  // the server is in this process
  RankEnvironment environment = environment_;
  environment.restart = restart;
  return make_bounded_store(open_rank_store(environment, StoreRole::kClient, kLimit),
                            [=] { return kLimit; });
}

}  // namespace tenon
