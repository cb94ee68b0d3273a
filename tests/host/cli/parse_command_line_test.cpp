// SPDX-License-Identifier: Apache-2.0
#include "host/cli/parse_command_line.hpp"

#include "host/cli/all_actions.hpp"

#include <set>
#include <utility>
#include <vector>

#include "tests/host/cli/usage_failure.hpp"
#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a recipe alone means training", "[cli]") {
  const CommandLine line = parse_command_line({"--recipe", "a.json"});
  CHECK(line == CommandLine{.action = &kTrainAction, .recipe = "a.json"});
}

TEST_CASE("each action has its option", "[cli]") {
  CHECK(parse_command_line({"--recipe", "a", "--validate"}).action == &kValidateAction);
  CHECK(parse_command_line({"--recipe", "a", "--eval-only"}).action == &kEvaluateAction);
  CHECK(parse_command_line({"--recipe", "a", "--eval-only", "--run-dir", "b"}).run_dir == "b");
  CHECK(parse_command_line({"--recipe", "a", "--print-recipe"}).action == &kPrintRecipeAction);
  CHECK(parse_command_line({"--list-plugins"}).action == &kListPluginsAction);
  CHECK(parse_command_line({"--version"}).action == &kPrintVersionAction);
  CHECK(parse_command_line({"--help"}).action == &kPrintHelpAction);
  CHECK(parse_command_line({"-h"}).action == &kPrintHelpAction);
  CHECK(parse_command_line({"--recipe", "a", "--lock"}).action == &kLockAction);
  CHECK(parse_command_line({"--recipe", "a", "--process-data"}).action == &kProcessDataAction);
  const CommandLine line = parse_command_line({"--describe", "loss:org.x/mse", "--json"});
  CHECK(line.action == &kDescribeAction);
  CHECK(line.describe_kind == "loss");
  CHECK(line.describe_type == "org.x/mse");
  CHECK(line.is_json);
  const CommandLine explain = parse_command_line({"--explain", "recipe.syntax"});
  CHECK(explain.action == &kExplainAction);
  CHECK(explain.explain_id == "recipe.syntax");
}

TEST_CASE("each action that loads plugins takes the rules for them", "[cli]") {
  for (const Words& words : {Words{"--recipe", "a"},
                             Words{"--recipe", "a", "--eval-only"},
                             Words{"--recipe", "a", "--validate"},
                             Words{"--recipe", "a", "--print-recipe"},
                             Words{"--recipe", "a", "--lock"},
                             Words{"--recipe", "a", "--plan", "2"},
                             Words{"--recipe", "a", "--table", "t", "--id", "1"},
                             Words{"--export", "hf", "d", "--run-dir", "r"},
                             Words{"--list-plugins"},
                             Words{"--print-schema"},
                             Words{"--describe", "loss:mse"}}) {
    CHECK(parse_command_line(words).trust.empty());
    CHECK_FALSE(parse_command_line(words).allows_writable_plugins);
    Words more = words;
    more.insert(more.end(), {"--trust", "keys", "--allow-writable-plugins"});
    CHECK(parse_command_line(more).trust == "keys");
    CHECK(parse_command_line(more).allows_writable_plugins);
  }
}

TEST_CASE("a schema is printed without a recipe", "[cli]") {
  const CommandLine line = parse_command_line({"--print-schema", "--plugin-dir", "p"});
  CHECK(line.action == &kPrintSchemaAction);
  CHECK(line.plugin_dirs == Words{"p"});
  CHECK_THAT(usage_failure({"--print-schema", "--recipe", "a.json"}),
             contains_text("has no effect"));
}

