// SPDX-License-Identifier: Apache-2.0
//
// The program as a user starts it: exit statuses, what stands on which stream, and what is left on
// disk. What each part does is tested beside the part.
#include <nlohmann/json.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder to run the program in, with a vet cache and an environment of its own.
class Desk {
 public:
  // Runs the host with these arguments, in the folder.
  SubprocessResult host(std::vector<std::string> arguments) const {
    return host_in(path(), std::move(arguments));
  }

  SubprocessResult host_in(const fs::path& folder, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), host_program().string());
    SubprocessOptions options;
    options.working_dir = folder.string();
    options.environment = {{"XDG_CACHE_HOME", (folder_.path() / "cache").string()},
                           {"TENON_PLUGIN_PATH", plugin_path_}};
    options.environment.insert(variables_.begin(), variables_.end());
    options.out_file = out_file_;
    return run_subprocess(arguments, options);
  }

  // For programs that start later.
  void set_variable(const std::string& name, const std::string& value) { variables_[name] = value; }
  void unset_variable(const std::string& name) { variables_.erase(name); }
  // Their standard output goes into this file.
  void set_out_file(const std::string& file) { out_file_ = file; }
  void set_plugin_path(const std::string& value) { plugin_path_ = value; }
  const fs::path& path() const { return folder_.path(); }
  fs::path write(const fs::path& name, std::string_view text) const {
    return folder_.write(name, text);
  }
  // Copies an animal of the zoo (tests/support/zoo) into the plugin folder "zoo".
  void add_to_zoo(const std::string& name) const {
    fs::create_directories(path() / "zoo");
    fs::copy_file(build_dir() / "tests/zoo" / (name + ".so"), path() / "zoo" / (name + ".so"));
  }

 private:
  ScratchFolder folder_;
  std::string plugin_path_;
  std::map<std::string, std::string> variables_;
  std::string out_file_;
};

// A run of three steps on the tests' own data, which takes no time. `loss` is a type.
std::string small_recipe(const std::string& loss = "plain_loss") {
  return R"({
  "name": "small",
  "threads": {"compute": 1},
  "model": {"type": "mlp", "options": {"input": "x", "in_features": 4, "hidden": [8], "out_features": 1}},
  "data": {"batch_size": 4, "train": {"type": "windows", "options": {"samples": 64, "dim": 4}}},
  "loss": {"type": ")" +
         loss + R"("},
  "optimizer": {"type": "sgd", "options": {"lr": 0.01}},
  "train": {"steps": 3}
})";
}

// The folders that small_recipe needs, as arguments.
std::vector<std::string> with_plugins(std::vector<std::string> arguments) {
  for (const fs::path& folder : {plugin_dir(), test_plugin_dir()}) {
    arguments.insert(arguments.end(), {"--plugin-dir", folder.string()});
  }
  return arguments;
}

// The first ```text block below a heading of a page; below its beginning where that is "".
std::string block_below(const std::string& page, const std::string& heading) {
  const std::size_t at = heading.empty() ? 0 : page.find("\n" + heading + "\n");
  REQUIRE(at != std::string::npos);
  const std::string fence = "\n```text\n";
  const std::size_t start = page.find(fence, at) + fence.size();
  return page.substr(start, page.find("\n```", start) + 1 - start);
}

}  // namespace

TEST_CASE("compute threads spin shortly, unless the user says how long", "[cli]") {
  Desk desk;
  desk.set_variable("OMP_DISPLAY_ENV", "verbose");
  const SubprocessResult by_host = desk.host({"--version"});
  CHECK_THAT(by_host.err, Catch::Contains("GOMP_SPINCOUNT = '10000'"));
  desk.set_variable("GOMP_SPINCOUNT", "77");
  CHECK_THAT(desk.host({"--version"}).err, Catch::Contains("GOMP_SPINCOUNT = '77'"));
  desk.unset_variable("GOMP_SPINCOUNT");
  desk.set_variable("OMP_WAIT_POLICY", "passive");
  CHECK_THAT(desk.host({"--version"}).err, Catch::Contains("GOMP_SPINCOUNT = '0'"));
}

