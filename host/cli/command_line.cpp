// SPDX-License-Identifier: Apache-2.0

#include "host/cli/command_line.hpp"

#include "host/cli/plan_options.hpp"
#include "host/error/error.hpp"
#include "host/plugin/kinds.hpp"
#include "host/recipe/nearest_name.hpp"

#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/value_semantic.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>
#include <system_error>

namespace tenon {
namespace {

namespace po = boost::program_options;

constexpr std::uint32_t bit(Action action) {
  return 1U << static_cast<unsigned>(action);
}

constexpr std::uint32_t kOnRecipe = bit(Action::kTrain) | bit(Action::kEvaluate) |
                                    bit(Action::kValidate) | bit(Action::kPrintRecipe) |
                                    bit(Action::kPlan) | bit(Action::kShowRow);
constexpr std::uint32_t kOnPlugins = kOnRecipe | bit(Action::kExport) | bit(Action::kListPlugins) |
                                     bit(Action::kDescribe) | bit(Action::kPrintSchema);

enum class Repeat { kNo, kYes };

struct OptionSpec {
  std::string_view name;
  std::string_view value;      // what stands for it in the help; "" for an option without one
  std::uint32_t effective_in;  // the actions it has an effect on, as bits
  Repeat repeat;
  std::string_view help;
};

constexpr std::array kRunOptions = {
    OptionSpec{"recipe", "FILE", kOnRecipe, Repeat::kNo, "the recipe: JSON, with comments"},
    OptionSpec{"plugin-dir",
               "DIR",
               kOnPlugins,
               Repeat::kYes,
               "a folder of plugins; may be given several times. Without it and\n"
               "TENON_PLUGIN_PATH: the folder \"plugins\" beside that of this program"},
    OptionSpec{"set",
               "PATH=VALUE",
               kOnRecipe,
               Repeat::kYes,
               "replaces a value of the recipe: train.steps=10, hooks.0.type=early_stop;\n"
               "may be given several times"},
    OptionSpec{"device",
               "DEVICE",
               kOnRecipe,
               Repeat::kNo,
               "cpu, cuda, cuda:N, or auto: a GPU where there is one; else as the recipe"},
    OptionSpec{"run-dir",
               "DIR",
               bit(Action::kTrain) | bit(Action::kEvaluate) | bit(Action::kExport),
               Repeat::kNo,
               "the folder that the run makes for its log, metrics and recipe; without it\n"
               "runs/NAME-TIME"},
    OptionSpec{"resume",
               "auto|none|PATH",
               bit(Action::kTrain) | bit(Action::kEvaluate),
               Repeat::kNo,
               "go on from the newest checkpoint of the run folder, or without one of the\n"
               "newest run of that name (auto; what --run-dir alone means), from PATH, a\n"
               "checkpoint or a run folder, or from none"},
    OptionSpec{"launch",
               "N",
               bit(Action::kTrain) | bit(Action::kEvaluate) | bit(Action::kValidate),
               Repeat::kNo,
               "train on N ranks, each a process of this machine that is started for it"},
    OptionSpec{"bind",
               "HOW",
               bit(Action::kTrain) | bit(Action::kEvaluate),
               Repeat::kNo,
               "numa (the default), cores or none: with --launch, each rank stays on its\n"
               "share of the NUMA nodes, has cores of its own, or runs anywhere"},
    OptionSpec{"max-restarts",
               "K",
               bit(Action::kTrain),
               Repeat::kNo,
               "with --launch: where a rank is lost, all are started again, up to K\n"
               "times, and go on from the newest checkpoint"},
    OptionSpec{"min-ranks",
               "M",
               bit(Action::kTrain),
               Repeat::kNo,
               "with --max-restarts: a rank that fails, and then again before its first\n"
               "step, is left out, as long as M ranks or more are left to go on"},
    OptionSpec{"quiet",
               "",
               bit(Action::kTrain) | bit(Action::kEvaluate) | bit(Action::kValidate),
               Repeat::kNo,
               "print warnings and errors alone"},
    OptionSpec{"log-level",
               "LEVEL",
               kOnPlugins,
               Repeat::kNo,
               "debug, info (the default), warning or error: what is logged, and how much"},
    OptionSpec{"profile",
               "steps=A..B",
               bit(Action::kTrain),
               Repeat::kNo,
               "record steps A to B, with events, blocks and operators, in the run's\n"
               "profile.json, which Perfetto and chrome://tracing show"},
    OptionSpec{"import-tables",
               "DIR",
               bit(Action::kTrain) | bit(Action::kEvaluate),
               Repeat::kNo,
               "begin with the rows that a folder has of each table: DIR/TABLE.parquet"},
    OptionSpec{"export-tables",
               "DIR",
               bit(Action::kTrain),
               Repeat::kNo,
               "write the rows of all tables at the end: ids and vectors, as Parquet"},
    OptionSpec{"export-slots",
               "",
               bit(Action::kTrain),
               Repeat::kNo,
               "with --export-tables: also what optimizers keep, counts and last steps"},
    OptionSpec{"import",
               "hf DIR",
               bit(Action::kTrain),
               Repeat::kNo,
               "make the run folder --run-dir with the weights of DIR as the checkpoint\n"
               "before the first step, and stop; the same command without it trains"},
    OptionSpec{
        "no-vet-cache",
        "",
        kOnRecipe | bit(Action::kExport) | bit(Action::kDescribe) | bit(Action::kPrintSchema),
        Repeat::kNo,
        "load each plugin in a child process first, as if it had never been seen"},
};

constexpr std::array kPlanOptions = {
    OptionSpec{"ranks-per-node",
               "N",
               bit(Action::kPlan),
               Repeat::kNo,
               "ranks that share a machine; else 8"},
    OptionSpec{
        "flops",
        "RATE",
        bit(Action::kPlan),
        Repeat::kNo,
        "operations a second that a rank's kernels reach; else 400T\non GPUs and 100G on CPUs"},
    OptionSpec{"memory",
               "BYTES",
               bit(Action::kPlan),
               Repeat::kNo,
               "what a rank has, as in 80GiB; where the plan needs more, it says\n"
               "what would fit"},
    OptionSpec{
        "bandwidth-node",
        "B/S",
        bit(Action::kPlan),
        Repeat::kNo,
        "bytes a second that a rank sends within its node; else\n400GB on GPUs and 2GB on CPUs"},
    OptionSpec{
        "bandwidth-network",
        "B/S",
        bit(Action::kPlan),
        Repeat::kNo,
        "bytes a second that a rank sends to another node; else\n50GB on GPUs and 1GB on CPUs"},
    OptionSpec{"bandwidth-host",
               "B/S",
               bit(Action::kPlan),
               Repeat::kNo,
               "bytes a second between a device and its host's memory;\nelse 25GB"},
    OptionSpec{"latency",
               "SECONDS",
               bit(Action::kPlan),
               Repeat::kNo,
               "what it takes to reach the next rank; else 5us on GPUs and\n50us on CPUs"},
};

constexpr std::array kActionOptions = {
    OptionSpec{"eval-only",
               "",
               bit(Action::kEvaluate),
               Repeat::kNo,
               "evaluate the recipe's sets with the initial parameters, and stop"},
    OptionSpec{"validate",
               "",
               bit(Action::kValidate),
               Repeat::kNo,
               "check the recipe, with the options of all components, and stop"},
    OptionSpec{"print-recipe",
               "",
               bit(Action::kPrintRecipe),
               Repeat::kNo,
               "check the recipe and print it with all its defaults"},
    OptionSpec{"plan",
               "RANKS",
               bit(Action::kPlan),
               Repeat::kNo,
               "print what each of so many ranks would hold, send and take for a step; no\n"
               "device is needed"},
    OptionSpec{"print-schema",
               "",
               bit(Action::kPrintSchema),
               Repeat::kNo,
               "print the JSON Schema of recipes with these plugins, for editors"},
    OptionSpec{"list-plugins",
               "",
               bit(Action::kListPlugins),
               Repeat::kNo,
               "print what the plugin folders hold; no plugin is loaded for it"},
    OptionSpec{"describe",
               "KIND:TYPE",
               bit(Action::kDescribe),
               Repeat::kNo,
               "print what a component is and the options it takes: loss:cross_entropy;\n"
               "with --markdown also of keys of the recipe: recipe, recipe:train,eval"},
    OptionSpec{"explain",
               "ERROR-ID",
               bit(Action::kExplain),
               Repeat::kNo,
               "print what an error means and what to do about it; \"all\" lists the ids"},
    OptionSpec{"trace-diff",
               "A B",
               bit(Action::kTraceDiff),
               Repeat::kNo,
               "compare two files of the hook event_trace and name the first difference"},
    OptionSpec{"inspect",
               "CHECKPOINT",
               bit(Action::kInspect),
               Repeat::kNo,
               "print what is in a checkpoint: the folder of one, or of a run for its\nnewest"},
    OptionSpec{"verify",
               "CHECKPOINT",
               bit(Action::kVerify),
               Repeat::kNo,
               "read all of a checkpoint and hold it against its checksums"},
    OptionSpec{"diff",
               "A B",
               bit(Action::kCheckpointDiff),
               Repeat::kNo,
               "compare two checkpoints: facts, recipes, plugins and each entry"},
    OptionSpec{"table",
               "NAME",
               bit(Action::kShowRow),
               Repeat::kNo,
               "print one row of a table: --id N says which, --from DIR where rows were\n"
               "exported to; with --recipe instead, what the row starts as"},
    OptionSpec{"export",
               "hf|torch PATH",
               bit(Action::kExport),
               Repeat::kNo,
               "write the parameters of the newest checkpoint of --run-dir, or of --from,\n"
               "to a folder that transformers loads (hf), or a file for torch.load (torch)"},
    OptionSpec{"dtype",
               "DTYPE",
               bit(Action::kExport),
               Repeat::kNo,
               "with --export: bf16, f16, f32 or f64 in place of what was trained in"},
    OptionSpec{"file-bytes",
               "BYTES",
               bit(Action::kExport),
               Repeat::kNo,
               "with --export hf: what a file has at most; else 5GB"},
    OptionSpec{"id", "N", bit(Action::kShowRow), Repeat::kNo, "with --table: the row's id"},
    OptionSpec{"from",
               "DIR",
               bit(Action::kShowRow) | bit(Action::kExport),
               Repeat::kNo,
               "with --table: the folder that --export-tables wrote; with --export: a\n"
               "checkpoint"},
    OptionSpec{"json",
               "",
               bit(Action::kListPlugins) | bit(Action::kDescribe) | bit(Action::kPlan) |
                   bit(Action::kShowRow) | bit(Action::kInspect),
               Repeat::kNo,
               "with --list-plugins, --describe, --plan, --table or --inspect: print JSON"},
    OptionSpec{"markdown",
               "",
               bit(Action::kDescribe),
               Repeat::kNo,
               "with --describe: print the options as a Markdown table"},
    OptionSpec{"version", "", bit(Action::kVersion), Repeat::kNo, "print versions"},
    OptionSpec{"help", "", bit(Action::kHelp), Repeat::kNo, "print this"},
};

using Words = std::vector<std::string>;

// How many words follow the option: as many as stand for them in the help.
std::size_t num_values(const OptionSpec& option) {
  return option.value.empty() ? 0
                              : 1 + static_cast<std::size_t>(std::ranges::count(option.value, ' '));
}

std::vector<const OptionSpec*> all_options() {
  std::vector<const OptionSpec*> all;
  all.reserve(kRunOptions.size() + kPlanOptions.size() + kActionOptions.size());
  for (const OptionSpec& option : kRunOptions) {
    all.push_back(&option);
  }
  for (const OptionSpec& option : kPlanOptions) {
    all.push_back(&option);
  }
  for (const OptionSpec& option : kActionOptions) {
    all.push_back(&option);
  }
  return all;
}

const OptionSpec* find_option(std::string_view name) {
  const auto all = all_options();
  const auto found = std::ranges::find(all, name, &OptionSpec::name);
  return found != all.end() ? *found : nullptr;
}

[[noreturn]] void fail(const std::string& message) {
  throw Error("usage.bad_option", message);
}

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

// "; did you mean ...", or what else to do.
std::string hint_of(std::string_view written,
                    const std::vector<std::string>& names,
                    const std::string& otherwise) {
  const std::string hint = did_you_mean(written, names);
  return "; " + (hint.empty() ? otherwise : hint);
}

[[noreturn]] void fail_unknown(std::string_view written) {
  std::vector<std::string> names;
  for (const OptionSpec* const option : all_options()) {
    names.push_back("--" + std::string(option->name));
  }
  const std::string name(written.substr(0, written.find('=')));
  fail("there is no option " + name + hint_of(name, names, "--help lists all options"));
}

// An argument that no option takes is most often a value whose option was forgotten.
[[noreturn]] void fail_positional(const std::string& argument) {
  if (argument.size() > 1 && argument.front() == '-') {
    fail_unknown(argument);
  }
  std::error_code ignored;
  std::string option;
  if (std::filesystem::is_directory(argument, ignored)) {
    option = "--plugin-dir";
  } else if (argument.ends_with(".json")) {
    option = "--recipe";
  } else if (argument.find('=') != std::string::npos) {
    option = "--set";
  }
  const std::vector<std::string> suggested = {option, argument};
  fail("nothing takes the argument " + in_quotes(argument) +
       (option.empty() ? "; --help lists all options"
                       : "; did you mean " + shell_text(suggested) + "?"));
}

[[noreturn]] void fail_without_value(const std::string& name) {
  const OptionSpec* const option = find_option(name);
  fail("--" + name + " needs a value: --" + name + " " +
       std::string(option != nullptr ? option->value : ""));
}

// "--validate", "--recipe=x": what is an option wherever it stands.
bool is_option(std::string_view word) {
  return word.starts_with("--") && find_option(word.substr(2, word.find('=') - 2)) != nullptr;
}

[[noreturn]] void fail_syntax(const po::invalid_command_line_syntax& error) {
  std::string name = error.get_option_name();
  name.erase(0, name.find_first_not_of('-'));
  if (error.kind() == po::invalid_command_line_syntax::extra_parameter) {
    fail("--" + name + " takes no value");
  }
  fail_without_value(name);
}

// The options in the order in which they were given. Boost splits the words, and no more.
std::vector<po::option> split(const std::vector<std::string>& arguments) {
  po::options_description known;
  for (const OptionSpec* const option : all_options()) {
    const std::string name(option->name);
    if (option->value.empty()) {
      known.add_options()(name.c_str(), "");
    } else if (num_values(*option) > 1) {
      known.add_options()(name.c_str(), po::value<Words>()->multitoken(), "");
    } else {
      known.add_options()(name.c_str(), po::value<std::string>(), "");
    }
  }
  // No guessing: an abbreviation that works today would be ambiguous with the options of tomorrow.
  const int style = po::command_line_style::allow_long |
                    po::command_line_style::long_allow_adjacent |
                    po::command_line_style::long_allow_next;
  try {
    return po::command_line_parser(arguments).options(known).style(style).run().options;
  } catch (const po::unknown_option& error) {
    fail_unknown(error.get_option_name());
  } catch (const po::invalid_command_line_syntax& error) {
    fail_syntax(error);
  }
}

using GivenOptions = std::map<std::string, std::vector<std::string>, std::less<>>;

GivenOptions collect(const std::vector<std::string>& arguments) {
  GivenOptions given;
  for (const po::option& option : split(arguments)) {
    if (option.string_key.empty()) {
      const std::string word = option.value.empty() ? "" : option.value.front();
      if (word == "-h") {
        given["help"];
        continue;
      }
      fail_positional(word);
    }
    const OptionSpec* const spec = find_option(option.string_key);
    std::vector<std::string>& values = given[option.string_key];
    const bool is_flag = spec->value.empty();
    if (!is_flag && !values.empty() && spec->repeat == Repeat::kNo) {
      fail("--" + option.string_key + " is given twice: " + in_quotes(values.front()) + " and " +
           in_quotes(option.value.front()));
    }
    if (!is_flag && option.value.front().empty()) {
      fail_without_value(option.string_key);
    }
    if (!is_flag && option.original_tokens.size() > 1 && is_option(option.value.front())) {
      fail_without_value(option.string_key);  // it has swallowed the next option
    }
    if (!is_flag && option.value.size() != num_values(*spec)) {
      fail("--" + option.string_key + " takes " + std::to_string(num_values(*spec)) +
           " values, and " + std::to_string(option.value.size()) + " are given: --" +
           option.string_key + " " + std::string(spec->value));
    }
    values.insert(values.end(), option.value.begin(), option.value.end());
  }
  return given;
}

// The option that asks for an action; "" for training, which none asks for.
std::string_view option_of(Action action) {
  switch (action) {
    case Action::kEvaluate:
      return "eval-only";
    case Action::kValidate:
      return "validate";
    case Action::kPrintRecipe:
      return "print-recipe";
    case Action::kPrintSchema:
      return "print-schema";
    case Action::kPlan:
      return "plan";
    case Action::kListPlugins:
      return "list-plugins";
    case Action::kDescribe:
      return "describe";
    case Action::kExplain:
      return "explain";
    case Action::kTraceDiff:
      return "trace-diff";
    case Action::kShowRow:
      return "table";
    case Action::kInspect:
      return "inspect";
    case Action::kVerify:
      return "verify";
    case Action::kCheckpointDiff:
      return "diff";
    case Action::kExport:
      return "export";
    case Action::kVersion:
      return "version";
    case Action::kHelp:
      return "help";
    case Action::kTrain:
      break;
  }
  return "";
}

Action choose_action(const GivenOptions& given) {
  if (given.contains("help")) {
    return Action::kHelp;  // whoever asks for help beside something else is helped best by it
  }
  Action chosen = Action::kTrain;
  for (const Action action : {Action::kEvaluate,
                              Action::kValidate,
                              Action::kPrintRecipe,
                              Action::kPrintSchema,
                              Action::kPlan,
                              Action::kListPlugins,
                              Action::kDescribe,
                              Action::kExplain,
                              Action::kTraceDiff,
                              Action::kShowRow,
                              Action::kInspect,
                              Action::kVerify,
                              Action::kCheckpointDiff,
                              Action::kExport,
                              Action::kVersion}) {
    if (!given.contains(option_of(action))) {
      continue;
    }
    if (chosen != Action::kTrain) {
      fail("--" + std::string(option_of(chosen)) + " and --" + std::string(option_of(action)) +
           " contradict each other; give one of them");
    }
    chosen = action;
  }
  return chosen;
}

// Refuses what would be without effect.
void check_effects(const GivenOptions& given, Action action) {
  for (const auto& [name, values] : given) {
    const std::uint32_t effective_in = find_option(name)->effective_in;
    if (action == Action::kHelp || (effective_in & bit(action)) != 0) {
      continue;
    }
    if (action == Action::kTrain && name == "markdown") {
      fail("--markdown has no effect on a run; it goes with --describe");
    }
    if (action == Action::kTrain && name == "json") {
      fail(
          "--json has no effect on a run; it goes with --list-plugins, --describe, --plan, "
          "--table or --inspect");
    }
    if (action == Action::kTrain && (name == "id" || name == "from")) {
      fail("--" + name + " has no effect on a run; it goes with --table");
    }
    if (action == Action::kTrain && (name == "dtype" || name == "file-bytes")) {
      fail("--" + name + " has no effect on a run; it goes with --export");
    }
    if (action == Action::kTrain) {
      fail("--" + name + " has no effect on a run; it goes with --plan");
    }
    fail("--" + name + " has no effect with --" + std::string(option_of(action)) +
         "; leave one of them out");
  }
}

LogLevel parse_log_level(const std::string& text) {
  std::vector<std::string> names;
  for (const LogLevel level :
       {LogLevel::kDebug, LogLevel::kInfo, LogLevel::kWarning, LogLevel::kError}) {
    names.emplace_back(log_level_name(level));
    if (names.back() == text) {
      return level;
    }
  }
  fail("--log-level is " + in_quotes(text) + hint_of(text, names, "debug, info, warning or error"));
}

// The device is a value of the recipe, so that a frozen recipe has it.
std::string device_setting(const std::string& name) {
  const bool is_known = name == "auto" || name == "cpu" || name == "cuda";
  const bool is_numbered = name.starts_with("cuda:") && name.size() > 5 &&
                           name.find_first_not_of("0123456789", 5) == std::string::npos;
  if (!is_known && !is_numbered) {
    fail("--device is " + in_quotes(name) + "; it is cpu, cuda, cuda:N or auto");
  }
  return "device=" + in_quotes(name);
}

// A run whose folder is named goes on with what is in it, so that a command can be given again.
ResumeRequest parse_resume(const std::string& text, const CommandLine& line) {
  if (text.empty()) {
    const bool is_again = line.action == Action::kTrain && !line.run_dir.empty();
    return {.from = is_again ? ResumeFrom::kAuto : ResumeFrom::kNone};
  }
  if (text == "auto" || text == "none") {
    return {.from = text == "auto" ? ResumeFrom::kAuto : ResumeFrom::kNone};
  }
  return {.from = ResumeFrom::kPath, .path = text};
}

// "steps=20..25"
StepRange parse_profile(const std::string& text) {
  const auto refuse = [&text](const std::string& why) {
    fail("--profile is " + in_quotes(text) + why);
  };
  constexpr std::string_view kForm = "; it is of the form steps=A..B, as in steps=20..25";
  constexpr std::string_view kKey = "steps=";
  const std::size_t dots = text.find("..");
  if (!text.starts_with(kKey) || dots == std::string::npos) {
    refuse(std::string(kForm));
  }
  const auto number = [&](std::size_t begin, std::size_t end) {
    std::uint64_t value = 0;
    const char* const last = text.data() + end;
    const auto [stop, failed] = std::from_chars(text.data() + begin, last, value);
    if (failed != std::errc() || stop != last) {
      refuse(std::string(kForm));
    }
    return value;
  };
  const StepRange steps{.first = number(kKey.size(), dots), .last = number(dots + 2, text.size())};
  if (steps.first == 0) {
    refuse("; the first step is 1");
  }
  if (steps.first > steps.last) {
    refuse("; the first of its steps comes after the last");
  }
  return steps;
}

// "recipe" or "recipe:train,eval": keys of the recipe, as a table for a page.
bool parse_recipe_keys(const std::string& text, CommandLine& line) {
  constexpr std::string_view kRecipe = "recipe";
  if (!text.starts_with(kRecipe) || (text.size() > kRecipe.size() && text[kRecipe.size()] != ':')) {
    return false;
  }
  if (!line.is_markdown) {
    fail("--describe " + text +
         " goes with --markdown; --print-schema prints the recipe's keys as a JSON Schema");
  }
  std::istringstream keys(text.substr(std::min(text.size(), kRecipe.size() + 1)));
  for (std::string key; std::getline(keys, key, ',');) {
    line.describe_keys.push_back(key);
  }
  return true;
}

void parse_component(const std::string& text, CommandLine& line) {
  if (line.is_json && line.is_markdown) {
    fail("--json and --markdown contradict each other; give one of them");
  }
  if (parse_recipe_keys(text, line)) {
    return;
  }
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size()) {
    fail("--describe is " + in_quotes(text) + "; it is of the form KIND:TYPE, as in loss:mse");
  }
  line.describe_kind = text.substr(0, colon);
  line.describe_type = text.substr(colon + 1);
  if (find_kind(line.describe_kind) == nullptr) {
    std::vector<std::string> kinds;
    std::string list;
    for (const KindEntry& entry : all_kinds()) {
      kinds.emplace_back(entry.kind);
      list += (list.empty() ? "" : ", ") + kinds.back();
    }
    fail("--describe: there is no kind " + in_quotes(line.describe_kind) +
         hint_of(line.describe_kind, kinds, "kinds are " + list));
  }
}

std::int64_t parse_row_id(const std::string& text) {
  std::int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), last, number);
  if (failed != std::errc() || stop != last) {
    fail(text.empty() ? "--table needs the id of a row: --id N"
                      : "--id is " + in_quotes(text) + "; it is a whole number of 64 bits");
  }
  return number;
}

