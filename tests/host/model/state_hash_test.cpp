// SPDX-License-Identifier: Apache-2.0
#include "host/model/state_hash.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

std::string hash_of(const std::vector<std::vector<float>>& pieces) {
  StateHash hash;
  for (const auto& piece : pieces) {
    hash.add(piece.data(), piece.size() * sizeof(float));
  }
  return hash.text();
}

}  // namespace

TEST_CASE("a hash tells apart what differs in one bit, a sign or a border", "[model]") {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
  const std::string hash = hash_of({values});
  CHECK(hash.size() == 16);
  CHECK(hash.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(hash == hash_of({values}));
  for (size_t i = 0; i < values.size(); ++i) {
    auto changed = values;
    changed[i] += 1e-6F * changed[i];
    CHECK(hash != hash_of({changed}));
    for (size_t k = 0; k < i; ++k) {  // two signs: differences in the highest bits alone
      auto turned = values;
      turned[i] = -turned[i];
      turned[k] = -turned[k];
      CHECK(hash != hash_of({turned}));
    }
  }
  CHECK(hash_of({{1, 2}, {3}}) != hash_of({{1}, {2, 3}}));
  CHECK(hash_of({{0}}) != hash_of({{0, 0}}));
  CHECK(hash_of({}) != hash_of({{}}));
}

}  // namespace tenon
