// SPDX-License-Identifier: Apache-2.0
//
// A store of c10d in another one that strangers can read and write, such as the store of a torchrun
// agent. Names and values are sealed (seal.hpp). So strangers learn nothing, and can only end the
// run: by deleting or changing values, or by filling the store.
// Threads: as the other store.
#pragma once

#include "host/trust/secrets/run_secret.hpp"
#include "host/trust/secrets/seal.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

class SealedStore final : public c10d::Store {
 public:
  // `names` and `values` are different keys.
  SealedStore(c10::intrusive_ptr<c10d::Store> store, const RunKey& names, const RunKey& values);

  // Errors  distributed.unauthenticated if a value was not written with the run's secret; names
  //         the key
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
  const std::chrono::milliseconds& getTimeout() const noexcept override;
  void setTimeout(const std::chrono::milliseconds& timeout) override;

 private:
  using Bytes = Seal::Bytes;

  std::vector<std::string> sealed_names(const std::vector<std::string>& keys) const;
  template <class Change>
  Bytes change(const std::string& key, Change&& change);

  const c10::intrusive_ptr<c10d::Store> store_;
  const RunKey names_;
  const RunKey values_;
  Seal seal_;
};

}  // namespace tenon
