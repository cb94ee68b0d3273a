// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer with special tokens and a chat template, small enough to check by hand: each byte is
// a token, and the special tokens that its options list have the ids from 256 on.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct SpecialBytesOptions {
  std::vector<std::string> specials;
  std::string bos;
  std::string eos;
  std::string chat_template;
};

class SpecialBytes : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "special_bytes";
  static constexpr const char* kSummary = "bytes and special tokens";
  using Options = SpecialBytesOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("specials", &Options::specials).doc("texts of the special tokens");
    binder.field("bos", &Options::bos).doc("the one that begins a text");
    binder.field("eos", &Options::eos).doc("the one that ends a text");
    binder.field("chat_template", &Options::chat_template).doc("the template; empty: none");
  }
  explicit SpecialBytes(Options options) : options_(std::move(options)) {
    add("bos_token", options_.bos);
    add("eos_token", options_.eos);
  }

  void describe(tenon_tokenizer_info& info) const override {
    info.vocab_size = 256 + static_cast<int64_t>(options_.specials.size());
    info.bos = id_of(options_.bos);
    info.eos = id_of(options_.eos);
    info.chat_template_ref =
        options_.chat_template.empty() ? nullptr : options_.chat_template.c_str();
    info.specials_ref = named_.data();
    info.num_specials = named_.size();
  }

  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    std::vector<int32_t> ids;
    for (const char c : bytes) {
      ids.push_back(static_cast<unsigned char>(c));
    }
    sink(ids.data(), ids.size());
  }

  void encode_pieces(const std::vector<tenon::TextPiece>& pieces,
                     uint32_t flags,
                     const tenon::TokensSink& sink) const override {
    std::string text;
    std::vector<bool> is_template;
    for (const tenon::TextPiece& piece : pieces) {
      text += piece.bytes;
      is_template.resize(text.size(), piece.is_template);
    }
    std::vector<int32_t> ids;
    std::vector<int64_t> begins;
    std::vector<int64_t> ends;
    const auto emit = [&](int64_t id, size_t begin, size_t end) {
      ids.push_back(static_cast<int32_t>(id));
      begins.push_back(static_cast<int64_t>(begin));
      ends.push_back(static_cast<int64_t>(end));
    };
    const bool is_around = (flags & TENON_ENCODE_AROUND) != 0;
    if (is_around && !options_.bos.empty()) {
      emit(id_of(options_.bos), 0, 0);
    }
    for (size_t at = 0; at < text.size();) {
      const std::string* found = nullptr;
      for (const std::string& special : options_.specials) {
        const bool is_here =
            text.compare(at, special.size(), special) == 0 &&
            std::all_of(is_template.begin() + static_cast<ptrdiff_t>(at),
                        is_template.begin() + static_cast<ptrdiff_t>(at + special.size()),
                        [](bool is) { return is; });
        if (is_here && (found == nullptr || special.size() > found->size())) {
          found = &special;
        }
      }
      const size_t size = found == nullptr ? 1 : found->size();
      emit(found == nullptr ? static_cast<unsigned char>(text[at]) : id_of(*found), at, at + size);
      at += size;
    }
    sink(ids.data(), begins.data(), ends.data(), ids.size());
  }

  void decode(const int32_t* ids, size_t n, const tenon::BytesSink& sink) const override {
    std::string text;
    for (size_t i = 0; i < n; ++i) {
      text += ids[i] < 256 ? std::string(1, static_cast<char>(ids[i]))
                           : options_.specials.at(static_cast<size_t>(ids[i] - 256));
    }
    sink(text.data(), text.size());
  }

 private:
  int64_t id_of(const std::string& special) const {
    const auto found = std::find(options_.specials.begin(), options_.specials.end(), special);
    return found == options_.specials.end() ? -1 : 256 + (found - options_.specials.begin());
  }
  void add(const char* name, const std::string& text) {
    if (id_of(text) >= 0) {
      named_.push_back({sizeof(tenon_special_token), name, text.c_str(), id_of(text)});
    }
  }

  Options options_;
  std::vector<tenon_special_token> named_;
};

}  // namespace

TENON_PLUGIN(SpecialBytes)
