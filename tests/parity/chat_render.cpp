// SPDX-License-Identifier: Apache-2.0
//
// chat_render: renders chats for chat_peer.py. Each line of the input is a request
// {"template", "messages", "tools", "variables", "add_generation_prompt", "find_answers"}; each
// line of the output is {"text", "answers": [[begin, end, message], ...]} in bytes, or {"error"}.
#include "host/chat/chat_template.hpp"
#include "host/error/error.hpp"

#include <iostream>
#include <map>
#include <memory>
#include <string>

int main() {
  using Json = nlohmann::ordered_json;
  std::map<std::string, std::unique_ptr<tenon::ChatTemplate>> compiled;
  std::string line;
  while (std::getline(std::cin, line)) {
    Json answer;
    try {
      const Json given = Json::parse(line);
      std::unique_ptr<tenon::ChatTemplate>& known = compiled[given.at("template")];
      if (known == nullptr) {
        known = std::make_unique<tenon::ChatTemplate>(given.at("template").get<std::string>());
      }
      tenon::ChatRequest request;
      request.messages = given.at("messages");
      request.tools = given.value("tools", Json());
      request.variables = given.value("variables", Json::object());
      request.add_generation_prompt = given.value("add_generation_prompt", false);
      request.find = given.value("find_answers", false) ? FindText::kAnswers : FindText::kNothing;
      std::string text;
      Json answers = Json::array();
      for (const tenon::ChatPiece& piece : known->render(request)) {
        if (piece.answer >= 0) {
          const bool continues = !answers.empty() && answers.back()[1] == text.size() &&
                                 answers.back()[2] == piece.answer;
          if (continues) {
            answers.back()[1] = text.size() + piece.text.size();
          } else {
            answers.push_back({text.size(), text.size() + piece.text.size(), piece.answer});
          }
        }
        text += piece.text;
      }
      answer = {{"text", text}, {"answers", answers}};
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << "\n" << std::flush;
  }
}
