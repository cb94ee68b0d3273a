// SPDX-License-Identifier: Apache-2.0
//
// Generates texts with the model in training, at chosen steps, and writes them to the log and to a
// JSON lines file. All ranks generate together; rank 0 writes.
// Invariant: at each step the texts are generated at most once. The file of a resumed run has the
// lines of a run that never stopped.
#include <tenon/cpp/hook.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/text_generation.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../../growing_file.hpp"
#include "../../json_lines.hpp"

namespace {

struct TextSamplesOptions {
  std::vector<std::string> prompts;
  int64_t every_steps = 0;
  bool at_evaluations = true;
  bool at_end = true;
  int64_t max_tokens = 64;
  double temperature = 0;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 1;
  bool chat = false;
  std::string system;
  std::string path = "text_samples.jsonl";
};

class TextSamples : public tenon::Hook {
 public:
  static constexpr const char* kType = "text_samples";
  static constexpr const char* kSummary = "generates texts with the model in training";
  using Options = TextSamplesOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("prompts", &Options::prompts)
        .min_items(1)
        .required()
        .doc("texts to continue, or messages of the user with chat");
    binder.field("every_steps", &Options::every_steps)
        .min(0)
        .doc("generate after every N-th step; 0: not by steps");
    binder.field("at_evaluations", &Options::at_evaluations)
        .doc("generate after each evaluation of data.eval");
    binder.field("at_end", &Options::at_end).doc("generate at the end of the run");
    binder.field("max_tokens", &Options::max_tokens)
        .min(1)
        .max(1'000'000)
        .doc("largest number of new tokens of a text");
    binder.field("temperature", &Options::temperature)
        .min(0)
        .max(1000)
        .doc("divides the logits before tokens are drawn; 0: always the most likely token");
    binder.field("top_k", &Options::top_k)
        .min(0)
        .doc("with temperature: draw from the K most likely tokens; 0: all");
    binder.field("top_p", &Options::top_p)
        .exclusive_min(0)
        .max(1)
        .doc("with temperature: draw from the fewest tokens with this total probability; 1: all");
    binder.field("seed", &Options::seed).doc("with temperature: seed of the draws");
    binder.field("chat", &Options::chat)
        .doc("render each prompt as a message of the user by the tokenizer's chat template");
    binder.field("system", &Options::system).doc("with chat: the system message; empty: none");
    binder.field("path", &Options::path)
        .non_empty()
        .doc("file to append to; relative to the run folder");
  }

  TextSamples(Options options, const tenon::CreateContext& context)
      : options_(std::move(options)),
        is_first_(context.mesh == nullptr || context.mesh->rank == 0) {
    if (options_.every_steps == 0 && !options_.at_evaluations && !options_.at_end) {
      refuse("every_steps", "is 0, and at_evaluations and at_end are false: nothing is generated");
    }
    if (options_.temperature == 0) {
      const char* const drawn = options_.top_k != 0   ? "top_k"
                                : options_.top_p != 1 ? "top_p"
                                : options_.seed != 1  ? "seed"
                                                      : nullptr;
      if (drawn != nullptr) {
        refuse(drawn, "has no effect with temperature 0: the most likely token is chosen");
      }
    }
    if (!options_.system.empty() && !options_.chat) {
      refuse("system", "has no effect without chat; set \"chat\": true");
    }
  }

  void describe(tenon_hook_info& info) override {
    info.events = tenon::events({TENON_EVENT_START,
                                 TENON_EVENT_AFTER_LOAD,
                                 TENON_EVENT_AFTER_STEP,
                                 TENON_EVENT_AFTER_EVALUATE,
                                 TENON_EVENT_ON_ERROR,
                                 TENON_EVENT_END});
    info.uses_collectives = 1;
  }

  void on_event(const tenon::Event& event) override {
    switch (event.id()) {
      case TENON_EVENT_START:
        start(event);
        break;
      case TENON_EVENT_AFTER_LOAD:
        resume(event);
        break;
      case TENON_EVENT_AFTER_STEP:
        if (options_.every_steps > 0 &&
            event.step() % static_cast<uint64_t>(options_.every_steps) == 0) {
          generate(event, "step");
        }
        break;
      case TENON_EVENT_AFTER_EVALUATE:
        if (options_.at_evaluations && event.message().empty()) {
          generate(event, "evaluation");
        }
        break;
      case TENON_EVENT_ON_ERROR:
        has_failed_ = true;
        break;
      default:
        if (options_.at_end && !has_failed_ && event.step() > 0) {
          generate(event, kEnd);
        }
    }
  }

