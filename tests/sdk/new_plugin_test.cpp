// SPDX-License-Identifier: Apache-2.0
//
// --new-plugin, from an installation: what each template becomes builds, passes its own tests and
// trains, by the commands that the program prints. And each mistake of a user has its message.
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/support/catch.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Variant {
  std::string kind;
  std::string language;
};

// Each folder KIND-LANGUAGE of the templates.
std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string& name : names_in(source_dir() / "sdk/templates")) {
    const std::size_t dash = name.find('-');
    if (dash != std::string::npos) {
      const std::string language = name.substr(dash + 1);
      const bool is_cpp = language.compare(0, 3, "cpp") == 0;
      all.push_back({name.substr(0, dash), is_cpp ? "c++" + language.substr(3) : language});
    }
  }
  return all;
}

// Whether there is a compiler of Rust that the SDK accepts.
bool has_rustc() {
  const SubprocessResult version = run_subprocess({"rustc", "--version"});
  std::smatch found;
  return version.exit_code == 0 &&
         std::regex_search(version.out, found, std::regex("^rustc ([0-9]+)\\.([0-9]+)")) &&
         (std::stoi(found[1]) > 1 || std::stoi(found[2]) >= 63);
}

// All that the test writes. Paths below it are equal in each run, for the compiler cache.
const fs::path& root() {
  static const ScratchFolder scratch;
  return scratch.path();
}

// One installation for all cases, without the sources.
const fs::path& prefix() {
  static const fs::path folder = [] {
    const fs::path to = root() / "tenon";
    const SubprocessResult installed =
        run_subprocess({"cmake", "--install", build_dir().string(), "--prefix", to.string()});
    INFO(installed.out << installed.err);
    REQUIRE(installed.exit_code == 0);
    return to;
  }();
  return folder;
}

SubprocessResult run_in(const fs::path& folder, const std::vector<std::string>& words) {
  SubprocessOptions options;
  options.working_dir = folder.string();
  // Without optimization, compilers take half of the time.
  options.environment = {{"CMAKE_GENERATOR", "Ninja"},
                         {"CMAKE_BUILD_TYPE", "None"},
                         {"CCACHE_NOHASHDIR", "1"},
                         {"CCACHE_BASEDIR", root().string()},
                         {"TENON_PREFIX", prefix().string()}};
  if (std::system("command -v ccache >/dev/null") == 0) {
    options.environment["CMAKE_C_COMPILER_LAUNCHER"] = "ccache";
    options.environment["CMAKE_CXX_COMPILER_LAUNCHER"] = "ccache";
  }
  return run_subprocess(words, options);
}

SubprocessResult new_plugin(const fs::path& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {(prefix() / "bin/tenon").string(), "--new-plugin"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_in(folder, words);
}

// Runs the lines as a script that stops at the first failure.
void run_script(const fs::path& folder, const std::string& lines) {
  const SubprocessResult result = run_in(folder, {"sh", "-ec", lines});
  INFO(lines << "\nprinted:\n" << result.out << result.err);
  REQUIRE(result.exit_code == 0);
}

// The commands that --new-plugin prints at its end.
std::string commands_of(const std::string& report) {
  const std::string heading = "\nbuild it, test it and train with it:\n";
  const std::size_t at = report.find(heading);
  REQUIRE(at != std::string::npos);
  return report.substr(at + heading.size());
}

std::string exported_symbols(const fs::path& library) {
  const SubprocessResult result = run_subprocess({"nm", "-D", "--defined-only", library.string()});
  REQUIRE(result.exit_code == 0);
  return result.out;
}

// The losses of each step, trained with more options.
std::vector<double> losses(const fs::path& project,
                           const std::vector<std::string>& sets,
                           const std::string& plugins = "build/plugins") {
  std::vector<std::string> words = {(prefix() / "bin/tenon").string(),
                                    "--recipe",
                                    "recipe.json",
                                    "--plugin-dir",
                                    plugins,
                                    "--plugin-dir",
                                    (prefix() / "lib/tenon/plugins").string(),
                                    "--resume",
                                    "none",
                                    "--run-dir",
                                    "compared"};
  for (const std::string& set : sets) {
    words.insert(words.end(), {"--set", set});
  }
  fs::remove_all(project / "compared");
  const SubprocessResult result = run_in(project, words);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<double> values;
  for (const std::string& line : file_lines(project / "compared/metrics.jsonl")) {
    values.push_back(nlohmann::json::parse(line)["loss"]);
  }
  return values;
}

// The parameters after the last training of losses().
std::string compared_hash(const fs::path& project) {
  const nlohmann::json summary =
      nlohmann::json::parse(file_text(project / "compared/summary.json"));
  return summary["parameters_hash"];
}

}  // namespace

