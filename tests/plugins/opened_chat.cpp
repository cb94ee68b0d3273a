// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/opened_chat.hpp"

#include <ATen/ATen.h>

namespace tenon {
namespace {

const std::vector<std::string> kChatSpecials = {"<u>", "<a>", "<s>", "</>", "<bos>", "<eos>"};

std::string token_text(int64_t id) {
  return id < 0     ? "."
         : id < 256 ? std::string(1, static_cast<char>(id))
                    : kChatSpecials.at(static_cast<size_t>(id - 256));
}

std::string row_text(const at::Tensor& field, int64_t row) {
  const at::Tensor one = field[row].contiguous();
  std::string text;
  for (int64_t t = 0; t < one.numel(); ++t) {
    text += token_text(one.const_data_ptr<int64_t>()[t]);
  }
  return text;
}

}  // namespace

std::vector<int64_t> OpenedChat::lengths() {
  const auto& table = *static_cast<const tenon_dataset*>(source.instance().descriptor().table);
  const auto n = static_cast<size_t>(size());
  std::vector<int64_t> out(n, -1);
  const tenon_exec exec = make_exec(source.instance());
  const tenon_lengths_args args{sizeof(args), nullptr, 0, n, out.data()};
  source.instance().check(table.lengths(source.instance().self(), &exec, &args));
  return out;
}

std::string OpenedChat::inputs(const Batch& batch, int64_t row) const {
  return row_text(*batch.find("input_ids"), row);
}

std::string OpenedChat::labels(const Batch& batch, int64_t row) const {
  return row_text(*batch.find("labels"), row);
}

std::string OpenedChat::shown(int64_t sample) {
  const Batch batch = read({sample});
  return inputs(batch, 0) + "\n" + labels(batch, 0);
}

nlohmann::json chat_tokenizer(const std::string& chat_template) {
  return {{"specials", kChatSpecials},
          {"bos", "<bos>"},
          {"eos", "<eos>"},
          {"chat_template", chat_template}};
}

OpenedChat open_chat(nlohmann::json options,
                     const nlohmann::json& tokenizer,
                     const std::string& type) {
  if (!options.contains("cache")) {
    options["cache"] = "";
  }
  options["tokenizer"] = {{"type", type}, {"options", tokenizer}};
  ComponentInstance made = make_component("tokenizer", type, tokenizer.dump());
  ComponentInstance chat =
      make_component("dataset", "chat", options.dump(), {{"/tokenizer", &made}});
  return {std::move(made), DatasetProxy(std::move(chat))};
}

std::string chat_error(const ScratchFolder& folder,
                       nlohmann::json options,
                       const nlohmann::json& tokenizer) {
  std::string error = error_of([&] { open_chat(std::move(options), tokenizer); });
  const std::string name = folder.path().string() + "/";
  for (size_t at = error.find(name); at != std::string::npos; at = error.find(name)) {
    error.erase(at, name.size());
  }
  return error;
}

std::string write_chats(const ScratchFolder& folder,
                        const std::string& name,
                        const std::vector<nlohmann::json>& samples) {
  std::string lines;
  for (const nlohmann::json& sample : samples) {
    lines += sample.dump() + "\n";
  }
  return folder.write(name, lines).string();
}

nlohmann::json chat_of(const std::vector<std::string>& contents) {
  nlohmann::json messages = nlohmann::json::array();
  for (size_t i = 0; i < contents.size(); ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", contents[i]}});
  }
  return {{"messages", messages}};
}

}  // namespace tenon
