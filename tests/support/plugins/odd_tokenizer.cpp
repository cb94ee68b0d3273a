// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer unlike `byte`, to test what uses one: words (a token is a run of bytes up to and with
// the next space, its id the number of bytes), or pieces of k bytes (the id is their sum).
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

struct OddOptions {
  uint32_t bytes_per_token = 0;
};

class OddTokenizer : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "odd_tokenizer";
  static constexpr const char* kSummary = "for tests: words, or pieces of k bytes";
  using Options = OddOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("bytes_per_token", &Options::bytes_per_token)
        .min(0)
        .max(8)
        .doc("k; 0: a token is a word");
  }

  explicit OddTokenizer(const Options& options) : bytes_per_token_(options.bytes_per_token) {}

  void describe(tenon_tokenizer_info& info) const override {
    info.vocab_size = 8 * 256;
    info.bytes_per_token = bytes_per_token_;
  }

  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    while (!bytes.empty()) {
      size_t size = bytes_per_token_;
      int32_t id = 0;
      if (bytes_per_token_ == 0) {
        const size_t space = bytes.find(' ');
        size = space == std::string_view::npos ? bytes.size() : space + 1;
        id = static_cast<int32_t>(size);
      } else {
        size = std::min<size_t>(size, bytes.size());
        for (const char c : bytes.substr(0, size)) {
          id += static_cast<unsigned char>(c);
        }
      }
      sink(&id, 1);
      bytes.remove_prefix(size);
    }
  }

  void decode(const int32_t*, size_t, const tenon::BytesSink&) const override {
    TENON_FAIL(TENON_UNSUPPORTED, "odd_tokenizer.decode", "its ids do not say what the text was");
  }

 private:
  uint32_t bytes_per_token_;
};

}  // namespace

TENON_PLUGIN(OddTokenizer)