TEST_CASE("each template becomes a project that builds, passes its tests and trains",
          "[sdk][members]") {
  const ScratchFolder desk(root() / "desk");
  std::vector<Variant> all = variants();
  REQUIRE(all.size() >= 6);
  if (!runs_all_members()) {
    all = {{"hook", "c++"}, {"loss", "c"}};
  }
  if (!has_rustc()) {
    WARN("skipped: the templates in Rust; there is no rustc 1.63 or newer");
  }
  for (const auto& [kind, language] : all) {
    if (language == "rust" && !has_rustc()) {
      continue;
    }
    INFO(kind << " in " << language);
    const std::string folder = kind + "-" + language;
    const std::string name = "own_" + kind;
    const SubprocessResult made =
        new_plugin(desk.path(), {kind, name, "--lang", language, "--dir", folder});
    INFO(made.out << made.err);
    REQUIRE(made.exit_code == 0);

    const fs::path project = desk.path() / folder;
    const std::regex placeholder("@[A-Z]+@|my_plugin|MyPlugin|MY_PLUGIN");
    int num_files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(project)) {
      if (entry.is_regular_file()) {
        const std::string text = file_text(entry.path());
        INFO(entry.path());
        CHECK_FALSE(text.empty());
        CHECK_FALSE(std::regex_search(text, placeholder));
        CHECK_THAT(made.out,
                   contains_text("  " + fs::relative(entry.path(), desk.path()).string() + " "));
        ++num_files;
      }
    }
    CHECK(num_files >= 6);

    run_script(desk.path(), commands_of(made.out));
    const fs::path library = project / ("build/plugins/" + name + ".so");
    CHECK_THAT(exported_symbols(library), contains_text(" T tenon_plugin_entry\n"));
    const std::string symbols = exported_symbols(library);
    CHECK(std::count(symbols.begin(), symbols.end(), '\n') == 1);
    CHECK(names_in(project / "runs").size() == 1);
    // The two tests of the project ran: the second needs the result of the first.
    CHECK(fs::exists(project / "build/runs" / name / "whole/summary.json"));
    CHECK(fs::exists(project / "build/runs" / name / "stopped/summary.json"));

    if (kind == "hook" && language == "c++") {
      const std::size_t num_steps = losses(project, {"hooks.0.options.target=4.5"}).size();
      CHECK(num_steps > 1);
      CHECK(num_steps < 20);
    }
    if (kind == "loss") {  // the templates are forms of cross-entropy
      const std::vector<double> expected =
          losses(project, {"loss.type=cross_entropy", "loss.options={}", "train.steps=8"});
      const bool has_gamma = language != "c" && language != "rust";
      const std::string options = has_gamma ? R"({"gamma":0})" : "{}";
      const std::vector<double> found =
          losses(project, {"loss.options=" + options, "train.steps=8"});
      REQUIRE(expected.size() == 8);
      REQUIRE(found.size() == 8);
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i] == Approx(expected[i]).epsilon(1e-4));
      }
    }
  }
  if (has_rustc() && runs_all_members()) {  // the same formulas, in the same order
    const fs::path project = desk.path() / "loss-rust";
    const std::vector<double> rust = losses(project, {});
    const std::string rust_hash = compared_hash(project);
    CHECK(rust.size() == 20);
    CHECK(losses(project, {}, "../loss-c/build/plugins") == rust);
    CHECK(compared_hash(project) == rust_hash);
  }
}