WeightsExport parse_export(const Words& values,
                           const std::string& run_dir,
                           const std::string& from) {
  const std::string& format = values.front();
  if (format != "hf" && format != "torch") {
    fail("--export is " + in_quotes(format) +
         hint_of(format, {"hf", "torch"}, "it is hf or torch"));
  }
  if (run_dir.empty() == from.empty()) {
    fail(from.empty() ? "--export needs what to export: --run-dir RUN, or --from CHECKPOINT"
                      : "--run-dir and --from contradict each other with --export: the newest "
                        "checkpoint of a run, or one; give one of them");
  }
  return {.format = format, .to = values.back(), .run_dir = run_dir, .from = from};
}

std::string parse_export_dtype(const std::string& text) {
  if (!text.empty() && text != "bf16" && text != "f16" && text != "f32" && text != "f64") {
    fail("--dtype is " + in_quotes(text) +
         hint_of(text, {"bf16", "f16", "f32", "f64"}, "it is bf16, f16, f32 or f64"));
  }
  return text;
}

std::uint64_t parse_file_bytes(const std::string& text, const CommandLine& line) {
  if (line.weights_export.format == "torch") {
    fail("--file-bytes has no effect with --export torch, which writes one file");
  }
  constexpr double kMost = 9e18;
  const double bytes = read_bytes("file-bytes", text);
  if (bytes > kMost) {
    fail("--file-bytes is " + in_quotes(text) + "; no file has that many bytes");
  }
  return static_cast<std::uint64_t>(bytes);
}

