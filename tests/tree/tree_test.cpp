// SPDX-License-Identifier: Apache-2.0
//
// Holds the tree to its rules: who may include whom (layers.json beside this file), where names
// come from, how a file opens, and that plugins see nothing of the tree but the staged SDK.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"

namespace fs = std::filesystem;

namespace {

using Names = std::set<std::string>;

std::string read_file(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  REQUIRE(in.good());
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// All files under `folder` of the source tree with one of the extensions, relative to the root.
std::vector<fs::path> files_under(const std::string& folder, const Names& extensions) {
  std::vector<fs::path> files;
  const fs::path root = tenon::source_dir();
  if (!fs::exists(root / folder)) {
    return files;
  }
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (entry.is_regular_file() && extensions.count(entry.path().extension().string()) != 0) {
      files.push_back(fs::relative(entry.path(), root));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

const Names kCode = {".h", ".hpp", ".c", ".cpp", ".cu", ".cuh"};

struct Include {
  std::string name;     // what stands between the marks
  bool quoted = false;  // "..." rather than <...>
  int line = 0;
};

// Every #include of a text, comments and disabled branches too: a rule that one can comment around
// is none.
std::vector<Include> includes_of(const std::string& text) {
  static const std::regex kInclude(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<Include> includes;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::smatch match;
    if (std::regex_search(line, match, kInclude)) {
      includes.push_back({match[2], match[1] == "\"", number});
    }
  }
  return includes;
}

// "host/data/window.cpp:7" for messages.
std::string place(const fs::path& file, int line) {
  return file.string() + ":" + std::to_string(line);
}

// layers.json: the rooms of host/ ("data", "train/plan"), each with the rooms that it may include,
// and with the headers that others may include if these are not all.
std::map<std::string, Names> allowed_includes() {
  const auto rows =
      nlohmann::json::parse(read_file(tenon::source_dir() / "tests/tree/layers.json"));
  std::map<std::string, Names> allowed;
  for (const auto& row : rows) {
    const Names may_include = row.at("may_include");
    const bool is_new = allowed.emplace(row.at("folder"), may_include).second;
    INFO(row.at("folder"));
    CHECK(is_new);
  }
  return allowed;
}

// The headers of the rooms of layers.json that keep the rest of theirs to themselves.
std::map<std::string, Names> public_headers() {
  const auto rows =
      nlohmann::json::parse(read_file(tenon::source_dir() / "tests/tree/layers.json"));
  std::map<std::string, Names> headers;
  for (const auto& row : rows) {
    if (row.contains("headers")) {
      headers[row.at("folder")] = row.at("headers").get<Names>();
    }
  }
  return headers;
}

// The room of a path "host/<room>/...": the innermost folder that layers.json lists. Empty for a
// file that lies in none.
std::string room_of(const fs::path& path, const std::map<std::string, Names>& rooms) {
  const std::string top = "host/";
  fs::path folder = path.parent_path();
  while (folder.string().rfind(top, 0) == 0) {
    const std::string room = folder.string().substr(top.size());
    if (rooms.count(room) != 0) {
      return room;
    }
    folder = folder.parent_path();
  }
  return "";
}

// The nodes along a cycle of `graph`, the first one repeated at the end; empty if there is none.
std::vector<std::string> find_cycle(const std::map<std::string, Names>& graph) {
  enum class Mark { kNew, kOpen, kDone };
  std::map<std::string, Mark> marks;
  std::vector<std::string> path;
  auto visit = [&](auto&& self, const std::string& folder) -> bool {
    marks[folder] = Mark::kOpen;
    path.push_back(folder);
    const auto edges = graph.find(folder);
    if (edges != graph.end()) {
      for (const std::string& next : edges->second) {
        if (marks[next] == Mark::kOpen) {
          path.push_back(next);
          path.erase(path.begin(), std::find(path.begin(), path.end(), next));
          return true;
        }
        if (marks[next] == Mark::kNew && self(self, next)) {
          return true;
        }
      }
    }
    marks[folder] = Mark::kDone;
    path.pop_back();
    return false;
  };
  for (const auto& [folder, edges] : graph) {
    if (marks[folder] == Mark::kNew && visit(visit, folder)) {
      return path;
    }
  }
  return {};
}

std::string joined(const std::vector<std::string>& words, const std::string& glue) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : glue) + word;
  }
  return text;
}

}  // namespace

