// SPDX-License-Identifier: Apache-2.0
//
// --export: writes the parameters of a checkpoint for other programs.
#include "host/cli/all_actions.hpp"
#include "host/cli/checked_recipe.hpp"
#include "host/cli/quantity.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_plugins.hpp"
#include "host/recipe/recipe_loader.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/train/pretrained/weights_export.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tenon {
namespace {

constexpr std::array kExportOptions = {
    Option{"run-dir", "DIR", "run folder; its newest checkpoint is exported"},
    Option{"from", "DIR", "checkpoint to export, instead of --run-dir"},
    kWhichOption,
    Option{"dtype",
           "DTYPE",
           "bf16, f16, f32 or f64; default: the dtype of training",
           Repeat::kNo,
           "bf16 f16 f32 f64"},
    Option{"file-bytes", "BYTES", "with hf: largest size of a file; default 5GB"},
    Option{"merge", "", "merge adapters into the weights; with hf or torch"},
    kPluginDirOption,
    kLogLevelOption,
    kNoVetCacheOption,
    kTrustOption,
    kAllowWritableOption};

// Checks that a value is one of `words`.
void check_word(std::string_view option,
                const std::string& value,
                const std::vector<std::string>& words) {
  if (std::ranges::find(words, value) == words.end()) {
    fail_word(option, value, words);
  }
}

void read_export(const GivenOptions& given, CommandLine& line) {
  read_plugin_options(given, line);
  const std::vector<std::string> values = given.values_of("export");
  line.run_dir = given.value_of("run-dir");
  WeightsExport& request = line.weights_export;
  request.format = values.front();
  request.to = values.back();
  request.run_dir = line.run_dir;
  request.from = given.value_of("from");
  line.which = read_which(given);
  request.dtype = given.value_of("dtype");
  check_word("export", request.format, {"hf", "torch", "peft"});
  request.merges = given.has("merge");
  if (request.merges && request.format == "peft") {
    fail_usage(
        "--merge contradicts --export peft, which writes the adapter alone; use --export hf");
  }
  if (request.run_dir.empty() && request.from.empty()) {
    fail_usage("--export needs a source: --run-dir RUN, or --from CHECKPOINT");
  }
  if (!request.run_dir.empty() && !request.from.empty()) {
    fail_usage(
        "--run-dir and --from contradict each other with --export: one names a run, the other a "
        "checkpoint; give one of them");
  }
  if (!request.dtype.empty()) {
    check_word("dtype", request.dtype, {"bf16", "f16", "f32", "f64"});
  }
  if (given.has("file-bytes")) {
    if (request.format != "hf") {
      fail_usage("--file-bytes has no effect with --export " + request.format +
                 ", which writes one file");
    }
    request.file_bytes = static_cast<std::uint64_t>(
        read_whole_bytes("file-bytes", given.value_of("file-bytes"), "file"));
  }
}

// Loads the plugins that the checkpoint's recipe names, and exports the parameters.
ExitCode run_export(const CommandLine& line, const Invocation& invocation) {
  PluginRegistry registry(plugin_setup(line, Vetting::kEarly));
  const auto checked = [&registry](const std::string& file) {
    RecipeDraft draft = read_recipe({.path = file, .takes_old_names = true});
    return warning_of_refused(registry, [&] { return check_recipe(std::move(draft), registry); });
  };
  print_output(
      export_weights(checked, registry, invocation.process, line.weights_export, line.which));
  return ExitCode::kDone;
}

}  // namespace

const Action kExportAction = {
    .verb = "export",
    .option = {"export",
               "hf|peft|torch TO",
               "write the parameters of a checkpoint to TO: a folder for Hugging Face\n"
               "transformers (hf), a folder with the adapter for PEFT (peft), or a file\n"
               "for torch.load (torch)"},
    .options = kExportOptions,
    .read = read_export,
    .run = run_export};

}  // namespace tenon
