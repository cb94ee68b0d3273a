// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/rank_store.hpp"

#include "host/distributed/ranks/awake_clock.hpp"
#include "host/distributed/ranks/key_server.hpp"
#include "host/distributed/ranks/network_address.hpp"
#include "host/distributed/ranks/quiet_c10d.hpp"
#include "host/distributed/ranks/sealed_store.hpp"
#include "host/distributed/ranks/store_client.hpp"
#include "host/error/error.hpp"
#include "host/error/status.hpp"
#include "host/text/formatted.hpp"
#include "host/text/seconds_text.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cerrno>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace tenon {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Time = std::chrono::steady_clock::time_point;

constexpr std::chrono::seconds kOpeningSlack{1};  // lets c10d's own limit expire first

std::string store_address(const RankEnvironment& environment) {
  return formatted("{}:{}", environment.master_addr, environment.master_port);
}

// Listens at the master's own address. The master's name may have a loopback address on its own
// machine, where other machines cannot reach it, or an address that a router translates: the server
// then listens at all addresses.
ListeningSocket listen_for(const RankEnvironment& environment, Time end) {
  const std::string own = address_of(environment.master_addr, environment.master_port, end);
  const char* const any = own.find(':') == std::string::npos ? "0.0.0.0" : "::";
  const bool is_hidden = is_loopback(own) && !are_on_one_machine(environment);
  try {
    return listen_at(is_hidden ? any : own, environment.master_port);
  } catch (const std::system_error& problem) {
    if (problem.code().value() != EADDRNOTAVAIL || are_on_one_machine(environment)) {
      throw;
    }
    return listen_at(any, environment.master_port);
  }
}

std::shared_ptr<KeyServer> serve_keys(const RankEnvironment& environment,
                                      const RunKey& key,
                                      Time end) {
  try {
    return std::make_shared<KeyServer>(listen_for(environment, end), key);
  } catch (const std::system_error& problem) {
    if (problem.code().value() == EADDRINUSE) {
      throw Error("distributed.port_taken",
                  "rank 0 cannot open the store of the ranks at " + store_address(environment) +
                      ": another program uses the port; end it, or set another MASTER_PORT");
    }
    throw Error("distributed.unreachable",
                "rank 0 cannot open the store of the ranks at " + store_address(environment) +
                    ": " + problem.code().message() + "; check MASTER_PORT and ulimit -n");
  }
}

StorePtr open_keys(const RankEnvironment& environment,
                   StoreRole role,
                   std::chrono::milliseconds timeout,
                   Time end) {
  const RunKey key = run_key(environment.secret, environment.run_id, "store");
  const auto held =
      role == StoreRole::kServer ? serve_keys(environment, key, end) : std::shared_ptr<KeyServer>();
  return c10::make_intrusive<StoreClient>(
      environment.master_addr, environment.master_port, key, end, timeout, held);
}

// Opens an agent's store on a separate thread: c10d would wait forever for a master that accepts
// the connection and never answers. In that case the thread is abandoned.
StorePtr open_within(const std::string& host,
                     const c10d::TCPStoreOptions& options,
                     std::chrono::milliseconds limit) {
  auto opened = std::make_shared<std::promise<StorePtr>>();
  auto future = opened->get_future();
  std::thread([opened, host, options] {
    try {
      opened->set_value(c10::make_intrusive<c10d::TCPStore>(host, options));
    } catch (const std::exception&) {
      opened->set_exception(std::current_exception());
    }
  }).detach();
  if (future.wait_for(limit) != std::future_status::ready) {
    throw std::runtime_error("the port accepts connections, but is not a store of ranks");
  }
  return future.get();
}

StorePtr open_agent_store(const RankEnvironment& environment,
                          std::chrono::milliseconds timeout,
                          Time end) {
  c10d::TCPStoreOptions options;
  options.port = environment.master_port;
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = timeout;
  if (!wait_for_listener(environment.master_addr, environment.master_port, end)) {
    throw std::runtime_error("no program listens there");
  }
  StorePtr store = open_within(environment.master_addr, options, timeout + kOpeningSlack);
  if (environment.secret.empty()) {
    return store;
  }
  const auto key = [&](std::string_view purpose) {
    return run_key(environment.secret, environment.run_id, purpose);
  };
  return c10::make_intrusive<SealedStore>(
      std::move(store), key("names of keys"), key("values of keys"));
}

}  // namespace

c10::intrusive_ptr<c10d::Store> open_rank_store(const RankEnvironment& environment,
                                                StoreRole role,
                                                std::chrono::milliseconds timeout,
                                                StoreOf of) {
  const auto end = AwakeClock::now() + timeout;
  const QuietC10d quiet;
  const std::string prefix =
      formatted("tenon/{}{}",
                environment.run_id,
                of == StoreOf::kStart ? formatted("/{}", environment.restart) : "");
  try {
    return c10::make_intrusive<c10d::PrefixStore>(prefix,
                                                  is_store_of_agent(environment)
                                                      ? open_agent_store(environment, timeout, end)
                                                      : open_keys(environment, role, timeout, end));
  } catch (const Error&) {
    throw;
  } catch (const WrongKey&) {
    throw Error("distributed.unauthenticated",
                "the store of the ranks at " + store_address(environment) +
                    " and this rank have different secrets; pass all ranks the same "
                    "TENON_RUN_SECRET or TENON_RUN_SECRET_FILE, and check that no other program "
                    "uses the port (docs/security.md)");
  } catch (const std::exception& error) {
    const std::string why(what_without_backtrace(error.what()));
    throw Error("distributed.unreachable",
                (role == StoreRole::kServer
                     ? "rank 0 cannot open the store of the ranks at " + store_address(environment)
                     : "the master at " + store_address(environment) + " did not answer within " +
                           seconds_text(timeout)) +
                    ": " + why +
                    "; check that rank 0 is running, that MASTER_ADDR and MASTER_PORT are correct "
                    "on this machine, and that no firewall blocks the connection");
  }
}

}  // namespace tenon