WeightsImportRequest parse_import(const Words& values) {
  if (values.front() != "hf") {
    fail("--import is " + in_quotes(values.front()) + "; it is hf");
  }
  return {.format = values.front(), .from = values.back()};
}

// As many as anyone would start on one machine, and few enough for a slip of the hand to be told.
constexpr std::uint32_t kMaxRanks = 1024;

std::uint32_t parse_num_ranks(const std::string& text) {
  std::uint32_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), last, number);
  if (failed != std::errc() || stop != last || number == 0 || number > kMaxRanks) {
    fail("--launch is " + in_quotes(text) + "; it is a number of ranks from 1 to " +
         std::to_string(kMaxRanks));
  }
  return number;
}

std::uint32_t parse_max_restarts(const std::string& text) {
  constexpr std::uint32_t kMost = 1000;
  std::uint32_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), last, number);
  if (failed != std::errc() || stop != last || number > kMost) {
    fail("--max-restarts is " + in_quotes(text) + "; it is a number from 0 to " +
         std::to_string(kMost));
  }
  return number;
}

std::uint32_t parse_min_ranks(const std::string& text, const CommandLine& line) {
  if (line.max_restarts < 2) {
    fail(
        "--min-ranks has no effect without --max-restarts of 2 or more: a rank is left out when it "
        "fails the second time");
  }
  std::uint32_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [stop, failed] = std::from_chars(text.data(), last, number);
  if (failed != std::errc() || stop != last || number == 0 || number >= line.num_ranks) {
    fail("--min-ranks is " + in_quotes(text) +
         "; it is a number from 1 on that is below that of --launch, " +
         std::to_string(line.num_ranks));
  }
  return number;
}