TEST_CASE("the reference page shows the help as it is printed", "[cli]") {
  const SubprocessResult result = Desk().host({"--help"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(block_below(read_text(source_dir() / "docs/reference/command-line.md"), "## Help") ==
        result.out);
}

TEST_CASE("the commands that the reference page begins with work", "[cli]") {
  const Desk desk;
  std::istringstream commands(
      block_below(read_text(source_dir() / "docs/reference/command-line.md"), ""));
  int num_commands = 0;
  for (std::string command; std::getline(commands, command); ++num_commands) {
    std::istringstream words(command);
    std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    REQUIRE(arguments.front() == "host");
    arguments.erase(arguments.begin());
    if (arguments.front() == "train") {
      arguments.front() = "validate";  // recipes are trained by tests of their own
    }
    const SubprocessResult result = desk.host_in(source_dir(), arguments);
    INFO(command << "\n" << result.err);
    CHECK(result.exit_code == 0);
    CHECK_FALSE(result.out.empty());
  }
  CHECK(num_commands == 7);
}

TEST_CASE("a verb prints what its option prints", "[cli]") {
  const Desk desk;
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> same = {
      {{"help"}, {"--help"}},
      {{"version"}, {"--version"}},
      {{"list-plugins", "--json"}, {"--list-plugins", "--json"}},
      {{"describe", "loss:mse"}, {"--describe", "loss:mse"}},
      {{"explain", "recipe.unknown_key"}, {"--explain", "recipe.unknown_key"}},
      {{"plan", "4", "--recipe", "recipes/quickstart.json"},
       {"--recipe", "recipes/quickstart.json", "--plan", "4"}},
      {{"print-recipe", "--recipe", "recipes/quickstart.json"},
       {"--recipe", "recipes/quickstart.json", "--print-recipe"}}};
  for (const auto& [verb, option] : same) {
    const SubprocessResult by_verb = desk.host_in(source_dir(), verb);
    const SubprocessResult by_option = desk.host_in(source_dir(), option);
    INFO(verb.front() << "\n" << by_verb.err);
    CHECK(by_verb.exit_code == 0);
    CHECK(by_option.exit_code == 0);
    CHECK_FALSE(by_verb.out.empty());
    CHECK(by_verb.out == by_option.out);
  }
  const SubprocessResult unknown = desk.host({"vaildate"});
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.err, contains_text("there is no verb vaildate; did you mean \"validate\"?"));
}

TEST_CASE("the version is one line on stdout", "[cli]") {
  const SubprocessResult result = Desk().host({"--version"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out.rfind("tenon 0.", 0) == 0);
  CHECK(result.out.find('\n') + 1 == result.out.size());
}

TEST_CASE("started in a folder that was removed, the program says so", "[cli]") {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  TENON_SKIP("sanitizers are not ready yet when the program looks");
#endif
  const Desk desk;
  const fs::path gone = desk.path() / "gone";
  fs::create_directory(gone);
  const SubprocessResult result = run_subprocess(
      {"/bin/sh", "-c", "rmdir ../gone && exec '" + host_program().string() + "' --version"},
      {.working_dir = gone.string()});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err,
             contains_text("host: [usage.no_current_folder] the current folder was removed: " +
                           gone.string()));
}

TEST_CASE("own libraries come before those of LD_LIBRARY_PATH", "[cli]") {
  Desk desk;
  for (const char* const name : {"libtorch_cpu.so", "libc10.so", "libtenon_thread_waits.so"}) {
    desk.write(fs::path("other") / name, "no library");
  }
  desk.set_variable("LD_LIBRARY_PATH", (desk.path() / "other").string());
  const SubprocessResult result = desk.host({"--version"});
  INFO(result.err);
  CHECK(result.exit_code == 0);
}

// The default action of SIGUSR1 ends a process. Relocating libtorch takes most of the start.
TEST_CASE("SIGUSR1 ends no program that is still being loaded", "[cli]") {
#if !defined(__x86_64__) || defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  TENON_SKIP("the program ignores it early on some processors, without sanitizers");
#endif
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const std::string program = host_program().string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::setenv("LD_DEBUG", "reloc", 1);
    ::execl(program.c_str(), "host", "--version", nullptr);
    ::_exit(127);
  }
  ::close(ends[1]);
  FILE* const said = ::fdopen(ends[0], "r");
  char line[4096];
  bool is_sent = false;
  while (std::fgets(line, sizeof(line), said) != nullptr) {
    if (!is_sent && std::string_view(line).find("libtorch_cpu.so") != std::string_view::npos) {
      is_sent = true;
      ::kill(child, SIGUSR1);
    }
  }
  std::fclose(said);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(is_sent);
  CHECK(status == 0);
}

