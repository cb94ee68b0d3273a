// SPDX-License-Identifier: Apache-2.0
#include "host/train/generate/text_generator.hpp"

#include "host/error/error.hpp"
#include "host/tensor/stop_flag.hpp"

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/host/model/test_model.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/values_group.hpp"

namespace tenon {
namespace {

constexpr int64_t kEnd = 256;  // the special token <e>

// Writes the alphabet: after each byte, the next one; after 'z', the end of the text.
at::Tensor alphabet_logits(const at::Tensor& ids_BT) {
  const at::Tensor next = at::where(ids_BT == 'z', kEnd, ids_BT + 1);
  return at::one_hot(next, kEnd + 1).to(at::kFloat);
}

// Would rather repeat a byte, with twice the logit.
at::Tensor stuttering_logits(const at::Tensor& ids_BT) {
  return alphabet_logits(ids_BT) + at::one_hot(ids_BT, kEnd + 1).to(at::kFloat) * 2;
}

class Alphabet {
 public:
  explicit Alphabet(const std::string& type = "special_bytes",
                    const std::string& options = R"({"specials": ["<e>"], "eos": "<e>"})")
      : instance_(make_component("tokenizer", type, options)) {
    model_.inputs = {"input_ids"};
    model_.num_values = 2;
    model_.blocks = {{{0}, {1}, {}, 0, [this](const Tensors& x, const Tensors&, auto*) {
                        if (is_stuttering) {
                          return Tensors{stuttering_logits(x[0])};
                        }
                        return Tensors{is_broken ? alphabet_logits(x[0]) * kNan
                                                 : alphabet_logits(x[0])};
                      }}};
    proxy_.emplace(made_instance("model", TENON_MODEL_ID, model_.table(), &model_));
    graph_ = describe_model(*proxy_);
    graph_.values[1].name = "logits";
    store_.emplace(graph_, ParameterLayout{at::kFloat, at::kCPU, [](uint32_t) { return 0U; }});
  }

  TextGenerator generator(Group* ranks = nullptr) {
    return TextGenerator({.model = *proxy_,
                          .store = *store_,
                          .exec = exec_,
                          .tokenizer = tokenizer_,
                          .ends = {kEnd},
                          .ranks = ranks});
  }
  struct Made {
    std::string text;
    GeneratedText about;
  };
  Made write(const std::string& prompt,
             int64_t max_tokens,
             Group* ranks = nullptr,
             const Sampling& sampling = Sampling()) {
    const TextGenerator made = generator(ranks);
    Made result;
    result.about =
        made.generate(made.prompt_ids(prompt), sampling, max_tokens, [&](const std::string& piece) {
          result.text += piece;
        });
    return result;
  }
  int num_forwards() const { return model_.num_forwards; }

  bool is_broken = false;
  bool is_stuttering = false;

 private:
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

  TestModel model_;
  std::optional<ModelProxy> proxy_;
  ModelGraph graph_;
  std::optional<ParameterStore> store_;
  ExecBase exec_;
  ComponentInstance instance_;
  TokenizerProxy tokenizer_{instance_};
};

// Rank 1 of two. Rank 0 chooses these numbers.
class SecondRank final : public ValuesGroup {
 public:
  explicit SecondRank(std::vector<int64_t> chosen) : chosen_(std::move(chosen)) {}
  uint32_t rank() const override { return 1; }
  uint32_t size() const override { return 2; }
  std::unique_ptr<Gathering> start_gather(std::span<const std::byte> mine,
                                          std::string_view /*what*/) override {
    auto both = std::make_unique<Both>();
    REQUIRE(mine.size() == sizeof(int64_t));
    REQUIRE(num_done_ < chosen_.size());
    both->bytes.resize(2 * sizeof(int64_t));
    std::memcpy(both->bytes.data(), &chosen_[num_done_++], sizeof(int64_t));
    std::memcpy(both->bytes.data() + sizeof(int64_t), mine.data(), sizeof(int64_t));
    return both;
  }
  size_t num_done() const { return num_done_; }

