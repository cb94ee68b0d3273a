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
    CHECK(tenon::text_of(chat_template->render(request)) == expected.at("text"));
    ++num_texts;
    request.find_answers = true;
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
