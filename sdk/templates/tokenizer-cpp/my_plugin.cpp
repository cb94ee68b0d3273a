// SPDX-License-Identifier: Apache-2.0
//
// Bytes and frequent pieces of text: ids 0 to 255 are bytes, the following ids are the pieces of
// option `pieces`. At each position, the longest piece that matches is one token.
// Invariant: decode(encode(text)) is the text.
// Threads: an instance does not change after its constructor.
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace {

constexpr int32_t kBytes = 256;

class MyPlugin : public tenon::Tokenizer {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "bytes, and pieces of text from a list";

  struct Options {
    std::vector<std::string> pieces = {
        " the ", " a ", " in ", "ing", "ion", "th", "er", "on", "in"};
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("pieces", &Options::pieces)
        .non_empty()
        .max_items(1000000)
        .doc("texts of several bytes that become one token each");
  }

  explicit MyPlugin(const Options& options) : pieces_(options.pieces) {
    for (const std::string& piece : pieces_) {
      const auto id = static_cast<int32_t>(kBytes + ids_.size());
      if (piece.size() < 2 || !ids_.emplace(piece, id).second) {
        TENON_FAIL(TENON_INVALID,
                   "my_plugin.piece",
                   "pieces has ",
                   tenon::json_string(piece),
                   piece.size() < 2 ? ", a single byte" : " twice",
                   "; remove it");
      }
      longest_ = std::max(longest_, piece.size());
    }
  }

  void describe(tenon_tokenizer_info& info) const override {
    info.vocab_size = kBytes + static_cast<int64_t>(pieces_.size());
  }

  // Passes the ids in several calls, so that a large text needs no second copy.
  void encode(std::string_view bytes, const tenon::IdsSink& sink) const override {
    std::vector<int32_t> ids;
    for (size_t at = 0; at < bytes.size();) {
      size_t size = std::min(longest_, bytes.size() - at);
      int32_t id = static_cast<unsigned char>(bytes[at]);
      for (; size > 1; --size) {
        const auto found = ids_.find(bytes.substr(at, size));
        if (found != ids_.end()) {
          id = found->second;
          break;
        }
      }
      ids.push_back(id);
      at += size;
      if (ids.size() == kMost) {
        sink(ids.data(), ids.size());
        ids.clear();
      }
    }
    sink(ids.data(), ids.size());
  }

  void decode(const int32_t* ids, size_t n, const tenon::BytesSink& sink) const override {
    const auto vocab_size = static_cast<int32_t>(kBytes + pieces_.size());
    std::string bytes;
    for (size_t i = 0; i < n; ++i) {
      if (ids[i] < 0 || ids[i] >= vocab_size) {
        TENON_FAIL(TENON_INVALID,
                   "my_plugin.id",
                   "id ",
                   ids[i],
                   " at position ",
                   i,
                   " is out of range (expected 0 to ",
                   vocab_size - 1,
                   ")");
      }
      if (ids[i] < kBytes) {
        bytes += static_cast<char>(ids[i]);
      } else {
        bytes += pieces_[static_cast<size_t>(ids[i] - kBytes)];
      }
    }
    sink(bytes.data(), bytes.size());
  }

 private:
  static constexpr size_t kMost = 4096;  // ids per call

  std::vector<std::string> pieces_;
  std::unordered_map<std::string_view, int32_t> ids_;  // the keys are texts of `pieces_`
  size_t longest_ = 1;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