TEST_CASE("the table of layers names only rooms that it has, and has no cycle", "[tree]") {
  const auto allowed = allowed_includes();
  for (const auto& [folder, may_include] : allowed) {
    for (const std::string& other : may_include) {
      CAPTURE(folder, other);
      CHECK(allowed.count(other) == 1);
    }
  }
  CHECK(joined(find_cycle(allowed), " -> ") == "");
}

TEST_CASE("a cycle of includes is found if there is one", "[tree]") {
  CHECK(find_cycle({{"a", {"b"}}, {"b", {"c"}}, {"c", {"b"}}}) ==
        std::vector<std::string>{"b", "c", "b"});
  CHECK(find_cycle({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}).empty());
}

TEST_CASE("a room of host/ includes exactly the rooms that its row lists", "[tree]") {
  const auto allowed = allowed_includes();
  std::map<std::string, Names> graph;
  for (const fs::path& file : files_under("host", kCode)) {
    const std::string room = room_of(file, allowed);
    CAPTURE(file.string());
    REQUIRE(room != "");
    Names& used = graph[room];
    for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
      const std::string other = room_of(include.name, allowed);
      if (other.empty() || other == room) {
        continue;
      }
      used.insert(other);
      INFO(place(file, include.line)
           << " includes \"" << include.name << "\", but the row of " << room
           << " in tests/tree/layers.json does not list " << other);
      CHECK(allowed.at(room).count(other) == 1);
    }
  }
  for (const auto& [room, may_include] : allowed) {
    INFO("host/" << room << " has no file; remove its row from tests/tree/layers.json");
    CHECK(graph.count(room) == 1);
    for (const std::string& other : may_include) {
      INFO("no file of " << room << " includes " << other << "; remove it from the row");
      CHECK(graph[room].count(other) == 1);
    }
  }
  CHECK(joined(find_cycle(graph), " -> ") == "");
}

TEST_CASE("a room with a list of headers is included through these alone", "[tree]") {
  const auto rooms = allowed_includes();
  const auto headers = public_headers();
  REQUIRE(headers.count("trust") == 1);
  std::map<std::string, Names> used;
  for (const fs::path& file : files_under("host", kCode)) {
    const std::string room = room_of(file, rooms);
    for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
      const std::string other = room_of(include.name, rooms);
      if (other != room && headers.count(other) != 0) {
        const std::string name = include.name.substr(("host/" + other + "/").size());
        used[other].insert(name);
        INFO(place(file, include.line)
             << " includes \"" << include.name << "\", which " << other << " keeps to itself");
        CHECK(headers.at(other).count(name) == 1);
      }
    }
  }
  CHECK(used == headers);
}

TEST_CASE("no run depends on a tool", "[tree]") {
  const auto is_tool = [](const std::string& room) { return room.rfind("tools/", 0) == 0; };
  std::size_t num_tools = 0;
  for (const auto& [room, may_include] : allowed_includes()) {
    num_tools += is_tool(room) ? 1 : 0;
    for (const std::string& other : may_include) {
      CAPTURE(room, other);
      CHECK((!is_tool(other) || is_tool(room) || room == "cli"));
    }
  }
  CHECK(num_tools > 0);
  // Libraries: what the library of tools is linked into.
  Names linking;
  for (const fs::path& file : files_under("host", {".txt"})) {
    if (read_file(tenon::source_dir() / file).find("tenon::tools") != std::string::npos) {
      linking.insert(file.string());
    }
  }
  CHECK(linking == Names{"host/cli/CMakeLists.txt"});
}