Binding parse_binding(const std::string& text) {
  const std::map<std::string, Binding> bindings = {
      {"none", Binding::kNone}, {"cores", Binding::kCores}, {"numa", Binding::kNuma}};
  const auto found = bindings.find(text);
  if (found == bindings.end()) {
    fail("--bind is " + in_quotes(text) +
         hint_of(text, {"none", "cores", "numa"}, "it is none, cores or numa"));
  }
  return found->second;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (true) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return lines;
    }
    text.remove_prefix(end + 1);
  }
}

std::string help_of(std::span<const OptionSpec> options) {
  constexpr std::size_t kColumn = 26;
  std::string text;
  for (const OptionSpec& option : options) {
    std::string start = option.name == "help" ? "  -h, --help" : "  --" + std::string(option.name);
    start += option.value.empty() ? "" : " " + std::string(option.value);
    for (const std::string& line : lines_of(option.help)) {
      start.resize(kColumn, ' ');
      text += start + line + "\n";
      start.clear();
    }
  }
  return text;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  const GivenOptions given = collect(arguments);
  CommandLine line{.action = choose_action(given)};
  check_effects(given, line.action);
  if (line.action == Action::kHelp || line.action == Action::kVersion) {
    return line;
  }
  const auto value_of = [&given](std::string_view name) {
    const auto found = given.find(name);
    return found != given.end() ? found->second.front() : std::string();
  };
  const auto values_of = [&given](std::string_view name) {
    const auto found = given.find(name);
    return found != given.end() ? found->second : std::vector<std::string>();
  };
  line.recipe = value_of("recipe");
  line.plugin_dirs = values_of("plugin-dir");
  line.sets = values_of("set");
  if (given.contains("device")) {
    line.sets.push_back(device_setting(value_of("device")));
  }
  line.run_dir = value_of("run-dir");
  line.resume = parse_resume(value_of("resume"), line);
  if (given.contains("launch")) {
    line.num_ranks = parse_num_ranks(value_of("launch"));
  }
  if (given.contains("bind")) {
    if (!given.contains("launch")) {
      fail("--bind has no effect without --launch: other launchers bind their ranks themselves");
    }
    line.binding = parse_binding(value_of("bind"));
  }
  if (given.contains("max-restarts")) {
    if (!given.contains("launch")) {
      fail(
          "--max-restarts has no effect without --launch: other launchers start their ranks again "
          "themselves");
    }
    line.max_restarts = parse_max_restarts(value_of("max-restarts"));
  }
  if (given.contains("min-ranks")) {
    line.min_ranks = parse_min_ranks(value_of("min-ranks"), line);
  }
  line.is_quiet = given.contains("quiet");
  line.is_json = given.contains("json");
  line.is_markdown = given.contains("markdown");
  line.use_vet_cache = !given.contains("no-vet-cache");
  if (given.contains("log-level")) {
    line.log_level = parse_log_level(value_of("log-level"));
  }
  if (given.contains("profile")) {
    line.profile = parse_profile(value_of("profile"));
  }
  if (line.action == Action::kPlan) {
    line.plan = read_plan_request({.ranks = value_of("plan"),
                                   .ranks_per_node = value_of("ranks-per-node"),
                                   .flops = value_of("flops"),
                                   .memory = value_of("memory"),
                                   .bandwidth_node = value_of("bandwidth-node"),
                                   .bandwidth_network = value_of("bandwidth-network"),
                                   .bandwidth_host = value_of("bandwidth-host"),
                                   .latency = value_of("latency")});
  }
  if (line.action == Action::kDescribe) {
    parse_component(value_of("describe"), line);
  }
  if (line.action == Action::kShowRow) {
    line.table = value_of("table");
    line.row_id = parse_row_id(value_of("id"));
    line.rows_from = value_of("from");
    if (!line.rows_from.empty() && !line.recipe.empty()) {
      fail(
          "--from and --recipe contradict each other: a row that was exported, or what it starts "
          "as; give one of them");
    }
  }
  if (line.action == Action::kExport) {
    line.weights_export = parse_export(values_of("export"), line.run_dir, value_of("from"));
    line.weights_export.dtype = parse_export_dtype(value_of("dtype"));
    if (given.contains("file-bytes")) {
      line.weights_export.file_bytes = parse_file_bytes(value_of("file-bytes"), line);
    }
  }
  if (given.contains("import")) {
    line.weights_import = parse_import(values_of("import"));
    if (line.run_dir.empty() || given.contains("resume")) {
      fail(line.run_dir.empty()
               ? "--import needs the folder of the new run: --run-dir DIR"
               : "--resume and --import contradict each other: an import begins a new run");
    }
    line.resume = {};
  }
  line.tables = {.import_from = value_of("import-tables"),
                 .export_to = value_of("export-tables"),
                 .has_slots = given.contains("export-slots")};
  if (line.resume.from == ResumeFrom::kPath && !line.tables.import_from.empty()) {
    fail(
        "--resume and --import-tables contradict each other: a checkpoint has the rows of all "
        "tables; give one of them");
  }
  if (given.contains("export-slots") && line.tables.export_to.empty()) {
    fail("--export-slots has no effect without --export-tables DIR");
  }
  line.explain_id = value_of("explain");
  line.traces = values_of("trace-diff");
  for (const char* const mode : {"inspect", "verify", "diff"}) {
    if (given.contains(mode)) {
      line.checkpoints = values_of(mode);
    }
  }
  if ((bit(line.action) & kOnRecipe) != 0 && line.recipe.empty() && line.rows_from.empty()) {
    throw Error("usage.missing_recipe", "there is no recipe to work on; name one: --recipe FILE");
  }
  return line;
}