 private:
  struct Both final : Gathering {
    std::span<const std::byte> wait() override { return bytes; }
    std::vector<std::byte> bytes;
  };
  std::vector<int64_t> chosen_;
  size_t num_done_ = 0;
};

}  // namespace

TEST_CASE("a text follows the model until its end or its limit", "[train]") {
  Alphabet alphabet;
  const auto limited = alphabet.write("ab", 4);
  CHECK(limited.text == "cdef");
  CHECK(limited.about.end == TextEnd::kMaxTokens);
  CHECK(limited.about.num_prompt_tokens == 2);
  CHECK(limited.about.num_tokens == 4);
  CHECK(alphabet.num_forwards() == 4);
  const auto ended = alphabet.write("wx", 100);
  CHECK(ended.text == "yz");
  CHECK(ended.about.end == TextEnd::kEos);
  CHECK(ended.about.num_tokens == 2);
  CHECK_THAT(ended.about.text(), contains_text("2 tokens") && contains_text("the text ended"));
}

TEST_CASE("an answer begins as a text of its own", "[train]") {
  // Decodes as SentencePiece: words begin with a space, except at the start of a text.
  nlohmann::json vocabulary = {{"<e>", kEnd}};
  for (int id = 0; id < kEnd; ++id) {
    vocabulary["\xe2\x96\x81" + std::to_string(id)] = id;
  }
  const nlohmann::json decoder = {
      {"type", "Sequence"},
      {"decoders",
       {{{"type", "Replace"}, {"pattern", {{"String", "\xe2\x96\x81"}}}, {"content", " "}},
        {{"type", "Fuse"}},
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  const ScratchFolder folder;
  const std::string file =
      folder
          .write(
              "tokenizer.json",
              nlohmann::json{
                  {"version", "1.0"},
                  {"model", {{"type", "WordLevel"}, {"unk_token", "<e>"}, {"vocab", vocabulary}}},
                  {"decoder", decoder}}
                  .dump())
          .string();
  Alphabet alphabet("hf", nlohmann::json{{"file", file}}.dump());
  const auto written = [&](bool is_answer) {
    std::string text;
    alphabet.generator().generate(
        {97}, {.is_answer = is_answer}, 2, [&](const std::string& piece) { text += piece; });
    return text;
  };
  CHECK(written(false) == " 98 99");
  CHECK(written(true) == "98 99");
}

TEST_CASE("a text ends before a stop string, and at each end token", "[train]") {
  Alphabet alphabet;
  const auto stopped = alphabet.write("ab", 40, nullptr, {.stop = {"yz", "gh"}});
  CHECK(stopped.text == "cdef");
  CHECK(stopped.about.end == TextEnd::kEos);
  TextGenerator generator = alphabet.generator();
  generator.end_at({'f'});
  std::string text;
  generator.generate(
      generator.prompt_ids("ab"), Sampling(), 40, [&](const std::string& piece) { text += piece; });
  CHECK(text == "cde");
}

TEST_CASE("a repetition penalty divides the logits of tokens that occurred", "[train]") {
  Alphabet alphabet;
  alphabet.is_stuttering = true;
  CHECK(alphabet.write("ab", 3).text == "bbb");
  CHECK(alphabet.write("ab", 3, nullptr, {.repetition_penalty = 1.9}).text == "bbb");
  CHECK(alphabet.write("ab", 3, nullptr, {.repetition_penalty = 2.1}).text == "cde");
}

TEST_CASE("a check runs no block, and an empty prompt starts with the end of a text", "[train]") {
  Alphabet alphabet;
  const TextGenerator generator = alphabet.generator();
  generator.check(generator.prompt_ids("ab"));
  CHECK(alphabet.num_forwards() == 0);
  CHECK(generator.prompt_ids("") == std::vector<int32_t>{kEnd});
}

TEST_CASE("a stop and non-finite logits end a text", "[train]") {
  Alphabet alphabet;
  set_stop_requested(true);
  const auto stopped = alphabet.write("ab", 4);
  set_stop_requested(false);
  CHECK(stopped.text.empty());
  CHECK(stopped.about.end == TextEnd::kStopped);
  alphabet.is_broken = true;
  CHECK(alphabet.write("ab", 4).about.end == TextEnd::kNonFinite);
}

TEST_CASE("all ranks take the tokens that rank 0 chooses", "[train]") {
  Alphabet alphabet;
  SecondRank rank({'x', 'q', kEnd});
  const auto made = alphabet.write("ab", 9, &rank);
  CHECK(made.text == "xq");
  CHECK(made.about.end == TextEnd::kEos);
  CHECK(rank.num_done() == 3);
  CHECK(alphabet.num_forwards() == 3);
}

}  // namespace tenon
