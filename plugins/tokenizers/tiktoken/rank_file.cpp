// SPDX-License-Identifier: Apache-2.0
#include "rank_file.hpp"

#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "../engine/json_node.hpp"

namespace tenon {
namespace {

constexpr int64_t kMostRanks = int64_t{1} << 24;

void add_token(RankFile& out, std::string bytes, const std::string& place) {
  if (bytes.empty() || out.tokens.get(bytes) != TokenMap::kNone) {
    TENON_FAIL(TENON_INVALID,
               "tiktoken.file",
               place,
               bytes.empty() ? " has a token without bytes" : " has the bytes of an earlier token");
  }
  out.tokens.set(bytes,
                 static_cast<int32_t>(out.first_id + static_cast<int64_t>(out.by_rank.size())));
  out.by_rank.push_back(std::move(bytes));
}

// Lines of "BASE64 RANK", in the order of ranks.
RankFile read_tiktoken(std::string_view text, const std::string& file) {
  RankFile out;
  size_t line_number = 0;
  while (!text.empty()) {
    const size_t line_end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, line_end);
    text.remove_prefix(std::min(line_end + 1, text.size()));
    ++line_number;
    if (!line.empty() && line.back() == '\r') {
      line.remove_suffix(1);
    }
    if (line.empty()) {
      continue;
    }
    const std::string place = file + ": line " + std::to_string(line_number);
    const size_t space = line.find(' ');
    std::optional<std::string> bytes;
    int64_t rank = -1;
    if (space != std::string_view::npos) {
      bytes = base64_bytes(line.substr(0, space));
      const char* end = line.data() + line.size();
      const auto parsed = std::from_chars(line.data() + space + 1, end, rank);
      rank = parsed.ec == std::errc() && parsed.ptr == end ? rank : -1;
    }
    if (!bytes || rank < 0) {
      TENON_FAIL(TENON_INVALID,
                 "tiktoken.file",
                 place,
                 " is no token (expected its bytes in base64, a space and its rank)");
    }
    if (rank != static_cast<int64_t>(out.by_rank.size())) {
      TENON_FAIL(TENON_INVALID,
                 "tiktoken.file",
                 place,
                 " has rank ",
                 rank,
                 " (expected ",
                 out.by_rank.size(),
                 "); sort the lines by rank, without gaps");
    }
    add_token(out, std::move(*bytes), place);
  }
  if (out.by_rank.empty()) {
    TENON_FAIL(TENON_INVALID, "tiktoken.file", file, " has no tokens");
  }
  return out;
}

// The special tokens of files that list none, by id.
constexpr std::array<std::string_view, 20> kTekkenSpecials = {"<unk>",
                                                              "<s>",
                                                              "</s>",
                                                              "[INST]",
                                                              "[/INST]",
                                                              "[AVAILABLE_TOOLS]",
                                                              "[/AVAILABLE_TOOLS]",
                                                              "[TOOL_RESULTS]",
                                                              "[/TOOL_RESULTS]",
                                                              "[TOOL_CALLS]",
                                                              "[IMG]",
                                                              "<pad>",
                                                              "[IMG_BREAK]",
                                                              "[IMG_END]",
                                                              "[PREFIX]",
                                                              "[MIDDLE]",
                                                              "[SUFFIX]",
                                                              "[SYSTEM_PROMPT]",
                                                              "[/SYSTEM_PROMPT]",
                                                              "[TOOL_CONTENT]"};

std::string name_of_special(const std::string& text) {
  return text == "<s>"     ? "bos_token"
         : text == "</s>"  ? "eos_token"
         : text == "<pad>" ? "pad_token"
         : text == "<unk>" ? "unk_token"
                           : "";
}

RankFile read_tekken(const std::string& text, const std::string& file) {
  const nlohmann::json json = parse_json(text, file, "tiktoken.file");
  const JsonNode root(json, file, "tiktoken.file");
  const JsonNode config = root.at("config");
  RankFile out;
  out.is_tekken = true;
  out.pattern = config.at("pattern").string();
  const int64_t num_specials = config.at("default_num_special_tokens").integer(0, int64_t{1} << 16);
  const int64_t vocab_size = config.at("default_vocab_size").integer(num_specials + 1, kMostRanks);
  out.first_id = num_specials;
  const JsonNode vocabulary = root.at("vocab");
  const auto size = static_cast<int64_t>(vocabulary.array_size());
  if (size < vocab_size - num_specials) {
    vocabulary.fail("has ",
                    size,
                    " tokens (expected at least ",
                    vocab_size - num_specials,
                    ", by \"default_vocab_size\")");
  }
  for (int64_t rank = 0; rank < vocab_size - num_specials; ++rank) {
    const JsonNode one = vocabulary.at(static_cast<size_t>(rank));
    one.at("rank").integer(rank, rank);
    const JsonNode base64 = one.at("token_bytes");
    std::optional<std::string> bytes = base64_bytes(base64.string());
    if (!bytes) {
      base64.fail("is not base64");
    }
    add_token(out, std::move(*bytes), one.name());
  }
  std::vector<std::string> specials(kTekkenSpecials.begin(), kTekkenSpecials.end());
  if (const auto listed = root.find("special_tokens")) {
    specials.clear();
    for (size_t i = 0; i < listed->array_size(); ++i) {
      const JsonNode one = listed->at(i);
      one.at("rank").integer(static_cast<int64_t>(i), static_cast<int64_t>(i));
      specials.push_back(one.at("token_str").string());
    }
  }
  if (static_cast<int64_t>(specials.size()) > num_specials) {
    root.fail("has ",
              specials.size(),
              " special tokens (expected at most ",
              num_specials,
              ", by \"default_num_special_tokens\")");
  }
  for (int64_t id = 0; id < num_specials; ++id) {
    const auto at = static_cast<size_t>(id);
    const std::string special =
        at < specials.size() ? specials[at] : "<SPECIAL_" + std::to_string(id) + ">";
    out.specials.push_back({name_of_special(special), special, id});
  }
  return out;
}

}  // namespace

RankFile read_rank_file(const std::string& text, const std::string& file) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{' ? read_tekken(text, file)
                                                          : read_tiktoken(text, file);
}

}  // namespace tenon
