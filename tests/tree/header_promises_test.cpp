// SPDX-License-Identifier: Apache-2.0
//
// Compares the C headers of the SDK with the host. Each public flag and each field of a struct is
// named by some host file, or its comment says "Reserved: ignored by this host". A name may not be
// both. So a header promises nothing that the host ignores in silence.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
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

std::vector<fs::path> files_under(const fs::path& folder, const Names& extensions) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(tenon::source_dir() / folder)) {
    if (entry.is_regular_file() && extensions.count(entry.path().extension().string()) != 0) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Code with each comment replaced by a marker: \x01, the comment's index in decimal, \x02.
struct Marked {
  std::string code;
  std::vector<std::string> comments;
};

Marked marked(const std::string& text) {
  Marked out;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    size_t end = i + 1;
    if (text.compare(i, 2, "/*") == 0 || text.compare(i, 2, "//") == 0) {
      end = c == '/' && text[i + 1] == '*' ? text.find("*/", i) : text.find('\n', i);
      end = end == std::string::npos ? text.size() : end + (text[i + 1] == '*' ? 2 : 0);
      out.code += '\x01' + std::to_string(out.comments.size()) + '\x02';
      out.comments.push_back(text.substr(i, end - i));
    } else if (c == '"' || (c == '\'' && (i == 0 || std::isalnum(text[i - 1]) == 0))) {
      while (end < text.size() && text[end] != c && text[end] != '\n') {
        end += text[end] == '\\' ? 2 : 1;
      }
      end = std::min(end + 1, text.size());
      out.code += "\"\"";
    } else {
      out.code += c;
    }
    i = end;
  }
  return out;
}

const std::regex kMarker("\x01([0-9]+)\x02");

// The comments of a piece of marked code, in one text.
std::string comments_in(const std::string& code, const Marked& from) {
  std::string out;
  for (std::sregex_iterator it(code.begin(), code.end(), kMarker), end; it != end; ++it) {
    out += from.comments[std::stoul((*it)[1])] + "\n";
  }
  return out;
}

