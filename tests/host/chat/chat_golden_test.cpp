// SPDX-License-Identifier: Apache-2.0
//
// Text and answers of chats, against transformers: tests/parity/chat_golden.py wrote the numbers.
#include "host/chat/chat_template.hpp"
#include "host/error/error.hpp"

#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "tests/host/chat/rendered.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace {

using Json = nlohmann::ordered_json;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Byte ranges of answers. Neighbors count as one, as in a mask.
Json ranges_of(const std::vector<tenon::ChatPiece>& pieces) {
  Json ranges = Json::array();
  size_t at = 0;
  for (const tenon::ChatPiece& piece : pieces) {
    const size_t end = at + piece.text.size();
    if (piece.answer >= 0) {
      if (!ranges.empty() && ranges.back()[1] == at) {
        ranges.back()[1] = end;
      } else {
        ranges.push_back({at, end});
      }
    }
    at = end;
  }
  return ranges;
}

// A chat of tagged_golden.json.
tenon::ChatRequest request_of(const Json& golden, const Json& expected) {
  tenon::ChatRequest request;
  request.messages = golden.at("chats").at(expected.at("chat").get<size_t>());
  request.tools = golden.at("tools");
  request.variables = golden.at("specials");
  return request;
}

}  // namespace

TEST_CASE("chat templates give the text and the answers that transformers gives", "[chat]") {
  const std::filesystem::path tests = tenon::source_dir() / "tests";
  const Json golden = Json::parse(content_of(tests / "parity/chat_golden.json"));
  std::map<std::string, std::unique_ptr<tenon::ChatTemplate>> templates;
  size_t num_texts = 0;
  size_t num_answers = 0;
  for (const Json& expected : golden.at("golden")) {
    const auto file = expected.at("template").get<std::string>();
    const auto name = expected.at("case").get<std::string>();
    CAPTURE(file, name);
    std::unique_ptr<tenon::ChatTemplate>& chat_template = templates[file];
    if (chat_template == nullptr) {
      chat_template = std::make_unique<tenon::ChatTemplate>(
          content_of(tests / "support/chat_templates" / file));
    }
    const Json& chat = golden.at("chats").at(name);
    tenon::ChatRequest request;
    request.messages = chat.at("messages");
    request.tools = chat.value("tools", Json());
    request.variables = golden.at("specials");
    request.add_generation_prompt = chat.value("add_generation_prompt", false);
    if (expected.contains("error")) {
      CHECK_THROWS_AS(chat_template->render(request), tenon::Error);
      continue;
    }
    if (expected.at("text").get_ref<const std::string&>().find("[{'type'") != std::string::npos) {
      // A template without parts: a list of Python is no text to train on.
      CHECK_THROWS_WITH(chat_template->render(request), tenon::contains_text("is a list of parts"));
      continue;
    }
    CHECK(tenon::text_of(chat_template->render(request)) == expected.at("text"));
    ++num_texts;
    request.find = tenon::FindText::kAnswers;
    if (expected.at("answers").is_null()) {
      CHECK_THROWS_AS(chat_template->render(request), tenon::Error);
      continue;
    }
    const std::vector<tenon::ChatPiece> pieces = chat_template->render(request);
    CHECK(tenon::text_of(pieces) == expected.at("text"));
    CHECK(ranges_of(pieces) == expected.at("answers"));
    ++num_answers;
  }
  CHECK(templates.size() == 6);
  CHECK(num_texts > 50);
  CHECK(num_answers > 50);
}

TEST_CASE("tagged templates give the text and the mask of their families", "[chat]") {
  const std::filesystem::path root = tenon::source_dir();
  const Json golden = Json::parse(content_of(root / "tests/parity/tagged_golden.json"));
  const std::filesystem::path folder = root / "host/chat/templates";
  for (const Json& expected : golden.at("golden")) {
    const auto family = expected.at("family").get<std::string>();
    CAPTURE(family, expected.at("chat").dump());
    const tenon::ChatTemplate tagged(content_of(folder / (family + ".jinja")));
    tenon::ChatRequest request = request_of(golden, expected);
    request.find = tenon::FindText::kAnswers;
    const std::vector<tenon::ChatPiece> pieces = tagged.render(request);
    if (!expected.at("text").is_null()) {
      CHECK(tenon::text_of(pieces) == expected.at("text"));
    }
    CHECK(ranges_of(pieces) == expected.at("tagged"));
  }
}

TEST_CASE("the own templates of families give the last answer of chats of several turns",
          "[chat]") {
  const Json golden =
      Json::parse(content_of(tenon::source_dir() / "tests/parity/tagged_golden.json"));
  size_t num_found = 0;
  for (const Json& expected : golden.at("golden")) {
    const auto family = expected.at("family").get<std::string>();
    if (!golden.at("own").contains(family) || expected.at("last").is_null()) {
      continue;
    }
    CAPTURE(family, expected.at("chat").dump());
    const tenon::ChatTemplate own(golden.at("own").at(family).get<std::string>());
    tenon::ChatRequest request = request_of(golden, expected);
    for (size_t i = 0; i + 1 < request.messages.size(); ++i) {
      request.messages[i]["train"] = false;
    }
    request.find = tenon::FindText::kAnswers;
    const std::vector<tenon::ChatPiece> pieces = own.render(request);
    CHECK(tenon::text_of(pieces) == expected.at("text"));
    CHECK(ranges_of(pieces) == Json::array({expected.at("last")}));
    ++num_found;
  }
  CHECK(num_found > 20);
}
