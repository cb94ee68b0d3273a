// SPDX-License-Identifier: Apache-2.0
#include "host/trust/vet_answer.hpp"

#include <nlohmann/json.hpp>

namespace tenon {

std::string vet_answer_text(const Verdict& verdict) {
  const nlohmann::json answer = {
      {"id", verdict.id}, {"message", verdict.message}, {"hash", verdict.hash}};
  return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Verdict> verdict_of_answer(const std::string& answer) {
  const auto json = nlohmann::json::parse(answer, nullptr, /*allow_exceptions=*/false);
  const auto text_of = [&json](const char* key) {
    const auto value = json.is_object() ? json.find(key) : json.end();
    return value != json.end() ? value->get_ptr<const std::string*>() : nullptr;
  };
  const std::string* const id = text_of("id");
  const std::string* const message = text_of("message");
  const std::string* const hash = text_of("hash");
  if (id == nullptr || message == nullptr || hash == nullptr) {
    return std::nullopt;
  }
  return Verdict{.id = *id, .message = *message, .details = {}, .hash = *hash};
}

}  // namespace tenon