TEST_CASE("checkpoints are inspected, verified and compared without a recipe", "[cli]") {
  const CommandLine inspect = parse_command_line({"--inspect", "runs/a", "--json"});
  CHECK(inspect.action == &kInspectAction);
  CHECK(inspect.checkpoints == Words{"runs/a"});
  CHECK(inspect.is_json);
  const CommandLine verify = parse_command_line({"--verify=runs/a/checkpoints/b"});
  CHECK(verify.action == &kVerifyAction);
  CHECK(verify.checkpoints == Words{"runs/a/checkpoints/b"});
  const CommandLine diff = parse_command_line({"--diff", "a", "b"});
  CHECK(diff.action == &kCompareCheckpointsAction);
  CHECK(diff.checkpoints == Words{"a", "b"});
  CHECK(usage_failure({"--diff", "a"}) ==
        "usage.bad_option: --diff: expected 2 values, found 1; give --diff A B");
  CHECK_THAT(usage_failure({"--inspect"}), contains_text("--inspect needs a value"));
  CHECK_THAT(usage_failure({"--inspect", "a", "--verify", "a"}),
             contains_text("contradict each other"));
  CHECK_THAT(usage_failure({"--inspect", "a", "--recipe", "b"}),
             contains_text("--recipe has no effect with --inspect"));
  CHECK_THAT(usage_failure({"--verify", "a", "--json"}),
             contains_text("--json has no effect with --verify"));
  CHECK_THAT(usage_failure({"--verify", "a", "--resume", "auto"}),
             contains_text("--resume has no effect with --verify"));
}

TEST_CASE("help is given beside whatever else is asked for", "[cli]") {
  CHECK(parse_command_line({"--validate", "--list-plugins", "--help"}).action == &kPrintHelpAction);
}

TEST_CASE("actions that contradict each other are refused", "[cli]") {
  CHECK(usage_failure({"--recipe", "a", "--validate", "--print-recipe"}) ==
        "usage.bad_option: --validate and --print-recipe contradict each other; give one of them");
  CHECK_THAT(usage_failure({"--list-plugins", "--describe", "loss:x"}),
             contains_text("contradict"));
  CHECK(usage_failure({"--recipe", "a", "--validate", "--eval-only"}) ==
        "usage.bad_option: --eval-only and --validate contradict each other; give one of them");
}

TEST_CASE("an option without effect is refused", "[cli]") {
  CHECK(usage_failure({"--recipe", "a", "--json"}) ==
        "usage.bad_option: --json has no effect on a run; it goes with --plan, "
        "--list-plugins, --describe, --check-plugin, --list-checks, --inspect or --table");
  CHECK(usage_failure({"--recipe", "a", "--memory", "80GiB"}) ==
        "usage.bad_option: --memory has no effect on a run; it goes with --plan");
  CHECK(usage_failure({"--recipe", "a", "--validate", "--run-dir", "out"}) ==
        "usage.bad_option: --run-dir has no effect with --validate; remove one of them");
  CHECK_THAT(usage_failure({"--list-plugins", "--recipe", "a"}),
             contains_text("--recipe has no effect"));
  CHECK_THAT(usage_failure({"--describe", "loss:x", "--set", "a=1"}),
             contains_text("--set has no effect"));
  CHECK_THAT(usage_failure({"--recipe", "a", "--eval-only", "--json"}),
             contains_text("--json has no effect with --eval-only"));
  CHECK_THAT(usage_failure({"--version", "--quiet"}), contains_text("--quiet has no effect"));
}

