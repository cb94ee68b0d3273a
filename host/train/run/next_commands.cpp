// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/next_commands.hpp"

#include "host/text/formatted.hpp"

#include <string_view>

namespace tenon {
namespace {

// Quotes a word for a shell.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
    return word;
  }
  std::string text = "'";
  for (const char c : word) {
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return text + "'";
}

bool has_option(const RunRequest& request, const std::string& option) {
  return request.command_line.find(" " + option) != std::string::npos;
}

// Returns the command that resumes this run in its folder. Empty if its options prevent that.
std::string command_again(const RunRequest& request, const std::string& run_dir) {
  const size_t end_of_program = request.command_line.find(' ');
  const bool hides_keys = request.command_line.find("://***@") != std::string::npos;
  if (end_of_program == std::string::npos || hides_keys || has_option(request, "--resume") ||
      has_option(request, "--import")) {
    return "";
  }
  return request.program + request.command_line.substr(end_of_program) +
         (request.run_dir.empty() ? " --run-dir " + quoted(run_dir) : "");
}

// Returns the run folder that has the checkpoint. A complete run that was resumed in another folder
// has saved nothing there.
std::string run_with(const std::string& checkpoint, const std::string& run_dir) {
  const size_t at = checkpoint.rfind("/checkpoints/");
  return at == std::string::npos ? run_dir : checkpoint.substr(0, at);
}

std::string next_command(const Recipe& recipe,
                         const RunRequest& request,
                         const Outcome& outcome,
                         const std::string& run_dir,
                         const std::string& newest) {
  const std::string again = command_again(request, run_dir);
  if (!again.empty() && outcome.code == ExitCode::kStopped) {
    return again;
  }
  const std::string key = "train.steps=";
  if (!again.empty() && recipe.train.steps.has_value() &&
      request.command_line.find(key) == std::string::npos) {
    return formatted("{} --set {}{}", again, key, 2 * *recipe.train.steps);
  }
  return request.program + " --inspect " + quoted(newest);
}

}  // namespace

std::string next_commands(const Recipe& recipe,
                          const RunRequest& request,
                          const Outcome& outcome,
                          const std::string& run_dir,
                          const std::string& export_format) {
  const bool has_ended = outcome.code == ExitCode::kDone || outcome.code == ExitCode::kStopped;
  if (!has_ended || request.program.empty() || !outcome.saves.has_value()) {
    return "";
  }
  const std::string& newest = outcome.saves->last.empty() && outcome.is_already_complete
                                  ? outcome.resumed_from
                                  : outcome.saves->last;
  if (newest.empty()) {
    return "";
  }
  if (outcome.state.step == 0) {  // nothing is trained yet that would be worth an export
    const std::string again = command_again(request, run_dir);
    return outcome.code == ExitCode::kStopped && !again.empty() ? "next: " + again : "";
  }
  const std::string exported = outcome.saves->last.empty() ? run_with(newest, run_dir) : run_dir;
  const std::string plugins = request.plugin_options.empty() ? "" : " " + request.plugin_options;
  return "export: " + request.program + plugins + " --export " + export_format +
         (export_format == "torch"  ? " model.pt"
          : export_format == "peft" ? " adapter"
                                    : " model") +
         " --run-dir " + quoted(exported) +
         "\nnext: " + next_command(recipe, request, outcome, run_dir, newest);
}

}  // namespace tenon
