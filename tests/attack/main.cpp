// SPDX-License-Identifier: Apache-2.0
//
//     attack [--seed S] [--first K] [--count N] [--quick] [--folder DIR] [PART...]
//
// Attacks the built program and prints what was tried, what survived and what was found. Without
// PART, all parts run. Exit status: 0 without a finding, 1 with one.
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <unistd.h>
#include <utility>

#include "tests/attack/attack.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const std::vector<AttackPart>& parts() {
  static const std::vector<AttackPart> all = {
      {"kills", 200, 2, "kill -9 of any process of a run, at any moment", attack_kills},
      {"flips", 1000, 16, "one flipped bit in any file of a run folder", attack_flips},
      {"damage", 300, 6, "truncated, swapped, replaced and foreign files", attack_damage},
      {"disk", 200, 2, "a disk that is full from any write on", attack_disk},
      {"recipes", 10000, 20, "recipes changed by their printed schema", attack_recipes},
      {"data", 2000, 16, "damaged data files of each reader", attack_data},
      {"clocks", 20, 1, "a clock that jumps by years", attack_clocks},
      {"stops", 20, 1, "SIGSTOP of a rank or of the launcher", attack_stops},
      {"stranger", 4, 1, "another user at the ports of a run", attack_stranger}};
  return all;
}

struct Arguments {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;
  std::optional<std::uint64_t> count;
  bool is_quick = false;
  fs::path folder;
  std::vector<std::string> parts;
};

[[noreturn]] void fail_usage(const std::string& why) {
  std::cerr
      << why
      << "\nusage: attack [--seed S] [--first K] [--count N] [--quick] [--folder DIR] [PART...]\n";
  for (const AttackPart& part : parts()) {
    std::cerr << "  " << part.name << ": " << part.what << " (" << part.count << ")\n";
  }
  std::exit(2);
}

std::uint64_t number_of(const std::string& text) {
  char* end = nullptr;
  const std::uint64_t number = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') {
    fail_usage(text + " is not a number");
  }
  return number;
}

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == argc) {
        fail_usage(word + " needs a value");
      }
      return argv[++i];
    };
    if (word == "--seed") {
      arguments.seed = number_of(value());
    } else if (word == "--first") {
      arguments.first = number_of(value());
    } else if (word == "--count") {
      arguments.count = number_of(value());
    } else if (word == "--quick") {
      arguments.is_quick = true;
    } else if (word == "--folder") {
      arguments.folder = fs::absolute(value());
    } else if (word.starts_with("-")) {
      fail_usage(word + " is unknown");
    } else {
      arguments.parts.push_back(word);
    }
  }
  for (const std::string& name : arguments.parts) {
    bool is_known = false;
    for (const AttackPart& part : parts()) {
      is_known = is_known || part.name == name;
    }
    if (!is_known) {
      fail_usage("there is no part " + name);
    }
  }
  return arguments;
}

bool is_wanted(const Arguments& arguments, const std::string& part) {
  bool is_named = arguments.parts.empty();
  for (const std::string& name : arguments.parts) {
    is_named = is_named || name == part;
  }
  return is_named;
}

void print_table(const std::vector<Tally>& tallies) {
  std::cout << "\n| attack | tried | survived | findings |\n|---|---|---|---|\n";
  for (const Tally& tally : tallies) {
    std::cout << "| " << tally.name << " | " << tally.tried << " | "
              << tally.tried - tally.findings.size() << " | " << tally.findings.size() << " |\n";
  }
  for (const Tally& tally : tallies) {
    std::cout << "\n" << tally.name << ":\n";
    for (const auto& [outcome, count] : tally.outcomes) {
      std::cout << "  " << count << " " << outcome << "\n";
    }
    for (const Finding& finding : tally.findings) {
      std::cout << "  FINDING: " << finding.what << "\n    " << finding.repeat << "\n";
      if (!finding.folder.empty()) {
        std::cout << "    kept in " << finding.folder << "\n";
      }
    }
  }
}

}  // namespace

int run_attack(int argc, char** argv) {
  const Arguments arguments = read_arguments(argc, argv);
  fs::path root = arguments.folder;
  if (root.empty()) {
    std::string made = (fs::temp_directory_path() / "tenon-attack-XXXXXX").string();
    if (::mkdtemp(made.data()) == nullptr) {
      std::cerr << "cannot make a folder in " << fs::temp_directory_path() << "\n";
      return 2;
    }
    root = made;
  }
  fs::create_directories(root / "cache");
  ::setenv("XDG_CACHE_HOME", (root / "cache").c_str(), 1);  // not the verdicts of the user
  std::vector<Tally> tallies;
  bool has_finding = false;
  for (const AttackPart& part : parts()) {
    if (!is_wanted(arguments, part.name)) {
      continue;
    }
    const std::uint64_t count =
        arguments.count.value_or(arguments.is_quick ? part.quick : part.count);
    const fs::path folder = root / part.name;
    fs::remove_all(folder);
    fs::create_directories(folder);
    std::cout << "== " << part.name << ": " << part.what << ", " << count << " times, seed "
              << arguments.seed << std::endl;
    Attack attack(
        part.name, {.seed = arguments.seed, .first = arguments.first, .count = count}, folder);
    try {
      part.run(attack);
    } catch (const std::exception& error) {
      attack.found(std::string("the attack itself failed: ") + error.what());
    }
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    has_finding = has_finding || !attack.tally().findings.empty();
    tallies.push_back(attack.tally());
  }
  print_table(tallies);
  std::error_code ignored;
  fs::remove_all(root / "cache", ignored);
  if (arguments.folder.empty() && !has_finding) {
    fs::remove_all(root, ignored);
  }
  return has_finding ? 1 : 0;
}

}  // namespace tenon

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  return tenon::run_attack(argc, argv);
}