TEST_CASE("an error is explained on stdout, an unknown one ends with status 2", "[cli]") {
  const Desk desk;
  const SubprocessResult known = desk.host({"--explain", "recipe.syntax"});
  CHECK(known.exit_code == 0);
  CHECK(known.err.empty());
  CHECK(known.out.starts_with("recipe.syntax\n\nThe recipe is not valid JSON."));
  const SubprocessResult unknown = desk.host({"--explain", "recipe.sintax"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.out.empty());
  CHECK_THAT(unknown.err, contains_text("did you mean \"recipe.syntax\"?"));
}

TEST_CASE("two traces are compared with a status that scripts can use", "[cli]") {
  const Desk desk;
  const std::string start = "{\"event\":\"start\",\"step\":0}\n";
  desk.write("a", start);
  desk.write("b", start + start);
  const SubprocessResult equal = desk.host({"--trace-diff", "a", "a"});
  CHECK(equal.exit_code == 0);
  CHECK(equal.out == "equal: 1 event\n");
  const SubprocessResult different = desk.host({"--trace-diff", "a", "b"});
  CHECK(different.exit_code == 1);
  CHECK(different.out ==
        "different from line 2 on: step 0, start\n"
        "  a ends after 1 event (step 0, start), and b goes on (step 0, start)\n");
  CHECK(different.err.empty());
  const SubprocessResult missing = desk.host({"--trace-diff", "a", "c"});
  CHECK(missing.exit_code == 2);
  CHECK(missing.out.empty());
  CHECK_THAT(missing.err, contains_text("[trace.unreadable] c cannot be opened"));
}

TEST_CASE("a wrong command line ends with status 2 and a line of usage", "[cli]") {
  const Desk desk;
  const SubprocessResult unknown = desk.host({"--recpie", "a.json"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.out.empty());
  CHECK(unknown.err ==
        "host: [usage.bad_option] there is no option --recpie; did you mean \"--recipe\"?\n"
        "usage: host --recipe FILE [--plugin-dir DIR]... [--set PATH=VALUE]...\n"
        "host --help lists all options\n");
  const SubprocessResult nothing = desk.host({});
  CHECK(nothing.exit_code == 2);
  CHECK_THAT(nothing.err, contains_text("[usage.missing_recipe]"));
  CHECK_THAT(nothing.err, contains_text("usage: host --recipe FILE"));
  CHECK(desk.host({"--recipe", "a.json", "--list-plugins"}).exit_code == 2);
}

TEST_CASE("a plugin folder that is not there ends with status 2", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const SubprocessResult result = desk.host({"--recipe", "r.json", "--plugin-dir", "nowhere"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, contains_text("[plugin.dir_unreadable] the plugin folder nowhere"));
  CHECK_FALSE(fs::exists(desk.path() / "runs"));
  CHECK(desk.host({"--list-plugins", "--plugin-dir", "nowhere"}).exit_code == 2);
}

TEST_CASE("TENON_PLUGIN_PATH names plugin folders too", "[cli]") {
  Desk desk;
  desk.set_plugin_path("nowhere");
  const SubprocessResult result = desk.host({"--list-plugins"});
  CHECK(result.exit_code == 2);
  CHECK_THAT(result.err, contains_text("nowhere (from TENON_PLUGIN_PATH)"));
}

TEST_CASE("a missing or malformed recipe ends with status 3", "[cli]") {
  const Desk desk;
  const SubprocessResult missing = desk.host(with_plugins({"--recipe", "absent.json"}));
  CHECK(missing.exit_code == 3);
  CHECK_THAT(missing.err, contains_text("[recipe.unreadable]"));
  CHECK_THAT(missing.err, contains_text("absent.json"));
  desk.write("broken.json", "{\"name\": \"x\",\n \"train\" {}}\n");
  const SubprocessResult broken = desk.host(with_plugins({"--recipe", "broken.json"}));
  CHECK(broken.exit_code == 3);
  CHECK_THAT(broken.err, contains_text("broken.json:2"));
  CHECK_THAT(broken.err, contains_text("[recipe.syntax]"));
  CHECK(broken.out.empty());
}

TEST_CASE("all recipe errors are reported at once, and nothing starts", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const SubprocessResult result = desk.host(with_plugins({"--recipe",
                                                          "r.json",
                                                          "--set",
                                                          "train.stpes=4",
                                                          "--set",
                                                          "loss.type=plain_los",
                                                          "--set",
                                                          "optimizer.options.lr=-1"}));
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, contains_text("--set #1: /train/stpes: unknown key [recipe.unknown_key]"));
  CHECK_THAT(result.err, contains_text("--set #2: /loss/type: "));
  CHECK_THAT(result.err, contains_text("did you mean \"plain_loss\"?"));
  CHECK_THAT(result.err, contains_text("--set #3: /optimizer/options/lr: "));
  CHECK_THAT(result.err, contains_text("3 errors in r.json; nothing was started\n"));
  CHECK_FALSE(fs::exists(desk.path() / "runs"));
}

TEST_CASE("a type that two plugins offer ends with status 3 and names both", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe("half_square"));
  desk.add_to_zoo("same_type_1");
  desk.add_to_zoo("same_type_2");
  const SubprocessResult result =
      desk.host(with_plugins({"--recipe", "r.json", "--plugin-dir", "zoo"}));
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.err, contains_text("/loss/type: 2 plugins offer this loss"));
  CHECK_THAT(result.err, contains_text("zoo/same_type_1.so"));
  CHECK_THAT(result.err, contains_text("zoo/same_type_2.so"));
}

