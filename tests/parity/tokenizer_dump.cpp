// SPDX-License-Identifier: Apache-2.0
//
// tokenizer_dump hf TOKENIZER_JSON | tiktoken FILE PATTERN | sentencepiece MODEL: encodes texts
// from standard input and prints what tokenizers_parity.py compares. Texts and results are binary,
// little-endian:
//
//   text     u32 size, bytes; all of it counts as template, so special tokens are recognized, but
//            not by sentencepiece, which has none in a text
//   result   u32 tokens (or 0xFFFFFFFF for an error, then the message as a text),
//            i32 id, u32 begin, u32 end of each; the decoded text as a text
//
// tokenizer_dump speed ... FILE: encodes the file five times on one thread, ids alone, and prints
// the median in MB per second of CPU time.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugins/tokenizers/hf/hf_tokenizer.hpp"
#include "plugins/tokenizers/tiktoken/rank_tokenizer.hpp"
#include "tests/plugins/made_tokenizer.hpp"

namespace {

using Ranges = std::vector<std::pair<size_t, size_t>>;

class Collected : public tenon::TokenReceiver {
 public:
  void receive(const int32_t* new_ids, const tenon::ByteRange* new_ranges, size_t n) override {
    ids.insert(ids.end(), new_ids, new_ids + n);
    if (new_ranges != nullptr) {
      ranges.insert(ranges.end(), new_ranges, new_ranges + n);
    }
  }
  std::vector<int32_t> ids;
  std::vector<tenon::ByteRange> ranges;
};

struct Tested {
  std::function<void(std::string_view, const Ranges&, tenon::WithRanges, tenon::TokenReceiver&)>
      encode;
  std::function<std::string(const int32_t*, size_t)> decode;
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw std::runtime_error("cannot read " + path);
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

Tested sentencepiece(const std::string& path) {
  const tenon::MadeTokenizer made("sentencepiece", {{"file", path}});
  Tested out;
  out.encode = [=](std::string_view text, const Ranges&, auto, tenon::TokenReceiver& receiver) {
    const tenon::Encoded found = made.encode_pieces({{std::string(text)}});
    std::vector<tenon::ByteRange> ranges;
    for (size_t i = 0; i < found.ids.size(); ++i) {
      ranges.push_back(
          {static_cast<uint64_t>(found.begins[i]), static_cast<uint64_t>(found.ends[i])});
    }
    receiver.receive(found.ids.data(), ranges.data(), ranges.size());
  };
  out.decode = [=](const int32_t* ids, size_t n) { return made.decode({ids, ids + n}); };
  return out;
}

Tested make(const std::string& kind, const std::string& path, const std::string& pattern) {
  if (kind == "sentencepiece") {
    return sentencepiece(path);
  }
  const std::string text = read_file(path);
  Tested out;
  if (kind == "hf") {
    auto tokenizer = std::make_shared<tenon::HfTokenizer>(text, path);
    out.encode = [=](auto t, const auto& ranges, auto with, auto& receiver) {
      tokenizer->encode(t, ranges, tenon::Around::kNo, with, receiver);
    };
    out.decode = [=](auto ids, auto n) { return tokenizer->decode(ids, n); };
    return out;
  }
  tenon::RankFile file = tenon::read_rank_file(text, path);
  const std::string regex = pattern == "own" ? file.pattern
                            : tenon::named_pattern(pattern).empty()
                                ? pattern
                                : std::string(tenon::named_pattern(pattern));
  std::vector<tenon::RankedToken> specials = file.specials;
  auto tokenizer = std::make_shared<tenon::RankTokenizer>(std::move(file), regex, specials);
  out.encode = [=](auto t, const auto& ranges, auto with, auto& receiver) {
    tokenizer->encode(t, ranges, with, receiver);
  };
  out.decode = [=](auto ids, auto n) { return tokenizer->decode(ids, n); };
  return out;
}

void put(uint32_t value) {
  std::fwrite(&value, 4, 1, stdout);
}
void put(const std::string& text) {
  put(static_cast<uint32_t>(text.size()));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void dump(const Tested& tested) {
  uint32_t size = 0;
  std::string text;
  while (std::fread(&size, 4, 1, stdin) == 1) {
    text.resize(size);
    if (std::fread(text.data(), 1, size, stdin) != size) {
      throw std::runtime_error("the last text is cut off");
    }
    try {
      Collected out;
      tested.encode(text, {{0, text.size()}}, tenon::WithRanges::kYes, out);
      const std::string decoded = tested.decode(out.ids.data(), out.ids.size());
      put(static_cast<uint32_t>(out.ids.size()));
      for (size_t i = 0; i < out.ids.size(); ++i) {
        put(static_cast<uint32_t>(out.ids[i]));
        put(static_cast<uint32_t>(out.ranges[i].begin));
        put(static_cast<uint32_t>(out.ranges[i].end));
      }
      put(decoded);
    } catch (const std::exception& e) {
      put(~0u);
      put(std::string(e.what()));
    }
  }
}

void measure(const Tested& tested, const std::string& text) {
  std::vector<double> seconds;
  size_t num_tokens = 0;
  const auto now = [] {  // CPU time of this thread, since other programs may run
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  Collected out;
  for (int round = 0; round < 5; ++round) {
    out.ids.clear();
    const double start = now();
    tested.encode(text, {}, tenon::WithRanges::kNo, out);
    seconds.push_back(now() - start);
    num_tokens = out.ids.size();
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf("%.1f MB/s, first %.1f, %zu tokens\n",
              static_cast<double>(text.size()) / 1e6 / seconds[2],
              static_cast<double>(text.size()) / 1e6 / seconds[4],
              num_tokens);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool is_speed = !words.empty() && words[0] == "speed";
    const size_t at = is_speed ? 1 : 0;
    if (words.size() < at + 2 || (words[at] == "tiktoken" && words.size() < at + 3)) {
      std::cerr << "usage: tokenizer_dump [speed] hf FILE | tiktoken FILE PATTERN | "
                   "sentencepiece FILE [TEXT]\n";
      return 2;
    }
    const bool has_pattern = words[at] == "tiktoken";
    const Tested tested = make(words[at], words[at + 1], has_pattern ? words[at + 2] : "");
    if (is_speed) {
      measure(tested, read_file(words.back()));
    } else {
      dump(tested);
    }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << "tokenizer_dump: " << e.what() << "\n";
    return 1;
  }
}