TEST_CASE("a verb with its values means the same as the option of the action", "[cli]") {
  const std::vector<std::pair<Words, Words>> same = {
      {{"train", "--recipe", "a", "--quiet"}, {"--recipe", "a", "--quiet"}},
      {{"evaluate", "--recipe", "a"}, {"--eval-only", "--recipe", "a"}},
      {{"validate", "--recipe", "a"}, {"--validate", "--recipe", "a"}},
      {{"print-recipe", "--recipe", "a"}, {"--print-recipe", "--recipe", "a"}},
      {{"lock", "--recipe", "a"}, {"--lock", "--recipe", "a"}},
      {{"plan", "8", "--recipe", "a"}, {"--recipe", "a", "--plan", "8"}},
      {{"schedule", "1f1b", "--ranks", "2", "--microbatches", "3"},
       {"--ranks", "2", "--microbatches", "3", "--schedule", "1f1b"}},
      {{"process-data", "--recipe", "a"}, {"--process-data", "--recipe", "a"}},
      {{"print-schema"}, {"--print-schema"}},
      {{"list-plugins", "--json"}, {"--json", "--list-plugins"}},
      {{"describe", "loss:mse", "--json"}, {"--describe", "loss:mse", "--json"}},
      {{"new-plugin", "loss", "focal"}, {"--new-plugin", "loss", "focal"}},
      {{"check-plugin", "a.so", "--seed", "1"}, {"--check-plugin", "a.so", "--seed", "1"}},
      {{"list-checks"}, {"--list-checks"}},
      {{"explain", "recipe.syntax"}, {"--explain", "recipe.syntax"}},
      {{"inspect", "runs/a"}, {"--inspect", "runs/a"}},
      {{"verify", "runs/a"}, {"--verify", "runs/a"}},
      {{"diff", "a", "b"}, {"--diff", "a", "b"}},
      {{"trace-diff", "a", "b"}, {"--trace-diff", "a", "b"}},
      {{"show-row", "t", "--id", "1", "--recipe", "a"},
       {"--table", "t", "--id", "1", "--recipe", "a"}},
      {{"export", "hf", "d", "--run-dir", "r"}, {"--export", "hf", "d", "--run-dir", "r"}},
      {{"generate", "--run-dir", "r", "--prompt", "x"},
       {"--generate", "--run-dir", "r", "--prompt", "x"}},
      {{"print-completion", "bash"}, {"--print-completion", "bash"}},
      {{"print-man"}, {"--print-man"}},
      {{"version"}, {"--version"}},
      {{"help"}, {"--help"}}};
  std::set<const Action*> tried;
  for (const auto& [verb, option] : same) {
    CAPTURE(verb.front());
    const CommandLine line = parse_command_line(verb);
    CHECK(line == parse_command_line(option));
    CHECK(line.action->verb == verb.front());
    tried.insert(line.action);
  }
  CHECK(tried.size() == all_actions().size());
}

TEST_CASE("a word that is no verb is answered with the nearest one", "[cli]") {
  CHECK(usage_failure({"trian", "--recipe", "a"}) ==
        "usage.bad_option: there is no verb trian; did you mean \"train\"?");
  CHECK(usage_failure({"chek-plugin", "a.so"}) ==
        "usage.bad_option: there is no verb chek-plugin; did you mean \"check-plugin\"?");
  CHECK(usage_failure({"frobnicate"}) ==
        "usage.bad_option: there is no verb frobnicate; --help lists all verbs");
  // A verb comes first.
  CHECK_THAT(usage_failure({"--recipe", "a", "validate"}),
             contains_text("no option takes the argument \"validate\""));
}

TEST_CASE("a verb and an option of an action are refused together", "[cli]") {
  CHECK(usage_failure({"plan", "8", "--recipe", "a", "--plan", "8"}) ==
        "usage.bad_option: plan and --plan mean the same; remove --plan");
  CHECK(usage_failure({"plan", "8", "--recipe", "a", "--plan=8"}) ==
        "usage.bad_option: plan and --plan mean the same; remove --plan");
  CHECK(usage_failure({"validate", "--recipe", "a", "--validate"}) ==
        "usage.bad_option: validate and --validate mean the same; remove --validate");
  CHECK(usage_failure({"validate", "--recipe", "a", "--lock"}) ==
        "usage.bad_option: validate and --lock contradict each other; give one of them");
  CHECK(usage_failure({"train", "--recipe", "a", "--validate"}) ==
        "usage.bad_option: train and --validate contradict each other; give one of them");
}

TEST_CASE("a verb needs its values, and takes options as its action does", "[cli]") {
  CHECK(usage_failure({"plan", "--recipe", "a"}) ==
        "usage.bad_option: plan needs a value: plan RANKS");
  CHECK(usage_failure({"diff", "a"}) == "usage.bad_option: diff needs values: diff A B");
  CHECK(usage_failure({"validate", "--recipe", "a", "--run-dir", "out"}) ==
        "usage.bad_option: --run-dir has no effect with validate; remove one of them");
  CHECK_THAT(usage_failure({"validate", "a.json"}), contains_text("did you mean --recipe a.json?"));
  CHECK(parse_command_line({"plan", "--help"}).action == &kPrintHelpAction);
  CHECK(parse_command_line({"plan", "8", "-h"}).action == &kPrintHelpAction);
}

}  // namespace tenon