TEST_CASE("a plugin that crashes while it is loaded ends only a run that needs it", "[cli]") {
  const Desk desk;
  desk.add_to_zoo("crashes_in_entry");
  desk.write("r.json", small_recipe());
  const SubprocessResult without = desk.host(
      with_plugins({"--recipe", "r.json", "--validate", "--plugin-dir", "zoo", "--no-vet-cache"}));
  CHECK(without.exit_code == 0);
  CHECK(without.out == "r.json is valid\n");
  CHECK_THAT(without.err, contains_text("[plugin.crashed] zoo/crashes_in_entry.so"));
  desk.write("needs.json", small_recipe("zoo"));
  const SubprocessResult needed =
      desk.host(with_plugins({"--recipe", "needs.json", "--plugin-dir", "zoo"}));
  CHECK(needed.exit_code == 4);
  CHECK_THAT(needed.err,
             contains_text("host: [plugin.crashed] the recipe needs loss \"zoo\": "
                           "zoo/crashes_in_entry.so"));
  CHECK_THAT(needed.err, !contains_text("warning: "));  // it is told once
  const SubprocessResult described =
      desk.host(with_plugins({"--describe", "loss:zoo", "--plugin-dir", "zoo"}));
  CHECK(described.exit_code == 4);
  CHECK_THAT(described.err, !contains_text("warning: "));
  // Where the type is not known, the plugin that was refused may be why.
  desk.write("unknown.json", small_recipe("zoos"));
  const SubprocessResult unknown =
      desk.host(with_plugins({"--recipe", "unknown.json", "--plugin-dir", "zoo"}));
  CHECK(unknown.exit_code == 3);
  CHECK_THAT(unknown.err, contains_text("warning: [plugin.crashed] zoo/crashes_in_entry.so"));
  CHECK_FALSE(fs::exists(desk.path() / "runs"));
}

