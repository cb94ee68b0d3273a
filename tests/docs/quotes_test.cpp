// SPDX-License-Identifier: Apache-2.0
//
// Code on a page is quoted from a file that is built and run. The comment above the block names the
// file, and the file must contain the block. The program validates whole recipes.
#include <filesystem>
#include <set>
#include <string>

#include "tests/docs/markdown.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

constexpr char kQuote[] = "quote: ";

bool is_quote(const FencedBlock& block) {
  return block.comment.rfind(kQuote, 0) == 0;
}

// A file that the commands of the page write: guide_test compares it.
bool is_written_file(const FencedBlock& block) {
  return block.comment.rfind("file: ", 0) == 0;
}

}  // namespace

TEST_CASE("code on a page stands in the file that it is quoted from", "[docs]") {
  const std::set<std::string> code = {"c", "cpp", "cmake", "rust"};
  int num_quotes = 0;
  for (const fs::path& page : all_pages()) {
    for (const FencedBlock& block : fenced_blocks(read_text(page))) {
      INFO(page.string() << ":" << block.line);
      if (code.count(block.language) != 0) {
        // Code of no file would be run by nobody.
        CHECK((is_quote(block) || is_written_file(block)));
      }
      if (!is_quote(block)) {
        continue;
      }
      const std::string file = block.comment.substr(std::string(kQuote).size());
      INFO("quoted from " << file);
      REQUIRE(fs::exists(source_dir() / file));
      const std::string source =
          "\n" + read_text(source_dir() / file);  // a quote may start at line 1
      CHECK(source.find("\n" + block.text) != std::string::npos);
      ++num_quotes;
    }
  }
  CHECK(num_quotes >= 12);
}

TEST_CASE("each whole recipe on a page is valid", "[docs]") {
  int num_recipes = 0;
  for (const fs::path& page : all_pages()) {
    for (const FencedBlock& block : fenced_blocks(read_text(page))) {
      if (block.comment != "recipe") {
        continue;
      }
      INFO(page.string() << ":" << block.line);
      const ScratchFolder desk;
      desk.write("recipe.json", block.text);
      desk.write("book.txt", std::string(4096, 'a'));  // what recipes on pages train on
      SubprocessOptions options;
      options.working_dir = desk.path().string();
      options.environment = {{"XDG_CACHE_HOME", (desk.path() / "cache").string()}};
      const SubprocessResult result = run_subprocess({host_program().string(),
                                                      "--recipe",
                                                      "recipe.json",
                                                      "--plugin-dir",
                                                      plugin_dir().string(),
                                                      "--validate"},
                                                     options);
      INFO(result.err);
      CHECK(result.exit_code == 0);
      ++num_recipes;
    }
  }
  CHECK(num_recipes >= 1);
}

TEST_CASE("the README's commands are verbs of ./dev", "[docs]") {
  const SubprocessResult help = run_subprocess({(source_dir() / "dev").string(), "help"});
  REQUIRE(help.exit_code == 0);
  int num_commands = 0;
  for (const char* const name : {"README.md", "CONTRIBUTING.md"}) {
    const std::string page = read_text(source_dir() / name);
    const std::string call = "./dev ";
    for (std::size_t at = page.find(call); at != std::string::npos; at = page.find(call, at + 1)) {
      const std::size_t start = at + call.size();
      const std::string verb =
          page.substr(start, page.find_first_not_of("abcdefghijklmnopqrstuvwxyz", start) - start);
      INFO(name << ": ./dev " << verb);
      CHECK_THAT(help.out, contains_text("\n  " + verb + " "));
      ++num_commands;
    }
  }
  CHECK(num_commands >= 4);
}

}  // namespace tenon
