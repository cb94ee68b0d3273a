// SPDX-License-Identifier: Apache-2.0
//
// The names of events stand in the host and in the wrapper for plugins, whose headers cannot meet
// in one program. So their sources are compared, with each other and with the ABI's constants.
#include <tenon/hook.h>

#include <cctype>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

// What `pattern` finds, its first group, from `begin` to the next '}'.
std::vector<std::string> found_in(const std::string& file,
                                  const std::string& begin,
                                  const std::string& pattern) {
  std::ifstream stream(source_dir() / file);
  std::ostringstream text;
  text << stream.rdbuf();
  const std::string all = text.str();
  const size_t at = all.find(begin);
  REQUIRE(at != std::string::npos);
  const std::string part = all.substr(at, all.find('}', at) - at);
  std::vector<std::string> found;
  const std::regex regex(pattern);
  for (std::sregex_iterator i(part.begin(), part.end(), regex), end; i != end; ++i) {
    std::string name = (*i)[1];
    for (char& c : name) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    found.push_back(name);
  }
  return found;
}

}  // namespace

TEST_CASE("events have the same names in the host, in the wrapper and in the ABI", "[hook]") {
  const auto host = found_in("host/hook/event_name.cpp", "kNames = {", "\"([a-z_]+)\"");
  const auto wrapper =
      found_in("sdk/include/tenon/cpp/hook.hpp", "kNames[TENON_NUM_EVENTS] = {", "\"([a-z_]+)\"");
  const auto abi = found_in(
      "sdk/include/tenon/hook.h", "TENON_EVENT_BEFORE_INIT = 0", "TENON_EVENT_([A-Z_]+)\\b");
  CHECK(host.size() == TENON_NUM_EVENTS);
  CHECK(host == wrapper);
  CHECK(host == abi);
}

}  // namespace tenon
