// SPDX-License-Identifier: Apache-2.0
//
// Files of chats that are nearly right are read or refused, with the place of the first bad sample.
// A case is JSON lines or a JSON list.
#include <tenon/cpp/guard.hpp>

#include <algorithm>
#include <filesystem>
#include <set>

#include "plugins/datasets/chat/json_chat_file.hpp"
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// Samples of all formats.
const std::vector<std::string>& samples() {
  static const std::vector<std::string> lines = [] {
    std::vector<std::string> found;
    std::vector<fs::path> paths;
    for (const fs::directory_entry& entry :
         fs::directory_iterator(source_dir() / "tests/parity/chats_of_pyarrow")) {
      if (entry.path().extension() == ".jsonl") {
        paths.push_back(entry.path());
      }
    }
    std::ranges::sort(paths);
    for (const fs::path& path : paths) {
      const std::string text = read_corpus_file(path.string());
      for (size_t at = 0; at < text.size();) {
        const size_t end = text.find('\n', at);
        found.push_back(text.substr(at, end - at));
        at = end + 1;
      }
    }
    found.push_back(
        R"({"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", )"
        R"("value": "{\"name\": \"f\", \"arguments\": {}}"}], "tools": [{"name": "f"}]})");
    found.push_back(R"({"prompt": "q", "chosen": "a", "rejected": "b"})");
    found.push_back(R"({"prompt": [{"role": "user", "content": "q"}], "completion": "a"})");
    return found;
  }();
  return lines;
}

std::string make_chats(Mutator& mutator) {
  static const JsonCases cases(samples());
  static const std::vector<std::string> words = {
      "\n", "\r\n", ",", "[", "]", "[\n", "{}", "null\n", "\xef\xbb\xbf", "\"", "\\\"", "\\"};
  const bool is_list = mutator.one_in(3);
  std::string text = is_list ? "[" : "";
  for (size_t n = 1 + mutator.below(3); n > 0; --n) {
    text += mutator.one_in(2) ? mutator.pick(samples()) : cases.make(mutator);
    text += is_list ? (n == 1 ? "]" : ",\n") : "\n";
  }
  return mutator.one_in(4) ? mutator.mutated(std::move(text), words, samples()) : text;
}

// The parts of a file cover its samples, and its bytes are those that were written.
void check_file(const JsonChatFile& file, const std::string& input) {
  size_t next = 0;
  for (const SampleRange& part : file.parts(64)) {
    if (part.begin != next || part.end <= part.begin) {
      throw FuzzFinding("parts of the file are not consecutive");
    }
    next = part.end;
  }
  if (next != file.size()) {
    throw FuzzFinding("parts of the file do not cover it");
  }
  std::string bytes;
  file.read_bytes([&](std::string_view more) { bytes += more; });
  if (bytes != input) {
    throw FuzzFinding("the bytes of the file differ");
  }
}

void check_conversation(const Conversation& chat) {
  if (chat.is_text) {
    return;
  }
  if (chat.messages.empty() || chat.messages.size() != chat.is_trainable.size() ||
      chat.prompt_size > chat.messages.size()) {
    throw FuzzFinding("a conversation has other sizes than its messages");
  }
  for (const Json& message : chat.messages) {
    if (!message.at("role").is_string() || message.contains("train")) {
      throw FuzzFinding("a message has no role, or has \"train\"");
    }
  }
  if (!chat.tools.is_null() && (!chat.tools.is_array() || chat.tools.empty())) {
    throw FuzzFinding("tools are not a list");
  }
  if (!chat.variables.is_object()) {
    throw FuzzFinding("variables are not an object");
  }
  (void)chat.messages.dump();  // throws for text that is not UTF-8
  (void)chat.tools.dump();
  (void)chat.variables.dump();
}

std::string judge_chats(const std::string& input) {
  static const MemoryFile memory("chats.jsonl");
  static const std::set<std::string> known = {"chat.not_json",
                                              "chat.not_utf8",
                                              "chat.bad_sample",
                                              "chat.unknown_format",
                                              "chat.unknown_role",
                                              "chat.empty_answer",
                                              "chat.equal_answers",
                                              "chat.unsupported",
                                              "chat.unsupported_key"};
  memory.write(input);
  try {
    const IgnoredKeys ignored;
    const JsonChatFile file(memory.path(), ignored);
    check_file(file, input);
    for (const SampleRange& part : file.parts(SIZE_MAX)) {
      file.read(part, [&](const SampleBlock& block) {
        for (size_t i = block.samples.begin; i < block.samples.end; ++i) {
          if (file.place(i).empty()) {
            throw FuzzFinding("a sample has no place");
          }
          KeyCheck keys{ignored, "", {}};
          for (const Conversation& chat :
               conversations_of(block.parse(i), ChatFormat::kAuto, keys)) {
            check_conversation(chat);
          }
        }
      });
    }
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (known.count(error.id()) == 0 || message.empty() ||
        message.find('\n') != std::string_view::npos) {
      throw FuzzFinding(std::string(error.id()) + " is not an error of this reader in one line");
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
                         {.name = "chat_data_fuzz",
                          .make = tenon::make_chats,
                          .judge = tenon::judge_chats,
                          .least_accepted = 0.1});
}
