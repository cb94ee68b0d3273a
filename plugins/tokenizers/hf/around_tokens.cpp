// SPDX-License-Identifier: Apache-2.0
#include "around_tokens.hpp"

#include "normalizer.hpp"
#include "token_model.hpp"

namespace tenon {
namespace {

int32_t read_id(const JsonNode& node) {
  return static_cast<int32_t>(node.integer(0, kMostIds - 1));
}

// ["[SEP]", 102]
int32_t read_pair(const JsonNode& node) {
  if (node.array_size() != 2) {
    node.fail("has ", node.array_size(), " elements (expected a token and its id)");
  }
  return read_id(node.at(size_t{1}));
}

void add_template(const JsonNode& node, AroundTokens& around) {
  node.allow_only({"type", "single", "pair", "special_tokens"});
  const JsonNode specials = node.at("special_tokens");
  const JsonNode single = node.at("single");
  constexpr size_t kMostAround = 1024;  // far above existing templates
  std::vector<int32_t> before;
  std::vector<int32_t> after;
  bool has_text = false;
  for (size_t i = 0; i < single.array_size(); ++i) {
    const JsonNode piece = single.at(i);
    piece.allow_only({"Sequence", "SpecialToken"});
    if (const auto sequence = piece.find("Sequence")) {
      if (has_text || sequence->at("id").string() != "A") {
        sequence->fail("is a second text, which is not supported (expected one, with id \"A\")");
      }
      has_text = true;
      continue;
    }
    const JsonNode name = piece.at("SpecialToken").at("id");
    const auto special = specials.find(name.string().c_str());
    if (!special) {
      name.fail("is \"", name.string(), "\", which \"special_tokens\" lacks");
    }
    const JsonNode ids = special->at("ids");
    if (before.size() + after.size() + ids.array_size() > kMostAround) {
      single.fail("adds more than ", kMostAround, " tokens to a text");
    }
    for (size_t k = 0; k < ids.array_size(); ++k) {
      (has_text ? after : before).push_back(read_id(ids.at(k)));
    }
  }
  if (!has_text) {
    single.fail("has no text (expected a \"Sequence\" with id \"A\")");
  }
  around.before.insert(around.before.begin(), before.begin(), before.end());
  around.after.insert(around.after.end(), after.begin(), after.end());
}

void add(const JsonNode& node, int depth, AroundTokens& around) {
  if (depth > kMostNested) {
    node.fail("is nested too deeply (expected at most ", kMostNested, " sequences)");
  }
  const JsonNode type_node = node.at("type");
  const std::string type = type_node.string();
  if (type == "Sequence") {
    node.allow_only({"type", "processors"});
    const JsonNode list = node.at("processors");
    for (size_t i = 0; i < list.array_size(); ++i) {
      add(list.at(i), depth + 1, around);
    }
  } else if (type == "TemplateProcessing") {
    add_template(node, around);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    node.allow_only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    around.before.insert(around.before.begin(), read_pair(node.at("cls")));
    around.after.push_back(read_pair(node.at("sep")));
  } else if (type == "ByteLevel") {
    // Only trims ranges of tokens, which Tenon does not.
    node.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  } else {
    type_node.fail(not_supported(
        type,
        {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"}));
  }
}

}  // namespace

AroundTokens read_around_tokens(const JsonNode& node) {
  AroundTokens around;
  add(node, 0, around);
  return around;
}

}  // namespace tenon
