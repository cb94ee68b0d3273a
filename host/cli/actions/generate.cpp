// SPDX-License-Identifier: Apache-2.0
//
// --generate: continues a text with a trained model.
#include "host/cli/all_actions.hpp"
#include "host/cli/checked_recipe.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/standard_input.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/device/gpu_files.hpp"
#include "host/io/regular_file.hpp"
#include "host/json/bounded_json.hpp"
#include "host/log/log.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/tensor/stop_flag.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/train/generate/chat_session.hpp"
#include "host/train/pretrained/newest_checkpoint.hpp"
#include "host/train/pretrained/saved_model.hpp"
#include "host/train/run/text_model.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr std::array kGenerateOptions = {
    Option{"prompt", "TEXT", "text to continue; default: standard input, without its last newline"},
    Option{"chat",
           "",
           "chat with the model by its chat template: --prompt is the user's\n"
           "message, or else each line of standard input"},
    Option{"system", "TEXT", "with --chat: the system message"},
    Option{"chat-template", "FILE", "with --chat: template, instead of the tokenizer's"},
    Option{"chat-template-kwargs",
           "JSON",
           "with --chat: more variables of the template, as in\n"
           "'{\"enable_thinking\": false}'"},
    Option{"run-dir", "DIR", "run folder; the weights and the recipe of its newest checkpoint"},
    Option{"from", "DIR", "checkpoint to use, instead of --run-dir"},
    kWhichOption,
    Option{"recipe", "FILE", "recipe, instead of the checkpoint's; required with --import"},
    Option{"import", "hf DIR", "weights of a Hugging Face folder, instead of a checkpoint"},
    Option{"max-tokens", "N", "largest number of new tokens; default 256"},
    Option{"stop", "TEXT", "end the text before this string; may be repeated", Repeat::kYes},
    Option{"repetition-penalty",
           "P",
           "divide positive logits of tokens that occurred by P, and multiply\n"
           "negative ones; default 1, off"},
    Option{"temperature",
           "T",
           "sample from the probabilities at temperature T, as in 0.8; default 0,\n"
           "always the most likely token"},
    Option{"top-k", "K", "sample from the K most likely tokens; default 0, all"},
    Option{"top-p",
           "P",
           "sample from the most likely tokens that together have the\n"
           "probability P; default 1, all"},
    Option{"seed", "N", "seed of the sampling; default 1"},
    kPluginDirOption,
    kSetOption,
    kDeviceOption,
    kQuietOption,
    kLogLevelOption,
    kNoVetCacheOption,
    kTrustOption,
    kAllowWritableOption};

constexpr std::int64_t kMost = 1'000'000'000;

double read_number(std::string_view option,
                   const std::string& text,
                   double least,
                   double most,
                   const std::string& expected) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), last, value);
  if (failed != std::errc() || stop != last || !(value >= least && value <= most)) {
    fail_value(option, text, expected);
  }
  return value;
}

void read_sampling(const GivenOptions& given, Sampling& sampling) {
  if (given.has("temperature")) {
    sampling.temperature = read_number(
        "temperature", given.value_of("temperature"), 0, 1000, "a number from 0 to 1000");
  }
  if (given.has("top-k")) {
    sampling.top_k =
        read_whole("top-k", given.value_of("top-k"), 0, kMost, "a number of tokens, or 0");
  }
  if (given.has("top-p")) {
    sampling.top_p =
        read_number("top-p", given.value_of("top-p"), 1e-9, 1, "a probability above 0, up to 1");
  }
  if (given.has("seed")) {
    sampling.seed = static_cast<std::uint64_t>(
        read_whole("seed", given.value_of("seed"), 0, INT64_MAX, "a whole number from 0"));
  }
  if (given.has("repetition-penalty")) {
    sampling.repetition_penalty = read_number("repetition-penalty",
                                              given.value_of("repetition-penalty"),
                                              1e-3,
                                              1000,
                                              "a number above 0; 1 is off");
  }
  sampling.stop = given.values_of("stop");
  for (const std::string& stop : sampling.stop) {
    if (stop.empty()) {
      fail_value("stop", stop, "a string of at least one character");
    }
  }
  for (const char* const option : {"top-k", "top-p", "seed"}) {
    if (given.has(option) && sampling.temperature == 0) {
      fail_usage(std::string("--") + option +
                 " has no effect without --temperature: at 0, the most likely token is chosen");
    }
  }
}