TEST_CASE("the CI file of a project builds and tests it", "[sdk][.release]") {
  const ScratchFolder desk(root() / "desk");
  REQUIRE(new_plugin(desk.path(), {"hook", "ci_hook"}).exit_code == 0);
  const fs::path project = desk.path() / "ci_hook";
  std::string script;
  for (const std::string& line : file_lines(project / ".github/workflows/test.yml")) {
    const std::string run = "      - run: ";
    if (line.rfind(run, 0) == 0) {
      script += line.substr(run.size()) + "\n";
    }
  }
  INFO(script);
  CHECK(std::count(script.begin(), script.end(), '\n') == 3);
  run_script(project, script);
  CHECK(fs::exists(project / "build/plugins/ci_hook.so"));
}

TEST_CASE("a stopped run whose result differs fails the test of the project", "[sdk][.release]") {
  const ScratchFolder desk(root() / "desk");
  REQUIRE(new_plugin(desk.path(), {"hook", "lost_hook"}).exit_code == 0);
  const fs::path project = desk.path() / "lost_hook";
  run_script(project,
             "cmake -B build -DCMAKE_PREFIX_PATH=\"$TENON_PREFIX\" && cmake --build build && "
             "ctest --test-dir build -R lost_hook_trains");
  // As if the plugin had influenced the run without a stop.
  const fs::path summary = project / "build/runs/lost_hook/whole/summary.json";
  nlohmann::json changed = nlohmann::json::parse(file_text(summary));
  changed["parameters_hash"] = "0";
  std::ofstream(summary) << changed;
  const SubprocessResult result =
      run_in(project,
             {"ctest", "--test-dir", "build", "-FA", ".*", "-R", "resumes", "--output-on-failure"});
  CHECK(result.exit_code != 0);
  CHECK_THAT(result.out, contains_text("has other parameters"));
}