TEST_CASE("no files of host/ include each other in a cycle", "[tree]") {
  // A header and its source file are one unit: what either of them includes, the unit depends on.
  const auto unit_of = [](const fs::path& file) {
    return (file.parent_path() / file.stem()).string();
  };
  std::map<std::string, Names> graph;
  for (const fs::path& file : files_under("host", kCode)) {
    const std::string unit = unit_of(file);
    for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
      if (include.quoted && unit_of(include.name) != unit) {
        graph[unit].insert(unit_of(include.name));
      }
    }
  }
  CHECK(joined(find_cycle(graph), " -> ") == "");
}

TEST_CASE("an include in quotes is host's own, from the root, and there", "[tree]") {
  for (const fs::path& file : files_under("host", kCode)) {
    for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
      if (include.quoted) {
        INFO(place(file, include.line) << " includes \"" << include.name
                                       << "\"; say \"host/<folder>/...\", or <...> for what is not "
                                          "of host/");
        CHECK(include.name.rfind("host/", 0) == 0);
        CHECK(fs::exists(tenon::source_dir() / include.name));
      }
    }
  }
}

TEST_CASE("CUDA stays in device and embedding, NCCL in distributed", "[tree]") {
  static const std::regex kCuda(R"(^(cuda|cuda_runtime.*|cublas.*|(c10|ATen)/cuda/.*|cuda/.*)$)");
  static const std::regex kNccl(R"(^(nccl.*|.*ProcessGroupNCCL.*)$)");
  for (const fs::path& file : files_under("host", kCode)) {
    const std::string folder = std::next(file.begin())->string();
    for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
      INFO(place(file, include.line) << " includes " << include.name);
      if (std::regex_match(include.name, kCuda)) {
        CHECK((folder == "device" || folder == "embedding"));
      }
      if (std::regex_match(include.name, kNccl)) {
        CHECK(folder == "distributed");
      }
    }
  }
}

TEST_CASE("Arrow stays in the Parquet module", "[tree]") {
  static const std::regex kArrow("^(arrow|parquet)/.*");
  for (const fs::path& file : files_under("host", kCode)) {
    for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
      INFO(place(file, include.line) << " includes " << include.name);
      if (std::regex_match(include.name, kArrow)) {
        CHECK(file.parent_path() == "host/embedding/parquet");
      }
    }
  }
}

TEST_CASE("basenames are unique in host, twin backends excepted", "[tree]") {
  static const Names kTwins = {"cuda", "no_gpu"};
  std::map<std::string, fs::path> seen;
  for (const fs::path& file : files_under("host", kCode)) {
    if (kTwins.count(file.parent_path().filename().string()) != 0) {
      continue;
    }
    const auto [other, is_new] = seen.emplace(file.filename().string(), file);
    INFO(file.string() << " and " << other->second.string() << " have one name");
    CHECK(is_new);
  }
}

TEST_CASE("no file or folder has a name that says nothing", "[tree]") {
  static const std::regex kWord("(^|_)(util|utils|common|helper|helpers|misc)(_|$)");
  for (const std::string top : {"host", "sdk", "plugins", "tests", "cmake"}) {
    for (const auto& entry : fs::recursive_directory_iterator(tenon::source_dir() / top)) {
      const std::string stem = entry.path().stem().string();
      INFO(entry.path().string() << " could hold anything; name the one concept it holds");
      CHECK_FALSE(std::regex_search(stem, kWord));
      CHECK(stem != "base");
    }
  }
}

TEST_CASE("every source file opens with its license", "[tree]") {
  static const Names kAll = {".h", ".hpp", ".c", ".cpp", ".cu", ".cmake", ".txt", ".sh", ".py"};
  for (const std::string top : {"host", "sdk", "plugins", "tests", "cmake"}) {
    for (const fs::path& file : files_under(top, kAll)) {
      if (file.extension() == ".txt" && file.filename() != "CMakeLists.txt") {
        continue;
      }
      std::istringstream lines(read_file(tenon::source_dir() / file));
      std::string line;
      std::getline(lines, line);
      if (line.rfind("#!", 0) == 0) {
        std::getline(lines, line);
      }
      INFO(file.string() << " opens with: " << line);
      CHECK(std::regex_match(
          line, std::regex(R"(^(//|/\*|#) SPDX-License-Identifier: Apache-2\.0( \*/)?$)")));
    }
  }
}

