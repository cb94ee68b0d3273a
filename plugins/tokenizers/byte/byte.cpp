// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer without a vocabulary: each byte is a token, and its value is the id.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kPiece = 4096;  // ids or bytes per call

class ByteTokenizer : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "byte";
  static constexpr const char* kSummary = "each byte is a token: 256 ids, no vocabulary";

  void describe(tenon_tokenizer_info& info) const override {
    info.vocab_size = 256;
    info.bytes_per_token = 1;
  }

  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    std::array<int32_t, kPiece> ids;
    for (size_t begin = 0; begin < bytes.size(); begin += kPiece) {
      const std::string_view piece = bytes.substr(begin, kPiece);
      std::transform(piece.begin(), piece.end(), ids.begin(), [](char c) {
        return static_cast<int32_t>(static_cast<unsigned char>(c));
      });
      sink(ids.data(), piece.size());
    }
  }

  // There are no special tokens, so kinds of pieces make no difference.
  void encode_pieces(const std::vector<tenon::TextPiece>& pieces,
                     uint32_t /*flags*/,
                     const tenon::TokensSink& sink) const override {
    std::array<int32_t, kPiece> ids;
    std::array<int64_t, kPiece + 1> offsets;  // token i has the bytes [offsets[i], offsets[i + 1])
    int64_t at = 0;
    for (const tenon::TextPiece& text : pieces) {
      for (size_t begin = 0; begin < text.bytes.size(); begin += kPiece) {
        const std::string_view piece = text.bytes.substr(begin, kPiece);
        for (size_t i = 0; i < piece.size(); ++i) {
          ids[i] = static_cast<int32_t>(static_cast<unsigned char>(piece[i]));
          offsets[i] = at++;
        }
        offsets[piece.size()] = at;
        sink(ids.data(), offsets.data(), offsets.data() + 1, piece.size());
      }
    }
  }

  void decode(const int32_t* ids, size_t n, const tenon::BytesSink& sink) const override {
    std::array<char, kPiece> bytes;
    for (size_t begin = 0; begin < n; begin += kPiece) {
      const size_t size = std::min(kPiece, n - begin);
      for (size_t i = 0; i < size; ++i) {
        const int32_t id = ids[begin + i];
        TENON_CHECK(0 <= id && id < 256,
                    "id ",
                    id,
                    " at position ",
                    begin + i,
                    " is out of range (expected 0 to 255)");
        bytes[i] = static_cast<char>(id);
      }
      sink(bytes.data(), size);
    }
  }
};

}  // namespace

TENON_PLUGIN(ByteTokenizer)