TEST_CASE("a project can be written from the build tree too", "[sdk]") {
  const ScratchFolder desk(root() / "desk");
  const SubprocessResult made = run_in(
      desk.path(), {host_program().string(), "--new-plugin", "loss", "tree_loss", "--lang", "c"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  run_script(desk.path(), commands_of(made.out));
}

TEST_CASE("the README of a project has the printed commands, and the id is in the build", "[sdk]") {
  const ScratchFolder desk(root() / "desk");
  const SubprocessResult made =
      new_plugin(desk.path(),
                 {"loss", "a_b2", "--lang", "c", "--id", "org.example.x-1", "--dir", "deep/in/it"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  const fs::path project = desk.path() / "deep/in/it";
  std::istringstream commands(commands_of(made.out));
  const std::string readme = file_text(project / "README.md");
  std::string line;
  std::getline(commands, line);
  CHECK(line == "  cd deep/in/it");
  while (std::getline(commands, line)) {
    CHECK_THAT(readme, contains_text("\n" + line.substr(2) + "\n"));
  }
  CHECK_THAT(file_text(project / "CMakeLists.txt"), contains_text("ID org.example.x-1\n"));
  CHECK_THAT(file_text(project / "a_b2.c"), contains_text("typedef struct AB2 {"));
}

TEST_CASE("without --lang, a project is in torch, else in c++, else in c", "[sdk]") {
  const ScratchFolder desk(root() / "desk");
  CHECK_THAT(new_plugin(desk.path(), {"model", "one"}).out, contains_text("new model one (torch)"));
  CHECK_THAT(new_plugin(desk.path(), {"hook", "two"}).out, contains_text("new hook two (c++)"));
}

TEST_CASE("a word in a comment of the template is a valid name", "[sdk]") {
  const ScratchFolder desk(root() / "desk");
  for (const std::string language : {"c++", "torch"}) {  // "Focal loss", in their comments
    const SubprocessResult made =
        new_plugin(desk.path(), {"loss", "focal", "--lang", language, "--dir", language});
    INFO(made.err);
    CHECK(made.exit_code == 0);
  }
}

TEST_CASE("each mistake in --new-plugin has its message, and nothing is written", "[sdk]") {
  struct Mistake {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::string name_rule = "expected lower-case letters, digits and _, a letter first";
  const std::vector<Mistake> mistakes = {
      {{"los", "x"}, R"(found "los"; did you mean "loss")"},
      {{"nothing", "x"}, "--new-plugin: expected "},
      {{"hook", "x", "--lang", "cobol"}, R"(no template for hook in "cobol" (expected )"},
      {{"loss", "x", "--lang", "fortran"},
       R"(no template for loss in "fortran" (expected c, c++, c++-stable, rust, torch)"},
      {{"loss", "Focal"}, name_rule},
      {{"loss", "2x"}, name_rule},
      {{"loss", "a-b"}, name_rule},
      {{"loss", "../x"}, name_rule},
      {{"loss", "class"}, R"("class" is a keyword of C or C++)"},
      {{"loss", "restrict"}, "keyword"},
      {{"loss", "test"}, R"("test" is a target that CMake reserves)"},
      {{"loss", "all"}, "CMake reserves"},
      {{"loss", "m", "--lang", "c"}, R"("m" is a library that the plugin links)"},
      {{"loss", "inputs", "--lang", "c"}, "would define Inputs"},
      {{"model", "options", "--lang", "torch"}, "would define Options"},
      {{"loss", "mse"}, R"(comes with the loss "mse" already)"},
      {{"loss", "x", "--id", "org.tenon.mse"}, "has the id already"},
      {{"loss", "x", "--id", "Com.Example"}, "expected a reverse domain name"},
      {{"loss", "x", "--id", "focal"}, "expected a reverse domain name"},
      {{"loss", "x", "--id", "a..b"}, "expected a reverse domain name"},
      {{"loss"}, "--new-plugin: expected 2 values, found 1; give --new-plugin KIND NAME"},
      {{"loss", "x", "--recipe", "r.json"}, "--recipe has no effect with --new-plugin"}};
  const ScratchFolder desk(root() / "desk");
  for (const Mistake& mistake : mistakes) {
    const SubprocessResult result = new_plugin(desk.path(), mistake.arguments);
    INFO(mistake.arguments.back() << ": " << result.out << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, contains_text("[usage.bad_option]"));
    CHECK_THAT(result.err, contains_text(mistake.message));
    CHECK(names_in(desk.path()).empty());
  }
}

TEST_CASE("a folder with files, or a file, is left as it is", "[sdk]") {
  const ScratchFolder desk(root() / "desk");
  desk.write("mine/notes.txt", "mine");
  desk.write("plain", "a file");
  for (const std::string folder : {"mine", "mine/", "plain"}) {
    const SubprocessResult result = new_plugin(desk.path(), {"loss", "x", "--dir", folder});
    INFO(folder << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK_THAT(result.err, contains_text("[usage.folder_exists]"));
  }
  CHECK(names_in(desk.path() / "mine") == std::vector<std::string>{"notes.txt"});
  CHECK(file_text(desk.path() / "plain") == "a file");
  fs::create_directory(desk.path() / "empty");
  const SubprocessResult here = new_plugin(desk.path() / "empty", {"loss", "x", "--dir", "."});
  INFO(here.err);
  CHECK(here.exit_code == 0);
  CHECK(fs::exists(desk.path() / "empty/recipe.json"));
}

TEST_CASE("a failure in the middle leaves nothing behind", "[sdk]") {
  const ScratchFolder desk(root() / "desk");
  const std::vector<std::string> words = {
      (prefix() / "bin/tenon").string(), "--new-plugin", "loss", "x", "--dir", "made/for/x"};
  SubprocessOptions options;
  options.working_dir = desk.path().string();
  options.file_size_limit = 300;  // enough for .gitignore, too little for the next files
  const SubprocessResult full = run_subprocess(words, options);
  INFO(full.err);
  CHECK(full.exit_code == 2);
  CHECK_THAT(full.err, contains_text("[usage.folder_unwritable]"));
  CHECK_THAT(full.err, contains_text("nothing was written"));
  CHECK(names_in(desk.path()).empty());
  // A part of the path is a file.
  desk.write("made", "a file");
  const SubprocessResult blocked = run_in(desk.path(), words);
  INFO(blocked.err);
  CHECK(blocked.exit_code == 2);
  CHECK_THAT(blocked.err, contains_text("[usage.folder_unwritable]"));
  CHECK(names_in(desk.path()) == std::vector<std::string>{"made"});
}

}  // namespace tenon
