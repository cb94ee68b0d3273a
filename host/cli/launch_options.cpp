// SPDX-License-Identifier: Apache-2.0
#include "host/cli/launch_options.hpp"

#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

namespace tenon {
namespace {

// More than any machine runs; a larger number is a typing error.
constexpr std::int64_t kMaxRanks = 1024;
constexpr std::int64_t kMostRestarts = 1000;

std::uint32_t read_count(std::string_view option,
                         const GivenOptions& given,
                         std::int64_t least,
                         std::int64_t most,
                         const std::string& noun) {
  return static_cast<std::uint32_t>(read_whole(option,
                                               given.value_of(option),
                                               least,
                                               most,
                                               formatted("{} from {} to {}", noun, least, most)));
}

Binding read_binding(const std::string& text) {
  const std::map<std::string, Binding> bindings = {
      {"none", Binding::kNone}, {"cores", Binding::kCores}, {"numa", Binding::kNuma}};
  const auto found = bindings.find(text);
  if (found == bindings.end()) {
    fail_word("bind", text, {"none", "cores", "numa"});
  }
  return found->second;
}

}  // namespace

void read_launch_options(const GivenOptions& given, CommandLine& line) {
  if (given.has("launch")) {
    line.num_ranks = read_count("launch", given, 1, kMaxRanks, "a number of ranks");
  }
  if (given.has("bind")) {
    if (!given.has("launch")) {
      fail_usage("--bind has no effect without --launch; other launchers bind their ranks");
    }
    line.binding = read_binding(given.value_of("bind"));
  }
}

void read_restart_options(const GivenOptions& given, CommandLine& line) {
  if (given.has("max-restarts")) {
    if (!given.has("launch")) {
      fail_usage(
          "--max-restarts has no effect without --launch; other launchers restart their ranks");
    }
    line.max_restarts = read_count("max-restarts", given, 0, kMostRestarts, "a number");
  }
  if (given.has("min-ranks")) {
    if (line.max_restarts < 2) {
      fail_usage(
          "--min-ranks has no effect without --max-restarts of 2 or more: a rank is excluded when "
          "it fails the second time");
    }
    if (line.num_ranks < 2) {
      fail_usage("--min-ranks has no effect with --launch 1, whose rank cannot be excluded");
    }
    line.min_ranks =
        read_count("min-ranks", given, 1, std::int64_t{line.num_ranks} - 1, "a number of ranks");
  }
}

namespace {

struct DividedArguments {
  std::vector<std::string> of_launcher;
  std::vector<std::string> of_rank;
};

DividedArguments divided(const std::vector<std::string>& arguments) {
  const auto is_of_launcher = [](std::string_view name) {
    constexpr Option kOptions[] = {kLaunchOption, kBindOption, kMaxRestartsOption, kMinRanksOption};
    return std::ranges::any_of(kOptions, [name](const Option& option) {
      return name.starts_with("--") && name.substr(2) == option.name;
    });
  };
  DividedArguments result;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (is_of_launcher(argument)) {
      result.of_launcher.push_back(arguments[i]);
      if (++i < arguments.size()) {  // its value too
        result.of_launcher.push_back(arguments[i]);
      }
    } else if (is_of_launcher(argument.substr(0, argument.find('=')))) {
      result.of_launcher.push_back(arguments[i]);
    } else {
      result.of_rank.push_back(arguments[i]);
    }
  }
  return result;
}

}  // namespace

std::vector<std::string> arguments_of_rank(const std::vector<std::string>& arguments) {
  return divided(arguments).of_rank;
}

std::vector<std::string> arguments_of_launcher(const std::vector<std::string>& arguments) {
  return divided(arguments).of_launcher;
}

std::vector<std::string> with_launcher_options(std::vector<std::string> words,
                                               const std::vector<std::string>& options) {
  const bool has_verb = words.size() > 1 && !words[1].starts_with("-");
  words.insert(words.begin() + (has_verb ? 2 : 1), options.begin(), options.end());
  return words;
}

}  // namespace tenon
