// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer of a plugin in the build tree, as a component that uses it sees it: through the ABI.
// Includes no header of the host, which do not go together with those of the SDK's wrapper.
#pragma once

#include <tenon/tokenizer.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

class ComponentInstance;

struct Piece {
  std::string text;
  uint32_t kind = TENON_PIECE_TEXT;
};

struct Encoded {
  std::vector<int32_t> ids;
  std::vector<int64_t> begins;
  std::vector<int64_t> ends;
};

class MadeTokenizer {
 public:
  // Errors  those of make_component()
  MadeTokenizer(const std::string& type, const nlohmann::json& options);

  tenon_tokenizer_info info() const;
  std::map<std::string, std::pair<std::string, int64_t>> specials() const;
  std::vector<int32_t> encode(const std::string& text) const;
  Encoded encode_pieces(const std::vector<Piece>& pieces, uint32_t flags = 0) const;
  std::string decode(const std::vector<int32_t>& ids) const;
  std::map<std::string, std::string> files() const;

 private:
  const tenon_tokenizer& table() const;

  std::shared_ptr<ComponentInstance> made_;
};

}  // namespace tenon