void read_source(const GivenOptions& given, CommandLine& line) {
  GenerateRequest& request = line.generate;
  request.run_dir = given.value_of("run-dir");
  request.from = given.value_of("from");
  line.which = read_which(given);
  if (given.has("import")) {
    const std::vector<std::string> values = given.values_of("import");
    if (values.front() != "hf") {
      fail_value("import", values.front(), "hf");
    }
    request.weights = {.format = values.front(), .from = values.back()};
  }
  const int num_sources = (request.run_dir.empty() ? 0 : 1) + (request.from.empty() ? 0 : 1) +
                          (request.weights.format.empty() ? 0 : 1);
  if (num_sources == 0) {
    fail_usage(
        "--generate needs weights: --run-dir RUN, --from CHECKPOINT, or --import hf FOLDER with "
        "--recipe FILE");
  }
  if (num_sources > 1) {
    fail_usage(
        "--run-dir, --from and --import contradict each other with --generate: each names weights; "
        "give one of them");
  }
  if (!request.weights.format.empty() && line.which != WhichParameters::kAuto) {
    fail_usage("--which has no effect with --import: a Hugging Face folder has one model");
  }
  if (!request.weights.format.empty() && !given.has("recipe")) {
    fail_usage("--import needs the recipe of the model: --recipe FILE");
  }
}

void read_chat(const GivenOptions& given, GenerateRequest& request) {
  request.is_chat = given.has("chat");
  for (const char* const option : {"system", "chat-template", "chat-template-kwargs"}) {
    if (given.has(option) && !request.is_chat) {
      fail_usage(std::string("--") + option + " has no effect without --chat");
    }
  }
  if (given.has("system")) {
    request.system = given.value_of("system");
  }
  request.chat_template = given.value_of("chat-template");
  request.template_variables = given.value_of("chat-template-kwargs");
  if (given.has("chat-template-kwargs") && !is_json_object(request.template_variables)) {
    fail_value("chat-template-kwargs", request.template_variables, "a JSON object");
  }
}

void read_generate(const GivenOptions& given, CommandLine& line) {
  read_source(given, line);
  if (given.has("recipe")) {
    read_recipe_options(given, line);
  } else {
    read_plugin_options(given, line);
    for (const char* const option : {"set", "device"}) {
      if (given.has(option)) {
        fail_usage(std::string("--") + option +
                   " needs --recipe FILE: the recipe of a checkpoint " + "is used as it is");
      }
    }
  }
  GenerateRequest& request = line.generate;
  if (given.has("prompt")) {
    request.prompt = given.value_of("prompt");
  }
  read_chat(given, request);
  if (given.has("max-tokens")) {
    request.max_tokens = read_whole(
        "max-tokens", given.value_of("max-tokens"), 1, kMost, "a number of tokens from 1");
  }
  read_sampling(given, request.sampling);
  request.sampling.is_answer = request.is_chat;
}

// Prints what the model writes after the tokens of `prompt`, and returns it.
std::string print_text(TextModel& model,
                       const CommandLine& line,
                       const std::vector<int32_t>& prompt) {
  const GenerateRequest& request = line.generate;
  std::string text;
  const GeneratedText made = model.generate(
      prompt, request.sampling, request.max_tokens, [&text](const std::string& piece) {
        print_exactly(piece);
        text += piece;
      });
  if (!text.ends_with('\n')) {
    print_exactly("\n");
  }
  if (!line.is_quiet) {
    log_info(made.text());
  }
  return text;
}

