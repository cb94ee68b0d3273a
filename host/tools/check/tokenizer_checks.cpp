// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/interface_table.hpp"
#include "host/plugin/tokenizer_check.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr std::size_t kRandomBytes = 10000;

// Texts of several languages, an empty one, and random letters.
std::vector<std::string> sample_texts(Subject& subject) {
  std::vector<std::string> texts = {"",
                                    "a",
                                    "The quick brown fox jumps over the lazy dog.",
                                    "na\xc3\xafve \xe2\x82\xac 12.50\n\ttab",
                                    "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xf0\x9f\x98\x80"};
  std::mt19937_64 generator = subject.generator();
  std::uniform_int_distribution<int> letters(' ', '~');
  std::string random;
  for (std::size_t i = 0; i < kRandomBytes; ++i) {
    random += static_cast<char>(letters(generator));
  }
  texts.push_back(std::move(random));
  return texts;
}

// A tokenizer as its callers see it.
class TokenizerTrial {
 public:
  explicit TokenizerTrial(ComponentInstance instance)
      : instance_(std::move(instance)),
        info_(describe_tokenizer(instance_)),
        table_(table_of<tenon_tokenizer>(instance_, TENON_TOKENIZER_ID)) {}

  const TokenizerInfo& info() const { return info_; }

  std::vector<int32_t> encode(std::string_view text) const {
    std::vector<int32_t> ids;
    const tenon_encode_args args{
        .struct_size = sizeof(args),
        .bytes = text.data(),
        .num_bytes = text.size(),
        .sink = [](void* context, const int32_t* given, size_t n) -> tenon_status* {
          auto& all = *static_cast<std::vector<int32_t>*>(context);
          all.insert(all.end(), given, given + n);
          return nullptr;
        },
        .context = &ids};
    instance_.call("encode", [&] { return table_->encode(instance_.self(), &args); });
    return ids;
  }

  std::string decode(const std::vector<int32_t>& ids) const {
    std::string text;
    const tenon_decode_args args{
        .struct_size = sizeof(args),
        .ids = ids.data(),
        .num_ids = ids.size(),
        .sink = [](void* context, const char* bytes, size_t n) -> tenon_status* {
          static_cast<std::string*>(context)->append(bytes, n);
          return nullptr;
        },
        .context = &text};
    instance_.call("decode", [&] { return table_->decode(instance_.self(), &args); });
    return text;
  }

 private:
  ComponentInstance instance_;
  TokenizerInfo info_;
  const tenon_tokenizer* table_;
};

using TokenizerBody =
    std::function<void(const TokenizerTrial& trial, const std::string& name, Findings& findings)>;

CheckResult for_each_tokenizer(Subject& subject, const TokenizerBody& body) {
  return subject.for_each_instance(
      "tokenizer",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        subject.note("describe, encode or decode of " + checked.name());
        const TokenizerTrial trial(std::move(instance));
        findings.add_examined();
        body(trial, checked.name(), findings);
      });
}

}  // namespace

CheckResult check_token_round_trip(Subject& subject) {
  return for_each_tokenizer(
      subject, [&](const TokenizerTrial& trial, const std::string& name, Findings& findings) {
        for (const std::string& text : sample_texts(subject)) {
          const std::string decoded = trial.decode(trial.encode(text));
          if (decoded != text) {
            const auto at = std::ranges::mismatch(decoded, text).in1 - decoded.begin();
            findings.add_problem(
                formatted("{} decodes {} encoded bytes to {} bytes that differ at "
                          "byte {}",
                          name,
                          text.size(),
                          decoded.size(),
                          at));
          }
        }
      });
}

CheckResult check_token_ids(Subject& subject) {
  return for_each_tokenizer(
      subject, [&](const TokenizerTrial& trial, const std::string& name, Findings& findings) {
        for (const std::string& text : sample_texts(subject)) {
          const std::vector<int32_t> ids = trial.encode(text);
          for (const int32_t id : ids) {
            if (id < 0 || id >= trial.info().vocab_size) {
              findings.add_problem(formatted("encode of {} gave the id {}, its vocab_size is {}",
                                             name,
                                             id,
                                             trial.info().vocab_size));
              return;
            }
          }
          if (trial.encode(text) != ids) {
            findings.add_problem(name + " encodes a text to other ids the second time");
            return;
          }
        }
      });
}

CheckResult check_foreign_ids(Subject& subject) {
  return for_each_tokenizer(
      subject, [&](const TokenizerTrial& trial, const std::string& name, Findings& findings) {
        constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
        for (const int64_t id : {int64_t{-1},
                                 std::min(trial.info().vocab_size, kLargest),
                                 kLargest,
                                 int64_t{std::numeric_limits<int32_t>::min()}}) {
          if (0 <= id && id < trial.info().vocab_size) {
            continue;
          }
          try {
            trial.decode({static_cast<int32_t>(id)});
            findings.add_problem(formatted(
                "{} decodes the id {}, its vocab_size is {}", name, id, trial.info().vocab_size));
          } catch (const Error&) {  // the right answer
          }
        }
      });
}

}  // namespace tenon
