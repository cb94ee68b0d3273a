// SPDX-License-Identifier: Apache-2.0
#include "host/cli/command_line.hpp"

#include "host/error/error.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using Words = std::vector<std::string>;

// "id: message" of what parsing throws, or "no error".
std::string failure(const Words& words) {
  try {
    (void)parse_command_line(words);
  } catch (const Error& error) {
    CHECK(error.exit_code() == ExitCode::kUsage);
    return error.id() + ": " + error.message();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a recipe alone means training", "[cli]") {
  const CommandLine line = parse_command_line({"--recipe", "a.json"});
  CHECK(line == CommandLine{.action = Action::kTrain, .recipe = "a.json"});
}

TEST_CASE("each option of a run is read, with '=' and without", "[cli]") {
  const CommandLine line = parse_command_line({"--plugin-dir",
                                               "a",
                                               "--recipe=r.json",
                                               "--set",
                                               "train.steps=10",
                                               "--plugin-dir=b",
                                               "--set=name=x y",
                                               "--run-dir",
                                               "out",
                                               "--quiet",
                                               "--log-level",
                                               "debug",
                                               "--no-vet-cache"});
  CHECK(line == CommandLine{.action = Action::kTrain,
                            .recipe = "r.json",
                            .plugin_dirs = {"a", "b"},
                            .sets = {"train.steps=10", "name=x y"},
                            .run_dir = "out",
                            .resume = {.from = ResumeFrom::kAuto},
                            .log_level = LogLevel::kDebug,
                            .is_quiet = true,
                            .use_vet_cache = false});
}

TEST_CASE("a run in a folder that is named goes on with what is in it", "[cli]") {
  const auto resume = [](Words words) {
    words.insert(words.begin(), {"--recipe", "a.json"});
    return parse_command_line(words).resume;
  };
  CHECK(resume({}) == ResumeRequest{.from = ResumeFrom::kNone});
  CHECK(resume({"--run-dir", "out"}) == ResumeRequest{.from = ResumeFrom::kAuto});
  CHECK(resume({"--run-dir", "out", "--resume", "none"}).from == ResumeFrom::kNone);
  CHECK(resume({"--resume", "auto"}).from == ResumeFrom::kAuto);
  CHECK(resume({"--resume=runs/one"}) ==
        ResumeRequest{.from = ResumeFrom::kPath, .path = "runs/one"});
  CHECK(resume({"--resume=./auto"}).path == "./auto");
  // An evaluation is of what is asked for, not of what happens to be there.
  CHECK(resume({"--eval-only", "--run-dir", "out"}).from == ResumeFrom::kNone);
  CHECK(resume({"--eval-only", "--resume", "auto"}).from == ResumeFrom::kAuto);
}

TEST_CASE("what --resume has no effect on, or contradicts, is refused", "[cli]") {
  CHECK_THAT(failure({"--recipe", "a", "--resume"}),
             contains_text("--resume needs a value: --resume auto|none|PATH"));
  CHECK_THAT(failure({"--recipe", "a", "--validate", "--resume", "auto"}),
             contains_text("--resume has no effect with --validate"));
  CHECK_THAT(failure({"--recipe", "a", "--resume", "b", "--import-tables", "c"}),
             contains_text("--resume and --import-tables contradict each other"));
  CHECK(failure({"--recipe", "a", "--resume", "auto", "--import-tables", "c"}) == "no error");
  CHECK(failure({"--recipe", "a", "--resume", "none", "--import-tables", "c"}) == "no error");
}

TEST_CASE("a value may begin with a dash where no option has that name", "[cli]") {
  CHECK(parse_command_line({"--recipe", "-", "--set", "-x=1"}).sets == Words{"-x=1"});
}

TEST_CASE("an option does not take the next one for its value", "[cli]") {
  CHECK_THAT(failure({"--recipe", "--validate"}), contains_text("--recipe needs a value"));
  CHECK_THAT(failure({"--set", "--recipe=a"}), contains_text("--set needs a value"));
  CHECK(parse_command_line({"--recipe=--quiet"}).recipe == "--quiet");
}

TEST_CASE("each action has its option", "[cli]") {
  CHECK(parse_command_line({"--recipe", "a", "--validate"}).action == Action::kValidate);
  CHECK(parse_command_line({"--recipe", "a", "--eval-only"}).action == Action::kEvaluate);
  CHECK(parse_command_line({"--recipe", "a", "--eval-only", "--run-dir", "b"}).run_dir == "b");
  CHECK(parse_command_line({"--recipe", "a", "--print-recipe"}).action == Action::kPrintRecipe);
  CHECK(parse_command_line({"--list-plugins"}).action == Action::kListPlugins);
  CHECK(parse_command_line({"--version"}).action == Action::kVersion);
  CHECK(parse_command_line({"--help"}).action == Action::kHelp);
  CHECK(parse_command_line({"-h"}).action == Action::kHelp);
  const CommandLine line = parse_command_line({"--describe", "loss:org.x/mse", "--json"});
  CHECK(line.action == Action::kDescribe);
  CHECK(line.describe_kind == "loss");
  CHECK(line.describe_type == "org.x/mse");
  CHECK(line.is_json);
  const CommandLine explain = parse_command_line({"--explain", "recipe.syntax"});
  CHECK(explain.action == Action::kExplain);
  CHECK(explain.explain_id == "recipe.syntax");
}

TEST_CASE("keys of the recipe are described as a table for a page", "[cli]") {
  const CommandLine all = parse_command_line({"--describe", "recipe", "--markdown"});
  CHECK(all.describe_kind.empty());
  CHECK(all.describe_keys.empty());
  CHECK(all.is_markdown);
  CHECK(parse_command_line({"--describe", "recipe:train,eval", "--markdown"}).describe_keys ==
        Words{"train", "eval"});
  CHECK_THAT(failure({"--describe", "recipe:train"}), contains_text("goes with --markdown"));
  CHECK_THAT(failure({"--describe", "loss:mse", "--json", "--markdown"}),
             contains_text("contradict each other"));
  CHECK_THAT(failure({"--recipe", "a.json", "--markdown"}), contains_text("goes with --describe"));
  CHECK_THAT(failure({"--list-plugins", "--markdown"}), contains_text("has no effect"));
}

TEST_CASE("a schema is printed without a recipe", "[cli]") {
  const CommandLine line = parse_command_line({"--print-schema", "--plugin-dir", "p"});
  CHECK(line.action == Action::kPrintSchema);
  CHECK(line.plugin_dirs == Words{"p"});
  CHECK_THAT(failure({"--print-schema", "--recipe", "a.json"}), contains_text("has no effect"));
}

TEST_CASE("two traces are compared, and not one or three", "[cli]") {
  const CommandLine line = parse_command_line({"--trace-diff", "a", "b"});
  CHECK(line.action == Action::kTraceDiff);
  CHECK(line.traces == Words{"a", "b"});
  CHECK(failure({"--trace-diff", "a"}) ==
        "usage.bad_option: --trace-diff takes 2 values, and 1 are given: --trace-diff A B");
  CHECK_THAT(failure({"--trace-diff", "a", "b", "c"}), contains_text("and 3 are given"));
  CHECK_THAT(failure({"--trace-diff"}), contains_text("--trace-diff needs a value"));
  CHECK_THAT(failure({"--trace-diff", "a", "b", "--trace-diff", "c", "d"}),
             contains_text("is given twice"));
  CHECK_THAT(failure({"--trace-diff", "a", "b", "--json"}), contains_text("has no effect"));
}

TEST_CASE("weights are exported from a run or a checkpoint, and imported to a new run", "[cli]") {
  const CommandLine run =
      parse_command_line({"--export", "hf", "out", "--run-dir", "runs/a", "--file-bytes", "1GB"});
  CHECK(run.action == Action::kExport);
  CHECK(run.weights_export ==
        WeightsExport{.format = "hf", .to = "out", .run_dir = "runs/a", .file_bytes = 1000000000});
  const CommandLine one =
      parse_command_line({"--export", "torch", "a.pt", "--from", "runs/a", "--dtype", "bf16"});
  CHECK(one.weights_export ==
        WeightsExport{.format = "torch", .to = "a.pt", .from = "runs/a", .dtype = "bf16"});
  CHECK_THAT(failure({"--export", "hf", "out"}), contains_text("--run-dir RUN"));
  CHECK_THAT(failure({"--export", "hf", "out", "--run-dir", "a", "--from", "b"}),
             contains_text("contradict each other"));
  CHECK_THAT(failure({"--export", "tf", "out", "--run-dir", "a"}), contains_text("--export is"));
  CHECK_THAT(failure({"--export", "hf", "out", "--run-dir", "a", "--dtype", "int8"}),
             contains_text("bf16, f16, f32 or f64"));
  CHECK_THAT(failure({"--export", "torch", "out", "--run-dir", "a", "--file-bytes", "1GB"}),
             contains_text("which writes one file"));
  CHECK_THAT(failure({"--export", "hf", "out", "--run-dir", "a", "--file-bytes", "none"}),
             contains_text("--file-bytes"));
  CHECK_THAT(failure({"--recipe", "r", "--dtype", "bf16"}), contains_text("goes with --export"));

  const CommandLine imported =
      parse_command_line({"--recipe", "r", "--import", "hf", "in", "--run-dir", "runs/b"});
  CHECK(imported.action == Action::kTrain);
  CHECK(imported.weights_import == WeightsImportRequest{.format = "hf", .from = "in"});
  CHECK(imported.resume == ResumeRequest{});
  CHECK_THAT(failure({"--recipe", "r", "--import", "hf", "in"}), contains_text("--run-dir DIR"));
  CHECK_THAT(failure({"--recipe", "r", "--import", "torch", "in", "--run-dir", "b"}),
             contains_text("--import is"));
  CHECK_THAT(
      failure({"--recipe", "r", "--import", "hf", "in", "--run-dir", "b", "--resume", "auto"}),
      contains_text("contradict each other"));
}

TEST_CASE("checkpoints are inspected, verified and compared without a recipe", "[cli]") {
  const CommandLine inspect = parse_command_line({"--inspect", "runs/a", "--json"});
  CHECK(inspect.action == Action::kInspect);
  CHECK(inspect.checkpoints == Words{"runs/a"});
  CHECK(inspect.is_json);
  const CommandLine verify = parse_command_line({"--verify=runs/a/checkpoints/b"});
  CHECK(verify.action == Action::kVerify);
  CHECK(verify.checkpoints == Words{"runs/a/checkpoints/b"});
  const CommandLine diff = parse_command_line({"--diff", "a", "b"});
  CHECK(diff.action == Action::kCheckpointDiff);
  CHECK(diff.checkpoints == Words{"a", "b"});
  CHECK(failure({"--diff", "a"}) ==
        "usage.bad_option: --diff takes 2 values, and 1 are given: --diff A B");
  CHECK_THAT(failure({"--inspect"}), contains_text("--inspect needs a value"));
  CHECK_THAT(failure({"--inspect", "a", "--verify", "a"}), contains_text("contradict each other"));
  CHECK_THAT(failure({"--inspect", "a", "--recipe", "b"}),
             contains_text("--recipe has no effect with --inspect"));
  CHECK_THAT(failure({"--verify", "a", "--json"}),
             contains_text("--json has no effect with --verify"));
  CHECK_THAT(failure({"--verify", "a", "--resume", "auto"}),
             contains_text("--resume has no effect with --verify"));
}

TEST_CASE("a row is shown of a folder, or as its recipe has it start", "[cli]") {
  const CommandLine exported = parse_command_line(
      {"--table", "user", "--id=-9223372036854775808", "--from", "rows", "--json"});
  CHECK(exported.action == Action::kShowRow);
  CHECK(exported.table == "user");
  CHECK(exported.row_id == INT64_MIN);
  CHECK(exported.rows_from == "rows");
  CHECK(exported.is_json);
  const CommandLine fresh = parse_command_line({"--recipe", "r", "--table", "user", "--id", "42"});
  CHECK(fresh.recipe == "r");
  CHECK(fresh.row_id == 42);
  CHECK_THAT(failure({"--table", "user"}), contains_text("--table needs the id of a row: --id N"));
  CHECK_THAT(failure({"--table", "user", "--id", "x", "--from", "d"}),
             contains_text("--id is \"x\"; it is a whole number"));
  CHECK(failure({"--table", "user", "--id", "1"}) ==
        "usage.missing_recipe: there is no recipe to work on; name one: --recipe FILE");
  CHECK_THAT(failure({"--table", "user", "--id", "1", "--from", "d", "--recipe", "r"}),
             contains_text("--from and --recipe contradict each other"));
  CHECK_THAT(failure({"--recipe", "r", "--id", "1"}), contains_text("it goes with --table"));
}

TEST_CASE("a run takes rows from one folder and leaves them in another", "[cli]") {
  const CommandLine line = parse_command_line(
      {"--recipe", "r", "--import-tables", "a", "--export-tables", "b", "--export-slots"});
  CHECK(line.tables == TableFolders{.import_from = "a", .export_to = "b", .has_slots = true});
  CHECK(parse_command_line({"--recipe", "r", "--eval-only", "--import-tables", "a"})
            .tables.import_from == "a");
  CHECK_THAT(failure({"--recipe", "r", "--eval-only", "--export-tables", "a"}),
             contains_text("has no effect"));
  CHECK_THAT(failure({"--recipe", "r", "--export-slots"}),
             contains_text("--export-slots has no effect without --export-tables DIR"));
}

TEST_CASE("help is given beside whatever else is asked for", "[cli]") {
  CHECK(parse_command_line({"--validate", "--list-plugins", "--help"}).action == Action::kHelp);
}

TEST_CASE("an option that is not there is answered with the nearest name", "[cli]") {
  CHECK(failure({"--recpie", "a.json"}) ==
        "usage.bad_option: there is no option --recpie; did you mean \"--recipe\"?");
  CHECK(failure({"--recipe", "a.json", "--plugin_dir=b"}) ==
        "usage.bad_option: there is no option --plugin_dir; did you mean \"--plugin-dir\"?");
  CHECK(failure({"-recipe", "a.json"}) ==
        "usage.bad_option: there is no option -recipe; did you mean \"--recipe\"?");
  CHECK(failure({"--frobnicate"}) ==
        "usage.bad_option: there is no option --frobnicate; --help lists all options");
}

TEST_CASE("an abbreviation is not guessed", "[cli]") {
  CHECK_THAT(failure({"--rec", "a.json"}), contains_text("there is no option --rec; did you mean"));
}

TEST_CASE("an argument without an option is refused with what was likely meant", "[cli]") {
  const ScratchFolder folder;
  CHECK(failure({"recipes/a b.json"}) ==
        "usage.bad_option: nothing takes the argument \"recipes/a b.json\"; did you mean --recipe "
        "'recipes/a b.json'?");
  CHECK_THAT(failure({"--recipe", "a.json", "train.steps=3"}),
             contains_text("did you mean --set train.steps=3?"));
  CHECK_THAT(failure({folder.path().string()}), contains_text("did you mean --plugin-dir /"));
  CHECK_THAT(failure({"train"}), contains_text("\"train\"; --help lists all options"));
  CHECK_THAT(failure({"--recipe", "a.json", "--", "b.json"}), contains_text("\"b.json\""));
}

TEST_CASE("an option that needs a value says so, and one without takes none", "[cli]") {
  CHECK(failure({"--recipe"}) == "usage.bad_option: --recipe needs a value: --recipe FILE");
  CHECK(failure({"--recipe="}) == "usage.bad_option: --recipe needs a value: --recipe FILE");
  CHECK(failure({"--recipe", ""}) == "usage.bad_option: --recipe needs a value: --recipe FILE");
  CHECK(failure({"--quiet=yes"}) == "usage.bad_option: --quiet takes no value");
}

TEST_CASE("an option that stands for one thing is given once", "[cli]") {
  CHECK(failure({"--recipe", "a", "--recipe", "b"}) ==
        "usage.bad_option: --recipe is given twice: \"a\" and \"b\"");
}

TEST_CASE("actions that contradict each other are refused", "[cli]") {
  CHECK(failure({"--recipe", "a", "--validate", "--print-recipe"}) ==
        "usage.bad_option: --validate and --print-recipe contradict each other; give one of them");
  CHECK_THAT(failure({"--list-plugins", "--describe", "loss:x"}), contains_text("contradict"));
  CHECK(failure({"--recipe", "a", "--validate", "--eval-only"}) ==
        "usage.bad_option: --eval-only and --validate contradict each other; give one of them");
}

TEST_CASE("an option without effect is refused", "[cli]") {
  CHECK(failure({"--recipe", "a", "--json"}) ==
        "usage.bad_option: --json has no effect on a run; it goes with --list-plugins, "
        "--describe, --plan, --table or --inspect");
  CHECK(failure({"--recipe", "a", "--memory", "80GiB"}) ==
        "usage.bad_option: --memory has no effect on a run; it goes with --plan");
  CHECK(failure({"--recipe", "a", "--validate", "--run-dir", "out"}) ==
        "usage.bad_option: --run-dir has no effect with --validate; leave one of them out");
  CHECK_THAT(failure({"--list-plugins", "--recipe", "a"}), contains_text("--recipe has no effect"));
  CHECK_THAT(failure({"--describe", "loss:x", "--set", "a=1"}),
             contains_text("--set has no effect"));
  CHECK_THAT(failure({"--recipe", "a", "--eval-only", "--json"}),
             contains_text("--json has no effect with --eval-only"));
  CHECK_THAT(failure({"--version", "--quiet"}), contains_text("--quiet has no effect"));
}

TEST_CASE("a run needs a recipe", "[cli]") {
  for (const Words& words :
       {Words{}, Words{"--validate"}, Words{"--print-recipe", "--set", "a=1"}}) {
    CHECK(failure(words) ==
          "usage.missing_recipe: there is no recipe to work on; name one: --recipe FILE");
  }
}

TEST_CASE("a log level is one of four", "[cli]") {
  CHECK(failure({"--recipe", "a", "--log-level", "warn"}) ==
        "usage.bad_option: --log-level is \"warn\"; did you mean \"warning\"?");
  CHECK(failure({"--recipe", "a", "--log-level", "7"}) ==
        "usage.bad_option: --log-level is \"7\"; debug, info, warning or error");
}

TEST_CASE("the steps of a profile are a range that begins at 1 or later", "[cli]") {
  const auto steps_of = [](const std::string& text) {
    return parse_command_line({"--recipe", "a", "--profile", text}).profile;
  };
  CHECK(steps_of("steps=20..25") == StepRange{.first = 20, .last = 25});
  CHECK(steps_of("steps=1..1") == StepRange{.first = 1, .last = 1});
  CHECK(!parse_command_line({"--recipe", "a"}).profile.has_value());
  for (const std::string text : {"20..25",
                                 "steps=20",
                                 "steps=..",
                                 "steps=2..",
                                 "steps=..2",
                                 "steps=a..b",
                                 "steps=1..2x",
                                 "steps= 1..2",
                                 "steps=-1..2",
                                 "steps=1...2",
                                 "steps=1..99999999999999999999"}) {
    CHECK(failure({"--recipe", "a", "--profile", text}) ==
          "usage.bad_option: --profile is \"" + text +
              "\"; it is of the form steps=A..B, as in steps=20..25");
  }
  CHECK(failure({"--recipe", "a", "--profile", "steps=0..3"}) ==
        "usage.bad_option: --profile is \"steps=0..3\"; the first step is 1");
  CHECK(failure({"--recipe", "a", "--profile", "steps=4..3"}) ==
        "usage.bad_option: --profile is \"steps=4..3\"; the first of its steps comes after the "
        "last");
  CHECK_THAT(failure({"--recipe", "a", "--validate", "--profile", "steps=1..2"}),
             contains_text("--profile has no effect with --validate"));
}

TEST_CASE("ranks are started and bound as the command line says", "[cli]") {
  const CommandLine alone = parse_command_line({"--recipe", "a"});
  CHECK(alone.num_ranks == 0);
  const CommandLine four = parse_command_line({"--recipe", "a", "--launch", "4"});
  CHECK(four.num_ranks == 4);
  CHECK(four.binding == Binding::kNuma);
  const auto binding_of = [](const std::string& name) {
    return parse_command_line({"--recipe", "a", "--launch=2", "--bind", name}).binding;
  };
  CHECK(binding_of("none") == Binding::kNone);
  CHECK(binding_of("cores") == Binding::kCores);
  CHECK(binding_of("numa") == Binding::kNuma);
  for (const std::string text : {"0", "-1", "1025", "two", "2x", "99999999999"}) {
    CHECK(failure({"--recipe", "a", "--launch", text}) ==
          "usage.bad_option: --launch is \"" + text + "\"; it is a number of ranks from 1 to 1024");
  }
  CHECK(failure({"--recipe", "a", "--launch", "2", "--bind", "core"}) ==
        "usage.bad_option: --bind is \"core\"; did you mean \"cores\"?");
  CHECK(failure({"--recipe", "a", "--bind", "cores"}) ==
        "usage.bad_option: --bind has no effect without --launch: other launchers bind their ranks "
        "themselves");
  CHECK(four.max_restarts == 0);
  CHECK(parse_command_line({"--recipe", "a", "--launch=2", "--max-restarts", "3"}).max_restarts ==
        3);
  for (const std::string text : {"-1", "1001", "some"}) {
    CHECK(failure({"--recipe", "a", "--launch", "2", "--max-restarts", text}) ==
          "usage.bad_option: --max-restarts is \"" + text + "\"; it is a number from 0 to 1000");
  }
  CHECK(failure({"--recipe", "a", "--max-restarts", "3"}) ==
        "usage.bad_option: --max-restarts has no effect without --launch: other launchers start "
        "their ranks again themselves");
  const Words restarted = {"--recipe", "a", "--launch=4", "--max-restarts", "2", "--min-ranks"};
  const auto with = [&](const std::string& text) {
    Words words = restarted;
    words.push_back(text);
    return words;
  };
  CHECK(parse_command_line(with("3")).min_ranks == 3);
  for (const std::string text : {"0", "4", "some"}) {
    CHECK(failure(with(text)) == "usage.bad_option: --min-ranks is \"" + text +
                                     "\"; it is a number from 1 on that is below that of "
                                     "--launch, 4");
  }
  CHECK(failure({"--recipe", "a", "--launch=4", "--max-restarts=1", "--min-ranks=2"}) ==
        "usage.bad_option: --min-ranks has no effect without --max-restarts of 2 or more: a rank "
        "is left out when it fails the second time");
  CHECK_THAT(failure({"--recipe", "a", "--print-recipe", "--launch", "2"}),
             contains_text("--launch has no effect with --print-recipe"));
}

TEST_CASE("a rank gets all arguments but those that start ranks", "[cli]") {
  CHECK(arguments_of_rank({"--launch", "2", "--recipe", "a", "--bind=cores", "--set", "name=x"}) ==
        Words{"--recipe", "a", "--set", "name=x"});
  CHECK(arguments_of_rank({"--recipe", "a", "--launch=2", "--bind", "none"}) ==
        Words{"--recipe", "a"});
  CHECK(arguments_of_rank(
            {"--max-restarts", "2", "--recipe", "a", "--max-restarts=3", "--min-ranks", "1"}) ==
        Words{"--recipe", "a"});
}

TEST_CASE("what is to be described has a kind and a type", "[cli]") {
  for (const std::string text : {"mse", ":mse", "loss:"}) {
    CHECK(failure({"--describe", text}) == "usage.bad_option: --describe is \"" + text +
                                               "\"; it is of the form KIND:TYPE, as in loss:mse");
  }
  CHECK(failure({"--describe", "los:mse"}) ==
        "usage.bad_option: --describe: there is no kind \"los\"; did you mean \"loss\"?");
  CHECK_THAT(failure({"--describe", "quux:mse"}), contains_text("kinds are model, dataset, "));
}

TEST_CASE("the help names every option, in lines that fit a terminal", "[cli]") {
  const std::string help = help_text("tenon");
  for (const std::string name : {"recipe FILE",
                                 "plugin-dir DIR",
                                 "set PATH=VALUE",
                                 "run-dir DIR",
                                 "resume auto|none|PATH",
                                 "quiet",
                                 "log-level LEVEL",
                                 "profile steps=A..B",
                                 "no-vet-cache",
                                 "eval-only",
                                 "validate",
                                 "print-recipe",
                                 "list-plugins",
                                 "describe KIND:TYPE",
                                 "explain ERROR-ID",
                                 "trace-diff A B",
                                 "table NAME",
                                 "import-tables DIR",
                                 "export-tables DIR",
                                 "export-slots",
                                 "json",
                                 "version",
                                 "help"}) {
    CHECK_THAT(help, contains_text("--" + name));
  }
  CHECK(help.rfind("usage: tenon --recipe FILE", 0) == 0);
  for (std::size_t start = 0; start < help.size();) {
    const std::size_t end = help.find('\n', start);
    INFO(help.substr(start, end - start));
    CHECK(end - start <= 100);
    start = end + 1;
  }
}

TEST_CASE("a command is written as a shell would read it again", "[cli]") {
  CHECK(shell_text(Words{"host", "--recipe=r.json", "--set", "name=\"a b\"", "it's", ""}) ==
        "host --recipe=r.json --set 'name=\"a b\"' 'it'\\''s' ''");
}

}  // namespace tenon