// Pieces of marked code up to each separator, with the comments before it and behind it on its
// line.
std::vector<std::string> pieces_of(const std::string& code, char separator) {
  static const std::regex kTrailing("^[ \t]*\x01[0-9]+\x02");
  std::vector<std::string> pieces;
  size_t begin = 0;
  while (begin < code.size()) {
    size_t end = code.find(separator, begin);
    end = end == std::string::npos ? code.size() : end + 1;
    std::smatch trailing;
    const std::string rest = code.substr(end, code.find('\n', end) - end);
    if (std::regex_search(rest, trailing, kTrailing)) {
      end += static_cast<size_t>(trailing.length());
    }
    pieces.push_back(code.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

// Something that a header promises: a constant, a macro, or a field as "struct.field".
struct Promise {
  std::string owner;  // the struct of a field; "" for a constant or macro
  std::string name;
  std::string comment;
  std::string header;
  bool is_draft_reserved = false;  // the header as a whole is reserved

  std::string text() const { return header + ": " + (owner.empty() ? "" : owner + ".") + name; }
  bool is_reserved() const {
    return is_draft_reserved || comment.find("Reserved: ignored by this host") != std::string::npos;
  }
};

// The name that a declaration of C gives; "" for none.
std::string declared_name(std::string code) {
  code = std::regex_replace(code, kMarker, " ");
  std::smatch found;
  if (std::regex_search(code, found, std::regex("\\(\\s*\\*\\s*(\\w+)\\s*\\)"))) {
    return found[1];
  }
  code = std::regex_replace(code, std::regex("\\[[^\\]]*\\]"), "");
  return std::regex_search(code, found, std::regex("(\\w+)\\s*;")) ? found[1].str() : "";
}

std::vector<Promise> promises_of(const fs::path& file) {
  const Marked header = marked(read_file(file));
  const std::string name = fs::relative(file, tenon::source_dir() / "sdk/include").string();
  const bool is_draft_reserved =
      header.comments.front().find("*\n * Reserved: ignored by this host") != std::string::npos;
  std::vector<Promise> out;
  const auto add = [&](std::string owner, std::string what, const std::string& code) {
    out.push_back(
        {std::move(owner), std::move(what), comments_in(code, header), name, is_draft_reserved});
  };
  // Bodies of enums and structs; no body of these headers holds another, but for unions.
  const std::regex body("(enum|struct (tenon_\\w+)) \\{([^]*?)\n?\\}(?=;| tenon_)");
  for (std::sregex_iterator it(header.code.begin(), header.code.end(), body), end; it != end;
       ++it) {
    const bool is_enum = (*it)[1] == "enum";
    for (const std::string& piece : pieces_of((*it)[3], is_enum ? ',' : ';')) {
      std::smatch constant;
      if (!is_enum) {
        const std::string field = declared_name(piece);
        if (!field.empty() && field != "reserved") {
          add((*it)[2], field, piece);
        }
      } else if (std::regex_search(piece, constant, std::regex("(TENON_\\w+)"))) {
        add("", constant[1], piece);
      }
    }
  }
  // Macros with arguments are help for plugins, and no flags.
  const std::regex macro("((?:\x01[0-9]+\x02\n)?)#define (TENON_\\w+)(?=\\s)");
  for (std::sregex_iterator it(header.code.begin(), header.code.end(), macro), end; it != end;
       ++it) {
    add("", (*it)[2], (*it)[1]);
  }
  return out;
}

std::vector<Promise> all_promises() {
  std::vector<Promise> out;
  for (const fs::path& file : files_under("sdk/include/tenon", {".h"})) {
    const std::vector<Promise> some = promises_of(file);
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

// What the handwritten code of the host names. What sdk/abi/glue.py writes names whatever the
// headers have.
struct HostNames {
  Names words;
  Names members;  // after '.' or '->', or tested by TENON_HAS or TENON_REQUIRE
  std::string code;
};

void collect(const std::string& code, const std::regex& what, Names& out) {
  for (std::sregex_iterator it(code.begin(), code.end(), what), end; it != end; ++it) {
    out.insert((*it)[1]);
  }
}

const HostNames& host_names() {
  static const HostNames kNames = [] {
    HostNames names;
    for (const fs::path& file : files_under("host", {".hpp", ".cpp", ".cu", ".cuh"})) {
      if (file.filename().string().starts_with("generated_")) {
        continue;
      }
      const std::string code = std::regex_replace(marked(read_file(file)).code, kMarker, " ");
      collect(code, std::regex("(\\w+)"), names.words);
      collect(code, std::regex("(?:\\.|->)\\s*(\\w+)"), names.members);
      collect(code, std::regex("TENON_(?:HAS|REQUIRE)\\([^,]*,[^,]*,\\s*(\\w+)"), names.members);
      names.code += code;
    }
    return names;
  }();
  return kNames;
}

// Constants that the host handles without naming them: by a range, or as "any other". The code that
// does so must exist.
const std::map<std::string, std::string> kHandledByValue = {
    {"TENON_ADDITIVE_SAMPLES", "additive_over != TENON_ADDITIVE_NONE"},
    {"TENON_NARROW_STOCHASTIC", "info.narrow > TENON_NARROW_MASTER"},
    {"TENON_PHASE_BEFORE", "info.phase > TENON_PHASE_AFTER"},
    {"TENON_POOL_SUM", "spec.pooling > TENON_POOL_FIRST_N"},
};

// Structs that one plugin passes to another; the host only passes on the table that takes them.
const std::set<std::string> kBetweenPlugins = {"tenon_decode_args", "tenon_encode_args"};

// How often the headers name each identifier.
std::map<std::string, int> named_in_headers() {
  std::map<std::string, int> counts;
  const std::regex kName("[A-Za-z_]\\w*");
  for (const fs::path& file : files_under("sdk/include/tenon", {".h"})) {
    const std::string code = std::regex_replace(marked(read_file(file)).code, kMarker, " ");
    for (std::sregex_iterator at(code.begin(), code.end(), kName), end; at != end; ++at) {
      ++counts[at->str()];
    }
  }
  return counts;
}

// Include guards, and constants and macros that the headers themselves use.
bool is_helper(const std::string& name) {
  static const std::map<std::string, int> kCounts = named_in_headers();
  const auto found = kCounts.find(name);
  return name.ends_with("_H") || (found != kCounts.end() && found->second > 1);
}

bool is_named_by_host(const Promise& promise) {
  if (promise.owner.empty() || promise.owner.ends_with("_api")) {
    return host_names().words.count(promise.name) != 0;
  }
  return host_names().members.count(promise.name) != 0;
}

}  // namespace

TEST_CASE("headers are read: constants, macros and fields with their comments", "[tree]") {
  const std::vector<Promise> promises = all_promises();
  CHECK(promises.size() > 500);
  const auto find = [&](const std::string& owner, const std::string& name) {
    const auto found = std::find_if(promises.begin(), promises.end(), [&](const Promise& p) {
      return p.owner == owner && p.name == name;
    });
    INFO(owner << " " << name);
    REQUIRE(found != promises.end());
    return *found;
  };
  CHECK(find("", "TENON_BLOCK_ALIASES").is_reserved());
  CHECK_FALSE(find("", "TENON_BLOCK_NO_RECOMPUTE").is_reserved());
  CHECK_FALSE(find("tenon_parameter_spec", "init").is_reserved());
  CHECK_FALSE(find("tenon_hook_info", "reads").is_reserved());
  CHECK_FALSE(find("tenon_dataset", "next").is_reserved());
  CHECK(find("tenon_clipper", "clip").is_reserved());
  CHECK_FALSE(find("", "TENON_NO_INDEX").is_reserved());
}

TEST_CASE("the host names each public flag and field, or its comment says Reserved", "[tree]") {
  for (const Promise& promise : all_promises()) {
    if (promise.is_reserved() || kBetweenPlugins.contains(promise.owner) ||
        (promise.owner.empty() && is_helper(promise.name))) {
      continue;
    }
    const auto by_value = kHandledByValue.find(promise.name);
    if (promise.owner.empty() && by_value != kHandledByValue.end()) {
      INFO(promise.text() << " is listed as handled by: " << by_value->second);
      CHECK(host_names().code.find(by_value->second) != std::string::npos);
      CHECK_FALSE(is_named_by_host(promise));
      continue;
    }
    INFO(promise.text() << " is named by no host file: use it, refuse it, or mark it "
                           "\"Reserved: ignored by this host\"");
    CHECK(is_named_by_host(promise));
  }
}

TEST_CASE("the host does not name what a header calls reserved", "[tree]") {
  for (const Promise& promise : all_promises()) {
    if (!promise.is_reserved() || promise.name == "struct_size" || promise.name.ends_with("_ID") ||
        (promise.owner.empty() && is_helper(promise.name))) {
      continue;
    }
    INFO(promise.text() << " is marked reserved, and a host file names it: correct its comment");
    if (promise.is_draft_reserved && !promise.owner.empty()) {
      // Names of fields recur in other structs; that of the struct does not.
      CHECK(host_names().words.count(promise.owner) == 0);
    } else {
      CHECK_FALSE(is_named_by_host(promise));
    }
  }
}
