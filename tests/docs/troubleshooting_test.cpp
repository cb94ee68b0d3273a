// SPDX-License-Identifier: Apache-2.0
//
// Runs each command of docs/troubleshooting.md and compares what it prints with the page.
#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/docs/markdown.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

// What follows `key` in a comment: "a b" of "third_party: a b" for "third_party: ".
std::string after(const std::string& comment, const std::string& key) {
  return comment.compare(0, key.size(), key) == 0 ? comment.substr(key.size()) : "";
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// The folder that the page describes.
void set_up(const ScratchFolder& desk,
            const std::map<std::string, std::string>& files,
            const std::string& third_party) {
  fs::create_directory_symlink(plugin_dir(), desk.path() / "plugins");
  fs::create_directories(desk.path() / "third_party");
  for (const std::string& name : words_of(third_party)) {
    fs::copy_file(build_dir() / "tests/docs_plugins" / (name + ".so"),
                  desk.path() / "third_party" / (name + ".so"));
  }
  for (const auto& [name, text] : files) {
    desk.write(name, text);
  }
}

// As if the reader's folder were /home/you.
std::string at_home(std::string text, const std::string& desk) {
  for (size_t at = text.find(desk); at != std::string::npos; at = text.find(desk, at)) {
    text.replace(at, desk.size(), "/home/you");
  }
  return text;
}

// Without what the page says it is not held to: the place of a crash in a function, and lines of
// sources.
std::string without_details(const std::string& text) {
  const std::string no_offset =
      std::regex_replace(text, std::regex(R"(\+0x[0-9a-f]+\))"), "+0x10)");
  return std::regex_replace(no_offset, std::regex(R"(\.cpp:[0-9]+\n)"), ".cpp:32\n");
}

}  // namespace

TEST_CASE("the troubleshooting page shows messages as they are printed", "[docs]") {
  std::map<std::string, std::string> files;
  int num_commands = 0;
  for (const FencedBlock& block :
       fenced_blocks(read_text(source_dir() / "docs/troubleshooting.md"))) {
    INFO("docs/troubleshooting.md:" << block.line);
    const std::string file = after(block.comment, "file: ");
    if (!file.empty()) {
      files[file] = block.text;
      continue;
    }
    REQUIRE(block.language == "console");
    std::vector<std::string> words = words_of(block.text.substr(0, block.text.find('\n')));
    REQUIRE(words.size() > 2);
    REQUIRE(words[0] == "$");
    REQUIRE(words[1] == "host");
    words.erase(words.begin());
    words.front() = host_program().string();
    const ScratchFolder desk;
    set_up(desk, files, after(block.comment, "third_party: "));
    if (after(block.comment, "without: ") != "book.txt") {
      desk.write("book.txt", std::string(4096, 'a'));
    }
    SubprocessOptions options;
    options.working_dir = desk.path().string();
    options.environment = {{"XDG_CACHE_HOME", (desk.path() / "cache").string()},
                           {"TENON_PLUGIN_PATH", ""}};
    const SubprocessResult result = run_subprocess(words, options);
    const std::string printed = block.text.substr(0, block.text.find('\n') + 1) +
                                at_home(result.err + result.out, desk.path().string()) +
                                "$ echo $?\n" + std::to_string(result.exit_code) + "\n";
    CHECK(without_details(printed) == without_details(block.text));
    CHECK_FALSE(fs::exists(desk.path() / "runs"));
    ++num_commands;
  }
  CHECK(num_commands == 11);
}

}  // namespace tenon
