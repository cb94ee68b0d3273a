// SPDX-License-Identifier: Apache-2.0
//
// The special tokens that a tokenizer describes to the host by name, and what receives its tokens.
#pragma once

#include <tenon/cpp/tokenizer.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "byte_bpe.hpp"

namespace tenon {

// Threads: after the last `add`, any thread may read.
class SpecialTokens {
 public:
  // Adds a token; a name that is known is skipped.
  void add(const std::string& name, const std::string& text, int64_t id) {
    for (const tenon_special_token& known : entries_) {
      if (name == known.name) {
        return;
      }
    }
    names_.push_back(name);
    const std::string& kept_name = names_.back();
    texts_.push_back(text);
    entries_.push_back({sizeof(tenon_special_token), kept_name.c_str(), texts_.back().c_str(), id});
  }

  // Sets the special tokens of `info`, and bos, eos and pad if they are among them.
  void describe(tenon_tokenizer_info& info) const {
    info.specials_ref = entries_.empty() ? nullptr : entries_.data();
    info.num_specials = entries_.size();
    for (const tenon_special_token& entry : entries_) {
      const std::string name = entry.name;
      if (name == "bos_token") {
        info.bos = entry.id;
      } else if (name == "eos_token") {
        info.eos = entry.id;
      } else if (name == "pad_token") {
        info.pad = entry.id;
      }
    }
  }

 private:
  std::deque<std::string> names_;  // a deque does not move its strings
  std::deque<std::string> texts_;
  std::vector<tenon_special_token> entries_;
};

// Passes ids to a sink of the host.
class IdsReceiver : public TokenReceiver {
 public:
  explicit IdsReceiver(const IdsSink& sink) : sink_(sink) {}
  void receive(const int32_t* ids, const ByteRange* /*ranges*/, size_t n) override {
    sink_(ids, n);
  }

 private:
  const IdsSink& sink_;
};

// Passes ids and ranges to a sink of the host. Begins never decrease.
class TokensReceiver : public TokenReceiver {
 public:
  explicit TokensReceiver(const TokensSink& sink) : sink_(sink) {}
  void receive(const int32_t* ids, const ByteRange* ranges, size_t n) override {
    begins_.resize(n);
    ends_.resize(n);
    for (size_t i = 0; i < n; ++i) {
      last_ = std::max(last_, static_cast<int64_t>(ranges[i].begin));
      begins_[i] = last_;
      ends_[i] = std::max(last_, static_cast<int64_t>(ranges[i].end));
    }
    sink_(ids, begins_.data(), ends_.data(), n);
  }

 private:
  const TokensSink& sink_;
  int64_t last_ = 0;
  std::vector<int64_t> begins_;
  std::vector<int64_t> ends_;
};

// Joins pieces to one text, and finds the parts of it that are templates.
struct JoinedPieces {
  std::string text;
  std::vector<std::pair<size_t, size_t>> templates;  // [begin, end), not touching

  explicit JoinedPieces(const std::vector<TextPiece>& pieces) {
    for (const TextPiece& piece : pieces) {
      const size_t begin = text.size();
      text += piece.bytes;
      if (!piece.is_template || piece.bytes.empty()) {
        continue;
      }
      if (!templates.empty() && templates.back().second == begin) {
        templates.back().second = text.size();
      } else {
        templates.emplace_back(begin, text.size());
      }
    }
  }

  // Whether all of [begin, end) is of templates.
  bool is_template(size_t begin, size_t end) const { return is_inside(templates, begin, end); }

  static bool is_inside(const std::vector<std::pair<size_t, size_t>>& ranges,
                        size_t begin,
                        size_t end) {
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), begin, [](size_t at, const auto& range) {
          return at < range.first;
        });
    return after != ranges.begin() && end <= std::prev(after)->second;
  }
};

}  // namespace tenon