 private:
  static constexpr const char* kEnd = "end";

  [[noreturn]] static void refuse(const char* option, const char* why) {
    TENON_FAIL(TENON_INVALID, "text_samples.bad_options", "option `", option, "` ", why);
  }

  tenon::TextRequest request_for(const std::string& prompt) const {
    tenon::TextRequest request;
    request.prompt = prompt;
    if (!options_.system.empty()) {
      request.system = options_.system;
    }
    request.is_chat = options_.chat;
    request.max_tokens = options_.max_tokens;
    request.temperature = options_.temperature;
    request.top_k = options_.top_k;
    request.top_p = options_.top_p;
    request.seed = options_.seed;
    return request;
  }

  // Refuses what would fail later, before the first step.
  void start(const tenon::Event& event) {
    const tenon::TextGeneration texts(host());
    for (const std::string& prompt : options_.prompts) {
      texts.check(event, request_for(prompt));
    }
    if (is_first_) {
      const std::string path =
          options_.path.front() == '/' ? options_.path : event.run_dir() + "/" + options_.path;
      file_.open(path, GrowingFile::IfThere::kAdd);
    }
  }

  // Removes the lines of steps that run again. Lines of earlier runs in the same file stay.
  void resume(const tenon::Event& event) {
    const bool is_new = event.step() == 0 && event.message().empty();
    if (is_new) {
      return;  // other weights were loaded into a run that starts
    }
    double has_lines = is_first_ && cut_after(event.step()) ? 1 : 0;
    event.all_reduce(&has_lines, 1, TENON_REDUCE_MAX);
    last_step_ = has_lines != 0 ? std::optional(event.step()) : std::nullopt;
  }

  // Returns true if lines of `step` stay. Those of the end of the run do not: it continues.
  bool cut_after(uint64_t step) {
    off_t keep = file_.size();
    bool stay = false;
    uint64_t behind = UINT64_MAX;  // step of the line after the current one
    file_.visit_lines_from_end([&](const GrowingFile::Line& line) {
      if (line.text.back() != '\n') {
        keep = line.begin;
        return true;
      }
      // Steps never decrease within a run. A decrease marks the start of another run.
      const std::optional<uint64_t> at = step_of_line(line.text);
      if (!at || *at < step || *at > behind) {
        return false;
      }
      behind = *at;
      const std::string start = start_of_line(step, kEnd);
      stay = *at == step && line.text.substr(0, start.size()) != start;
      keep = stay ? keep : line.begin;
      return !stay;
    });
    file_.cut_to(keep);
    return stay;
  }

  static std::string start_of_line(uint64_t step, const char* when) {
    return "{\"step\":" + std::to_string(step) + ",\"at\":\"" + when + "\"";
  }

  void generate(const tenon::Event& event, const char* when) {
    if (last_step_ == event.step()) {
      return;
    }
    last_step_ = event.step();
    const tenon::TextGeneration texts(host());
    std::string lines;
    for (const std::string& prompt : options_.prompts) {
      const tenon::WrittenText written = texts.generate(event, request_for(prompt));
      if (written.finish == TENON_TEXT_STOPPED) {
        return;  // the resumed run generates them
      }
      lines += start_of_line(event.step(), when) + ",\"prompt\":" + tenon::json_string(prompt) +
               ",\"text\":" + tenon::json_string(written.text) +
               ",\"prompt_tokens\":" + std::to_string(written.num_prompt_tokens) +
               ",\"tokens\":" + std::to_string(written.num_tokens) + ",\"finish\":\"" +
               tenon::finish_name(written.finish) + "\"}\n";
      if (is_first_) {
        host().log_info("text at step ",
                        event.step(),
                        ": ",
                        tenon::json_string(prompt),
                        " -> ",
                        tenon::json_string(written.text));
      }
    }
    if (is_first_) {
      file_.add(lines);
    }
  }

  Options options_;
  bool is_first_;
  bool has_failed_ = false;
  std::optional<uint64_t> last_step_;  // whose texts are in the file
  GrowingFile file_{"text_samples"};   // of rank 0
};

}  // namespace

TENON_PLUGIN(TextSamples)