// The system kills whatever is largest when memory runs out, which says nothing about the plugin.
TEST_CASE("a plugin that was killed from outside is checked again at the next start", "[cli]") {
  Desk desk;
  desk.add_to_zoo("dies_as_told");
  desk.write("r.json", small_recipe("zoo"));
  const std::vector<std::string> command =
      with_plugins({"--recipe", "r.json", "--validate", "--plugin-dir", "zoo"});
  for (const char* const death : {"9", "what():  std::bad_alloc"}) {
    INFO(death);
    desk.set_variable("TENON_ZOO_DEATH", death);
    const SubprocessResult killed = desk.host(command);
    CHECK(killed.exit_code == 4);
    CHECK_THAT(killed.err, contains_text("[plugin.crashed] "));
    CHECK_THAT(killed.err, contains_text("start again"));
    desk.unset_variable("TENON_ZOO_DEATH");
    const SubprocessResult next = desk.host(command);
    CHECK(next.exit_code == 0);
    CHECK(next.err.empty());
    fs::remove_all(desk.path() / "cache");  // or the good verdict of the next start stays
  }
}

TEST_CASE("a cached crash says so, and --no-vet-cache replaces it", "[cli]") {
  Desk desk;
  desk.add_to_zoo("dies_as_told");
  desk.write("r.json", small_recipe("zoo"));
  std::vector<std::string> command =
      with_plugins({"--recipe", "r.json", "--validate", "--plugin-dir", "zoo"});
  desk.set_variable("TENON_ZOO_DEATH", "11");
  CHECK_THAT(desk.host(command).err, !contains_text("cached"));
  desk.unset_variable("TENON_ZOO_DEATH");
  const SubprocessResult cached = desk.host(command);
  CHECK(cached.exit_code == 4);
  CHECK_THAT(cached.err, contains_text("crashed with SIGSEGV"));
  CHECK_THAT(cached.err, contains_text("(cached since 20"));
  CHECK_THAT(cached.err, contains_text("pass --no-vet-cache to check the plugin again)"));
  command.emplace_back("--no-vet-cache");
  CHECK(desk.host(command).exit_code == 0);
  command.pop_back();
  CHECK(desk.host(command).exit_code == 0);
}

TEST_CASE("a result that cannot be printed is an error with status 5", "[cli][.release]") {
  Desk desk;
  desk.write("r.json", small_recipe());
  desk.write("a", "{\"event\":\"start\",\"step\":0}\n");
  REQUIRE(desk.host(with_plugins({"--recipe", "r.json", "--run-dir", "run"})).exit_code == 0);
  const std::vector<std::vector<std::string>> commands = {
      {"--version"},
      {"--help"},
      {"--explain", "recipe.syntax"},
      {"--describe", "recipe", "--markdown"},
      {"--trace-diff", "a", "a"},
      {"--inspect", "run"},
      {"--verify", "run"},
      with_plugins({"--list-plugins"}),
      with_plugins({"--print-schema"}),
      with_plugins({"--describe", "loss:plain_loss"}),
      with_plugins({"--recipe", "r.json", "--print-recipe"}),
      with_plugins({"--recipe", "r.json", "--validate"}),
      with_plugins({"--recipe", "r.json", "--plan", "1"})};
  for (const std::vector<std::string>& command : commands) {
    INFO(command.front() << " " << command.back());
    desk.set_out_file("");
    REQUIRE(desk.host(command).exit_code == 0);
    desk.set_out_file("/dev/full");
    const SubprocessResult result = desk.host(command);
    CHECK(result.exit_code == 5);
    CHECK_THAT(result.err,
               contains_text("host: [output.unwritable] standard output cannot be written: No "
                             "space left on device"));
  }
  // What prints nothing has nothing to lose, and a run has its folder.
  CHECK(desk.host(with_plugins({"--recipe", "r.json", "--validate", "--quiet"})).exit_code == 0);
  const SubprocessResult run =
      desk.host(with_plugins({"--recipe", "r.json", "--run-dir", "another"}));
  CHECK(run.exit_code == 0);
  CHECK(fs::exists(desk.path() / "another/summary.json"));
}

