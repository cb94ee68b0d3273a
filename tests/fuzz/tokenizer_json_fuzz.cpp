// SPDX-License-Identifier: Apache-2.0
//
// Files tokenizer.json that are nearly right are read or refused, and what was read encodes and
// decodes. A case is a line of JSON, the file, and a text.
#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <set>

#include "plugins/tokenizers/hf/hf_tokenizer.hpp"
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

using nlohmann::json;

struct Corpus {
  std::vector<std::string> files;
  std::vector<std::string> texts;
};

const Corpus& corpus() {
  static const Corpus read = [] {
    const json golden = json::parse(
        read_corpus_file((source_dir() / "tests/parity/tokenizers_golden.json").string()));
    Corpus found;
    for (const json& one : golden.at("cases")) {
      json tokenizer = one.at("tokenizer");
      if (tokenizer.at("model").is_string()) {
        tokenizer["model"] = golden.at("models").at(tokenizer.at("model").get<std::string>());
      }
      found.files.push_back(tokenizer.dump());
      for (const json& text : one.at("texts")) {
        found.texts.push_back(text.get<std::string>());
      }
    }
    std::ranges::sort(found.texts);
    found.texts.erase(std::unique(found.texts.begin(), found.texts.end()), found.texts.end());
    return found;
  }();
  return read;
}

std::string make_tokenizer(Mutator& mutator) {
  static const JsonCases cases(corpus().files);
  static const std::vector<std::string> words = {
      "<s>", "</s>", "<|im_end|>", " ", "##ing", "\xc2\x85", "\xe2\x96\x81", "\xef\xbf\xbd"};
  std::string file = mutator.one_in(4) ? mutator.pick(corpus().files) : cases.make(mutator);
  std::ranges::replace(file, '\n', ' ');
  std::string text = mutator.pick(corpus().texts);
  if (mutator.one_in(2)) {
    text = mutator.mutated(std::move(text), words, corpus().texts);
  }
  return file + "\n" + text;
}

// Checks tokens as they come.
class CheckedTokens : public TokenReceiver {
 public:
  explicit CheckedTokens(size_t text_size) : text_size_(text_size) {}
  void receive(const int32_t* ids, const ByteRange* ranges, size_t n) override {
    ids_.insert(ids_.end(), ids, ids + n);
    for (size_t i = 0; ranges != nullptr && i < n; ++i) {
      if (ranges[i].begin > ranges[i].end || ranges[i].end > text_size_) {
        throw FuzzFinding("a token stands for bytes outside of the text");
      }
    }
  }
  const std::vector<int32_t>& ids() const { return ids_; }

 private:
  size_t text_size_;
  std::vector<int32_t> ids_;
};

std::vector<int32_t> encode(const HfTokenizer& tokenizer,
                            const std::string& text,
                            const TemplateRanges& templates,
                            Around around,
                            WithRanges with_ranges) {
  CheckedTokens tokens(text.size());
  tokenizer.encode(text, templates, around, with_ranges, tokens);
  return tokens.ids();
}

std::string judge_tokenizer(const std::string& input) {
  static const std::set<std::string> known = {"hf.file",
                                              "hf.pattern",
                                              "hf.id",
                                              "hf.utf8",
                                              "hf.unencodable",
                                              "hf.text_too_long",
                                              "tokenizer.regex"};
  const size_t end = std::min(input.find('\n'), input.size());
  const std::string text = end < input.size() ? input.substr(end + 1) : "";
  try {
    const HfTokenizer tokenizer(input.substr(0, end), "tokenizer.json");
    const std::vector<int32_t> ids = encode(tokenizer, text, {}, Around::kNo, WithRanges::kYes);
    if (ids != encode(tokenizer, text, {}, Around::kNo, WithRanges::kNo)) {
      throw FuzzFinding("tokens differ with and without their ranges");
    }
    for (const int32_t id : ids) {
      if (id < 0) {
        throw FuzzFinding("a token has a negative id");
      }
    }
    (void)tokenizer.decode(ids.data(), ids.size());
    const TemplateRanges whole = text.empty() ? TemplateRanges() : TemplateRanges{{0, text.size()}};
    (void)encode(tokenizer, text, whole, Around::kYes, WithRanges::kYes);
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (known.count(error.id()) == 0 || message.empty()) {
      throw FuzzFinding(std::string(error.id()) +
                        " is not an error of this reader: " + std::string(message));
    }
    return error.id();
  }
  return kFuzzAccepted;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(argc,
                         argv,
                         {.name = "tokenizer_json_fuzz",
                          .make = tenon::make_tokenizer,
                          .judge = tenon::judge_tokenizer,
                          .least_accepted = 0.1});
}
