// SPDX-License-Identifier: Apache-2.0
//
// Attacks on the built program: each part of the program `attack` damages, kills or misleads many
// runs, and counts which of them survive. main.cpp lists the parts; README.md says how to use them.
// Invariant: a finding names its seed and a command that repeats it, and its folder is kept.
// Threads: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace tenon {

// Of an attacked host, in bytes: more is a finding.
inline constexpr std::uint64_t kMostMemory = std::uint64_t{4} << 30;

struct Finding {
  std::string what;    // one line
  std::string folder;  // what is kept; "" if nothing is
  std::string repeat;  // the command
};

// What one part of the attack did.
struct Tally {
  std::string name;
  std::uint64_t tried = 0;
  std::vector<Finding> findings;
  std::map<std::string, std::uint64_t> outcomes;  // of survivors, by what became of them
};

// The state of one part while it runs.
class Attack {
 public:
  // Cases first, first + 1, ... of a seed: `count` of them.
  struct Range {
    std::uint64_t seed = 1;
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };

  Attack(std::string name, const Range& range, std::filesystem::path folder)
      : range_(range), folder_(std::move(folder)) {
    tally_.name = std::move(name);
  }

  std::uint64_t first() const { return range_.first; }
  std::uint64_t count() const { return range_.count; }
  // Starts a case. Its random numbers depend on the seed and on its number alone.
  void begin_case(std::uint64_t number);
  std::mt19937_64& random() { return random_; }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  template <class T>
  const T& pick(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  // A folder of the part, which exists. Folders that no finding names are removed at the end.
  const std::filesystem::path& folder() const { return folder_; }

  // One more case. Prints a line now and then.
  void survived(const std::string& outcome);
  // `folder` is moved to the kept findings; "" if there is nothing to keep.
  void found(const std::string& what, const std::filesystem::path& folder = {});

  const Tally& tally() const { return tally_; }

 private:
  void count_one();

  Range range_;
  std::filesystem::path folder_;
  std::uint64_t case_ = 0;
  std::mt19937_64 random_;
  Tally tally_;
};

struct AttackPart {
  std::string name;
  std::uint64_t count;  // in a soak
  std::uint64_t quick;  // in a test
  std::string what;
  std::function<void(Attack&)> run;
};

void attack_kills(Attack& attack);
void attack_flips(Attack& attack);
void attack_damage(Attack& attack);
void attack_disk(Attack& attack);
void attack_recipes(Attack& attack);
void attack_data(Attack& attack);
void attack_clocks(Attack& attack);
void attack_stops(Attack& attack);
void attack_stranger(Attack& attack);

}  // namespace tenon
