// SPDX-License-Identifier: Apache-2.0
#include "tests/parity/made_tokenizer.hpp"

#include <tenon/tokenizer.h>

#include <nlohmann/json.hpp>

#include <memory>

#include "tests/plugins/made_component.hpp"

namespace tenon {

MadeTokenizer made_tokenizer(const std::string& type, const std::string& file) {
  const auto made = std::make_shared<ComponentInstance>(
      make_component("tokenizer", type, nlohmann::json{{"file", file}}.dump()));
  const auto* const table = static_cast<const tenon_tokenizer*>(made->descriptor().table);
  MadeTokenizer tokenizer;
  tokenizer.encode = [made, table](std::string_view text) {
    const tenon_text_piece piece{
        sizeof(tenon_text_piece), text.data(), text.size(), TENON_PIECE_TEXT, 0};
    std::vector<MadeToken> tokens;
    const auto sink = [](void* context,
                         const int32_t* ids,
                         const int64_t* begins,
                         const int64_t* ends,
                         size_t n) -> tenon_status* {
      auto& all = *static_cast<std::vector<MadeToken>*>(context);
      for (size_t i = 0; i < n; ++i) {
        all.push_back({ids[i], static_cast<uint64_t>(begins[i]), static_cast<uint64_t>(ends[i])});
      }
      return nullptr;
    };
    const tenon_encode_pieces_args args{sizeof args, &piece, 1, 0, 0, sink, &tokens};
    made->check(table->encode_pieces(made->self(), &args));
    return tokens;
  };
  tokenizer.decode = [made, table](const int32_t* ids, size_t n) {
    std::string text;
    const auto sink = [](void* context, const char* bytes, size_t size) -> tenon_status* {
      static_cast<std::string*>(context)->append(bytes, size);
      return nullptr;
    };
    const tenon_decode_args args{sizeof args, ids, n, sink, &text};
    made->check(table->decode(made->self(), &args));
    return text;
  };
  return tokenizer;
}

}  // namespace tenon
