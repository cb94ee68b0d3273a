// SPDX-License-Identifier: Apache-2.0
//
// Cases for readers of JSON: valid texts, with a few values or bytes changed. Threads: one.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "tests/fuzz/json_mutator.hpp"

namespace tenon {

class JsonCases {
 public:
  // `seeds` are valid texts, as the host writes them.
  explicit JsonCases(std::vector<std::string> seeds);

  // A seed with one to three values changed; in every fourth case, with bytes changed; rarely
  // unchanged.
  std::string make(Mutator& mutator) const;

 private:
  std::vector<std::string> seeds_;
  std::vector<nlohmann::json> values_;
  JsonWords words_;
  std::vector<std::string> texts_;
};

}  // namespace tenon