// The text of --chat-template; without it, that of the template of the training data, or "".
std::string chat_template_of(const GenerateRequest& request, const TextModel& model) {
  constexpr std::uint64_t kMaxBytes = 1'000'000;
  if (request.chat_template.empty()) {
    return model.chat_template();
  }
  FileText file = read_file_text(request.chat_template, kMaxBytes);
  const std::string problem = file.is_too_large ? "the file has more than 1 MB" : file.problem;
  if (!problem.empty()) {
    fail_usage("--chat-template: " + request.chat_template + ": " + problem);
  }
  return std::move(file.text);
}

// Answers the prompt, or each line of standard input that is not empty.
void chat(TextModel& model, const CommandLine& line) {
  const GenerateRequest& request = line.generate;
  const std::string chat_template = chat_template_of(request, model);
  ChatSession session(model.tokenizer(),
                      request.system,
                      chat_template,
                      request.template_variables.empty()
                          ? nlohmann::ordered_json::object()
                          : nlohmann::ordered_json::parse(request.template_variables));
  if (!request.chat_template.empty()) {  // else the model has its ends already
    model.end_turns_of(chat_template);
  }
  if (request.prompt.has_value()) {
    print_text(model, line, session.ask(*request.prompt));
    return;
  }
  InputLines lines;
  while (const std::optional<std::string> message = lines.next("> ")) {
    if (!message->empty()) {
      session.answer(print_text(model, line, session.ask(*message)));
    }
    if (is_stop_requested()) {
      return;
    }
  }
}

// Continues the text, or chats, with a model whose weights are loaded.
void continue_text(TextModel& model, const CommandLine& line) {
  const GenerateRequest& request = line.generate;
  if (request.is_chat) {
    chat(model, line);
    return;
  }
  print_text(model,
             line,
             model.prompt_ids(request.prompt.has_value() ? *request.prompt
                                                         : read_standard_input("the prompt")));
}

// Uses the recipe of the command line, or else that of the checkpoint.
void continue_from_checkpoint(const CommandLine& line, const Invocation& invocation) {
  const GenerateRequest& request = line.generate;
  const GpuFiles gpu = gpu_files_of(own_program());
  UsedRecipe used;
  if (line.recipe.empty()) {
    used.plugins = std::make_unique<PluginRegistry>(plugin_setup(line, Vetting::kEarly));
  } else {
    used = use_recipe(line, invocation);
  }
  PluginRegistry& registry = *used.plugins;
  const auto read_frozen = [&](const std::string& file) {
    if (!line.recipe.empty()) {
      return used.recipe;
    }
    RecipeDraft draft = read_recipe({.path = file, .takes_old_names = true});
    return warning_of_refused(registry, [&] { return check_recipe(std::move(draft), registry); });
  };
  with_newest_checkpoint(
      request.from.empty() ? request.run_dir : request.from,
      read_frozen,
      registry,
      [&](const CheckpointReader& reader, const Recipe& recipe) {
        TextModel model(recipe, registry, invocation.process, gpu, TextModel::Weights::kOfRun);
        const SavedModel saved = from_checkpoint([&] { return model.load(reader, line.which); });
        if (saved.best.has_value() && !line.is_quiet) {
          log_info("the model is of " + saved.text);
        }
        continue_text(model, line);
        return std::string();
      });
}

ExitCode run_generate(const CommandLine& line, const Invocation& invocation) {
  if (line.generate.weights.format.empty()) {
    continue_from_checkpoint(line, invocation);
    return ExitCode::kDone;
  }
  const UsedRecipe used = use_recipe(line, invocation);
  TextModel model(used.recipe,
                  *used.plugins,
                  invocation.process,
                  gpu_files_of(own_program()),
                  TextModel::Weights::kOfOther);
  model.load(line.generate.weights);
  continue_text(model, line);
  return ExitCode::kDone;
}

}  // namespace

const Action kGenerateAction = {
    .verb = "generate",
    .option = {"generate",
               "",
               "continue a text with the model of a checkpoint, and print what it\n"
               "writes"},
    .options = kGenerateOptions,
    .read = read_generate,
    .run = run_generate};

}  // namespace tenon