std::string usage_line(const std::string& program) {
  return "usage: " + program + " --recipe FILE [--plugin-dir DIR]... [--set PATH=VALUE]...";
}

std::vector<std::string> arguments_of_rank(const std::vector<std::string>& arguments) {
  constexpr std::string_view kOfLauncher[] = {
      "--launch", "--bind", "--max-restarts", "--min-ranks"};
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (std::ranges::find(kOfLauncher, argument) != std::end(kOfLauncher)) {
      ++i;  // and its value
    } else if (std::ranges::find(kOfLauncher, argument.substr(0, argument.find('='))) ==
               std::end(kOfLauncher)) {
      kept.push_back(arguments[i]);
    }
  }
  return kept;
}

std::string help_text(const std::string& program) {
  return usage_line(program) + "\n       " + program +
         " --list-plugins | --describe KIND:TYPE | --print-schema | --explain ERROR-ID\n"
         "            | --inspect CHECKPOINT | --verify CHECKPOINT | --diff A B\n"
         "            | --export hf|torch PATH --run-dir RUN\n"
         "            | --table NAME --id N --from DIR | --trace-diff A B | --version | --help\n"
         "\n"
         "Trains the model that a recipe describes. Model, data, loss, optimizer and the rest are\n"
         "plugins, found in the plugin folders and named in the recipe.\n"
         "\n"
         "Options:\n" +
         help_of(kRunOptions) +
         "\n"
         "Instead of a run:\n" +
         help_of(kActionOptions) +
         "\n"
         "What --plan counts with:\n" +
         help_of(kPlanOptions) +
         "\n"
         "Environment:\n"
         "  TENON_PLUGIN_PATH       more plugin folders, with colons between them\n"
         "  TENON_VET_TIMEOUT_S     seconds that a plugin may take to load (10)\n"
         "\n"
         "Exit status:\n"
         "   0  done: trained to the end, or stopped early by a hook\n"
         "   1  --trace-diff or --diff found a difference\n"
         "   2  the command line is wrong, or a folder on it cannot be used\n"
         "   3  the recipe is wrong\n"
         "   4  a plugin failed before the first step\n"
         "   5  the run failed after its first step\n"
         "   6  the policy on updates that are not finite ended the run\n"
         "  75  stopped on request before its end: a signal, the kill switch, exit_at_step\n";
}

std::string shell_text(std::span<const std::string> words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  std::string text;
  for (const std::string& word : words) {
    text += text.empty() ? "" : " ";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) {
      text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    text += '\'';
  }
  return text;
}

}  // namespace tenon