TEST_CASE("a reader that closes the pipe ends the program by SIGPIPE, without a message", "[cli]") {
  const Desk desk;
  // A pipe without a reader: the first write fails.
  const SubprocessResult result =
      run_subprocess({"sh",
                      "-c",
                      "mkfifo pipe && exec 3<>pipe 4>pipe 3<&- && exec \"$@\" >&4",
                      "sh",
                      host_program().string(),
                      "--print-schema"},
                     {.working_dir = desk.path().string()});
  CHECK(result.exit_code == 128 + SIGPIPE);
  CHECK(result.err.empty());
}

TEST_CASE("a closed standard stream does not become a file of the program", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const auto run = [&](const std::string& arguments, const std::string& closed) {
    std::vector<std::string> words = {"sh", "-c", "exec \"$@\" " + closed, "sh"};
    words.push_back(host_program().string());
    for (const std::string& word : with_plugins({"--recipe", "r.json"})) {
      words.push_back(word);
    }
    std::istringstream more(arguments);
    words.insert(words.end(), std::istream_iterator<std::string>(more), {});
    return run_subprocess(words, {.working_dir = desk.path().string()});
  };
  CHECK(run("--run-dir out", "<&- >&- 2>&-").exit_code == 0);
  // Without the fix, the log is standard output, and has each line of it twice.
  const std::string log = read_text(desk.path() / "out/log.txt");
  const std::size_t first = log.find("step 1/3");
  REQUIRE(first != std::string::npos);
  CHECK(log.find("step 1/3", first + 1) == std::string::npos);
  const SubprocessResult printed = run("--print-recipe", ">&-");
  CHECK(printed.exit_code == 5);
  CHECK_THAT(printed.err, contains_text("[output.unwritable]"));
}

TEST_CASE("plugins are listed without loading them, as a table and as JSON", "[cli]") {
  const Desk desk;
  desk.add_to_zoo("crashes_in_entry");
  desk.add_to_zoo("good_c");
  desk.add_to_zoo("wrong_abi");
  const SubprocessResult table = desk.host({"--list-plugins", "--plugin-dir", "zoo"});
  CHECK(table.exit_code == 0);
  CHECK_THAT(table.out,
             contains_text("zoo/good_c.so            loss:half_square, hook:step_counter"));
  CHECK_THAT(table.out, contains_text("\nrefused: [plugin.abi_mismatch] zoo/wrong_abi.so"));
  CHECK(table.err.empty());
  const SubprocessResult json = desk.host({"--list-plugins", "--plugin-dir", "zoo", "--json"});
  CHECK(json.exit_code == 0);
  const auto list = nlohmann::json::parse(json.out);
  REQUIRE(list.size() == 3);
  CHECK(list[0]["file"] == "zoo/crashes_in_entry.so");
  CHECK(list[0]["state"] == "found");
  CHECK(list[1]["components"][1]["type"] == "step_counter");
  CHECK(list[2]["error"]["id"] == "plugin.abi_mismatch");
}

TEST_CASE("a component is described from its plugin", "[cli]") {
  const Desk desk;
  const SubprocessResult text =
      desk.host({"--describe", "loss:plain_loss", "--plugin-dir", test_plugin_dir().string()});
  CHECK(text.exit_code == 0);
  CHECK(text.out.rfind("loss:plain_loss\n", 0) == 0);
  CHECK_THAT(text.out, contains_text("plugin org.tenon.test.plain_loss 0.1.0 ("));
  CHECK_THAT(text.out, contains_text("\nscale "));
  const SubprocessResult json = desk.host(
      {"--describe", "dataset:windows", "--json", "--plugin-dir", test_plugin_dir().string()});
  CHECK(json.exit_code == 0);
  const auto description = nlohmann::json::parse(json.out);
  CHECK(description["plugin"]["id"] == "org.tenon.test.windows");
  CHECK(description["options_schema"]["properties"]["samples"]["default"] == 16);
  const SubprocessResult unknown =
      desk.host({"--describe", "loss:plain_los", "--plugin-dir", test_plugin_dir().string()});
  CHECK(unknown.exit_code == 3);
  CHECK_THAT(unknown.err, contains_text("did you mean \"plain_loss\"?"));
  desk.add_to_zoo("crashes_in_entry");
  CHECK(desk.host({"--describe", "loss:zoo", "--plugin-dir", "zoo"}).exit_code == 4);
}

