// SPDX-License-Identifier: Apache-2.0
//
// The scripts that complete the command line, run by the shells themselves.
#include "host/cli/all_actions.hpp"
#include "host/plugin/kinds.hpp"
#include "host/tools/shell/bash_completion.hpp"
#include "host/tools/shell/fish_completion.hpp"
#include "host/tools/shell/option_values.hpp"
#include "host/tools/shell/zsh_completion.hpp"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

// What bash offers for a line that ends at the cursor.
class Bash {
 public:
  Bash() : script_(scratch_.write("tenon", bash_completion(all_actions()))) {
    scratch_.write("runs/first/recipe.json", "{}");
    scratch_.write("recipe.json", "{}");
  }

  std::vector<std::string> completions(const std::string& line) const {
    const std::string program = "source " + script_.string() +
                                "\nCOMP_LINE=$1 COMP_POINT=${#1}\n_tenon\n"
                                "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const SubprocessResult result = run_subprocess({"bash", "-u", "-c", program, "bash", line},
                                                   {.working_dir = scratch_.path().string()});
    INFO(line << "\n" << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK(result.err.empty());
    std::vector<std::string> words;
    std::istringstream lines(result.out);
    for (std::string word; std::getline(lines, word);) {
      if (!word.empty()) {
        words.push_back(word);
      }
    }
    std::ranges::sort(words);
    return words;
  }

 private:
  ScratchFolder scratch_;
  std::filesystem::path script_;
};

using Words = std::vector<std::string>;

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

// Checks a script with the shell's own parser.
void check_syntax(const std::string& shell, const std::string& script) {
  if (run_subprocess({"bash", "-c", "command -v " + shell}).exit_code != 0) {
    TENON_SKIP(shell + " is not installed");
  }
  const ScratchFolder scratch;
  const SubprocessResult result =
      run_subprocess({shell, "-n", scratch.write("script", script).string()});
  INFO(result.err);
  CHECK(result.exit_code == 0);
}

}  // namespace

TEST_CASE("bash completes the options of training and of each action", "[cli]") {
  const Bash bash;
  CHECK(bash.completions("tenon --re") == Words{"--recipe", "--resume"});
  const Words all = bash.completions("tenon ");
  for (const Option& option : kTrainAction.options) {
    CHECK(has(all, "--" + std::string(option.name)));
  }
  CHECK(has(all, "--describe"));
  CHECK_FALSE(has(all, "--latency"));  // of --plan and --schedule
  CHECK(has(bash.completions("tenon --recipe recipe.json --plan 8 --l"), "--latency"));
  CHECK(bash.completions("tenon --inspect runs --") == Words{"--json"});
}

TEST_CASE("bash completes verbs, their values and their options", "[cli]") {
  const Bash bash;
  CHECK(bash.completions("tenon pl") == Words{"plan"});
  CHECK(bash.completions("tenon tr") == Words{"trace-diff", "train"});
  CHECK(bash.completions("tenon --quiet tr").empty());  // a verb comes first
  CHECK(bash.completions("tenon describe lo") == Words{"loss:"});
  CHECK(bash.completions("tenon print-completion ") == Words{"bash", "fish", "zsh"});
  CHECK(bash.completions("tenon diff a r") == Words{"recipe.json", "runs"});
  CHECK(bash.completions("tenon inspect runs --") == Words{"--json"});
  CHECK(has(bash.completions("tenon plan 8 --l"), "--latency"));
  CHECK(bash.completions("tenon train --re") == Words{"--recipe", "--resume"});
}

TEST_CASE("bash completes values: words, kinds, error ids, files and folders", "[cli]") {
  const Bash bash;
  CHECK(bash.completions("tenon --bind ") == Words{"cores", "none", "numa"});
  CHECK(bash.completions("tenon --bind=n") == Words{"none", "numa"});
  CHECK(bash.completions("tenon --print-completion ") == Words{"bash", "fish", "zsh"});
  CHECK(bash.completions("tenon --export ") == Words{"hf", "peft", "torch"});
  CHECK(bash.completions("tenon --describe lo") == Words{"loss:"});
  CHECK(bash.completions("tenon --describe ").size() == all_kinds().size());
  CHECK(has(bash.completions("tenon --explain recipe.un"), "recipe.unknown_key"));
  CHECK(bash.completions("tenon --recipe re") == Words{"recipe.json"});
  CHECK(bash.completions("tenon --run-dir r") == Words{"runs"});
  CHECK(bash.completions("tenon --resume ") ==
        Words{"auto", "none", "recipe.json", "runs", "tenon"});
  CHECK(bash.completions("tenon --launch ").empty());
}

TEST_CASE("the scripts of zsh and fish name every option with its help", "[cli]") {
  const std::string zsh = zsh_completion(all_actions());
  const std::string fish = fish_completion(all_actions());
  CHECK(zsh.rfind("#compdef tenon\n", 0) == 0);
  for (const Option& option : options_of(all_actions())) {
    CAPTURE(std::string(option.name));
    CHECK_THAT(zsh, contains_text("--" + std::string(option.name)));
    CHECK_THAT(fish, contains_text(" -l " + std::string(option.name) + " "));
    CHECK_FALSE(short_help(option).empty());
  }
  CHECK_THAT(fish,
             contains_text(
                 "-n '__fish_contains_opt plan; or __fish_seen_subcommand_from plan' -l flops -x"));
  CHECK_THAT(zsh, contains_text("'--bind=[with --launch, the processors of a rank\\: numa"));
}

TEST_CASE("zsh reads its script", "[cli]") {
  check_syntax("zsh", zsh_completion(all_actions()));
}

TEST_CASE("fish reads its script", "[cli]") {
  check_syntax("fish", fish_completion(all_actions()));
}

}  // namespace tenon