TEST_CASE(
    "neither sdk/ nor plugins/ includes anything of host/, nor a plugin what lies outside plugins/",
    "[tree]") {
  for (const std::string top : {"sdk", "plugins"}) {
    for (const fs::path& file : files_under(top, kCode)) {
      for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
        INFO(place(file, include.line) << " includes " << include.name);
        CHECK(include.name.rfind("host/", 0) != 0);
        CHECK(include.name.rfind("sdk/", 0) != 0);
        if (top == "plugins") {
          const std::string target =
              (file.parent_path() / include.name).lexically_normal().string();
          CHECK((!include.quoted || target.rfind("plugins/", 0) == 0));
          CHECK(include.name.rfind("plugins/", 0) != 0);
        }
      }
    }
  }
}

// A place is where the user wrote a value of the recipe, and nothing else: positions in tensors,
// runs, files and groups have words of their own.
TEST_CASE("only the places of the recipe are named Place", "[tree]") {
  static const std::regex kType(
      R"(\b(?:struct|class|enum(?: class)?|using)\s+([A-Za-z]*Place(?:s|d)?(?:[A-Z][A-Za-z]*)?)\b)");
  std::set<std::string> found;
  for (const fs::path& file : files_under("host", {".hpp", ".cpp"})) {
    const std::string text = read_file(tenon::source_dir() / file);
    for (std::sregex_iterator match(text.begin(), text.end(), kType), end; match != end; ++match) {
      INFO(file.string() << " names a type " << (*match)[1]);
      CHECK(file == "host/json/place.hpp");
      found.insert((*match)[1]);
    }
  }
  CHECK(found == std::set<std::string>{"Place", "PlaceMap", "PlaceOrigin"});
}

TEST_CASE("no ABI header includes more of the standard library than it may", "[tree]") {
  static const Names kAllowed = {"stdint.h", "stddef.h", "stdbool.h"};
  for (const fs::path& file : files_under("sdk/include/tenon", {".h"})) {
    for (const Include& include : includes_of(read_file(tenon::source_dir() / file))) {
      INFO(place(file, include.line) << " includes " << include.name);
      CHECK((include.quoted || kAllowed.count(include.name) == 1));
    }
  }
}

TEST_CASE("plugins are compiled with no include folder of this tree", "[tree]") {
  const fs::path database = tenon::build_dir() / "compile_commands.json";
  if (!fs::exists(database)) {
    TENON_SKIP("this generator writes no compile_commands.json");
  }
  const fs::path source = tenon::source_dir();
  const fs::path build = tenon::build_dir();
  static const std::regex kFolder(R"((-I|-isystem|-iquote|-include) *([^ ]+))");
  for (const auto& entry : nlohmann::json::parse(read_file(database))) {
    const std::string file = entry.at("file");
    const std::string plugins = (source / "plugins").string() + "/";
    if (file.rfind(plugins, 0) != 0) {
      continue;
    }
    const std::string command = entry.at("command");
    if (command.find(" -o tests/") != std::string::npos) {
      continue;  // compiled once more, into a program of tests/
    }
    // The folder of the plugin itself: plugins/<kinds>/<name>.
    const fs::path inside = fs::path(file).lexically_relative(plugins);
    const std::string own = plugins + (*inside.begin() / *std::next(inside.begin())).string();
    for (std::sregex_iterator match(command.begin(), command.end(), kFolder), end; match != end;
         ++match) {
      const std::string folder = fs::path((*match)[2].str()).lexically_normal().string();
      INFO(file << " is compiled with " << (*match)[0]);
      const bool in_source = (folder + "/").rfind(source.string() + "/", 0) == 0;
      const bool in_build = (folder + "/").rfind(build.string() + "/", 0) == 0;
      const bool in_deps = (folder + "/").rfind((source / ".deps").string() + "/", 0) == 0;
      const bool in_own = (folder + "/").rfind(own + "/", 0) == 0;
      // One header, of texts that the host and the plugin of chats have in common.
      const bool is_texts = folder == (source / "host/chat/templates").string();
      CHECK((!in_source || in_build || in_deps || in_own || is_texts));
    }
  }
}