TEST_CASE("a recipe is printed with all its defaults, and that is the same recipe", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const SubprocessResult once = desk.host(with_plugins({"--recipe", "r.json", "--print-recipe"}));
  INFO(once.err);
  REQUIRE(once.exit_code == 0);
  const auto recipe = nlohmann::json::parse(once.out);
  CHECK(recipe["models"]["main"]["options"]["bias"] == true);
  CHECK(recipe["train"]["steps"] == 3);
  desk.write("frozen.json", once.out);
  const SubprocessResult twice =
      desk.host(with_plugins({"--recipe", "frozen.json", "--print-recipe"}));
  CHECK(twice.out == once.out);
  CHECK_FALSE(fs::exists(desk.path() / "runs"));
}

TEST_CASE("OMP_NUM_THREADS counts where the recipe sets no threads", "[cli]") {
  Desk desk;
  desk.set_variable("OMP_NUM_THREADS", "3");
  desk.write("r.json", small_recipe());
  const auto threads = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--recipe", "r.json", "--print-recipe"});
    const SubprocessResult result = desk.host(with_plugins(more));
    INFO(result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out)["threads"]["compute"].get<int>();
  };
  CHECK(threads({"--set", "threads.compute=null"}) == 3);
  CHECK(threads({"--set", "threads.compute=2"}) == 2);
}

TEST_CASE("a recipe is validated, and quietly where that is asked", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  CHECK(desk.host(with_plugins({"--recipe", "r.json", "--validate"})).out == "r.json is valid\n");
  const SubprocessResult quiet =
      desk.host(with_plugins({"--recipe", "r.json", "--validate", "--quiet"}));
  CHECK(quiet.exit_code == 0);
  CHECK(quiet.out.empty());
  CHECK(quiet.err.empty());
}

TEST_CASE("a run trains, tells its outcome last and leaves its files", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const SubprocessResult result = desk.host(with_plugins({"--recipe",
                                                          "r.json",
                                                          "--run-dir",
                                                          "out",
                                                          "--set",
                                                          "train.steps=2",
                                                          "--set",
                                                          "checkpoint=null"}));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const std::string last = result.out.substr(result.out.rfind('\n', result.out.size() - 2) + 1);
  CHECK(last.rfind("done: ", 0) == 0);
  for (const char* const file : {"recipe.json", "log.txt", "metrics.jsonl", "summary.json"}) {
    INFO(file);
    CHECK(fs::exists(desk.path() / "out" / file));
  }
  const auto summary = nlohmann::json::parse(read_text(desk.path() / "out/summary.json"));
  CHECK(summary["steps"] == 2);
  CHECK(summary["exit_code"] == 0);
  CHECK_THAT(summary["command_line"].get<std::string>(),
             contains_text("host --recipe r.json --run-dir out --set train.steps=2"));
  // A run folder without a checkpoint is not written into.
  CHECK(desk.host(with_plugins({"--recipe", "r.json", "--run-dir", "out"})).exit_code == 2);
}

TEST_CASE("a quiet run prints nothing", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const SubprocessResult result =
      desk.host(with_plugins({"--recipe", "r.json", "--run-dir", "out", "--quiet"}));
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
}

TEST_CASE("a run that is stopped on request ends with status 75", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const SubprocessResult result = desk.host(
      with_plugins({"--recipe", "r.json", "--run-dir", "out", "--set", "train.exit_at_step=1"}));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 75);
}

TEST_CASE("a run that fails after its first step ends with status 5", "[cli]") {
  const Desk desk;
  desk.write("r.json", small_recipe());
  const SubprocessResult result = desk.host(with_plugins(
      {"--recipe",
       "r.json",
       "--run-dir",
       "out",
       "--set",
       R"(hooks=[{"type": "fail_at", "options": {"event": "after_step", "step": 2}}])"}));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.err, contains_text("fail_at"));
}

}  // namespace tenon
