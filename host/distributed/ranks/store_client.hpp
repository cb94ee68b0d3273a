// SPDX-License-Identifier: Apache-2.0
//
// A store of c10d whose keys a key server holds (key_server.hpp). Gloo and NCCL rendezvous through
// it as through any other store.
// Threads: any; one request at a time.
#pragma once

#include "host/distributed/ranks/key_server.hpp"
#include "host/distributed/ranks/store_message.hpp"
#include "host/trust/secrets/psk_channel.hpp"
#include "host/trust/secrets/run_secret.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace tenon {

class StoreClient final : public c10d::Store {
 public:
  // Connects before `end`. `held`, if it is not null, is the server, which then lives as long as
  // this client.
  // Throws WrongKey if the server has another secret, std::runtime_error if it cannot be reached.
  StoreClient(std::string host,
              uint16_t port,
              const RunKey& key,
              std::chrono::steady_clock::time_point end,
              std::chrono::milliseconds timeout,
              std::shared_ptr<KeyServer> held = nullptr);
  ~StoreClient() override;
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // All functions throw std::runtime_error if the server is lost, or if a key that they wait for is
  // not set in time.
  c10::intrusive_ptr<c10d::Store> clone() override;
  using c10d::Store::compareSet;
  using c10d::Store::set;
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key,
                                  const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t amount) override;
  bool deleteKey(const std::string& key) override;
  bool check(const std::vector<std::string>& keys) override;
  int64_t getNumKeys() override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  using Time = std::chrono::steady_clock::time_point;

  void open(Time end);
  void exchange_bytes(Time end);
  StoreMessage ask(StoreRequest request,
                   std::vector<std::string> texts,
                   int64_t number = 0,
                   std::chrono::milliseconds wait = std::chrono::milliseconds(0));

  const std::shared_ptr<KeyServer> held_;  // also owned by clones
  const std::string host_;
  const uint16_t port_;
  const RunKey key_;
  std::mutex mutex_;
  int socket_ = -1;
  bool is_lost_ = false;
  PskChannel channel_;
  StoreMessageReader reader_;
};

}  // namespace tenon
