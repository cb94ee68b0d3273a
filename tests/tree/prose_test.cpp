// SPDX-License-Identifier: Apache-2.0
//
// Holds docs, comments and messages to the words of docs/reference/glossary.md: no phrase of the
// list below, and no line of prose that is longer than 100 columns. Decision records keep the words
// of their time.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"

namespace fs = std::filesystem;

namespace {

struct Phrase {
  std::string words;  // lower case; "a|b" stands for either word
  std::string use;    // what to write
};

const std::vector<Phrase>& phrases() {
  static const std::vector<Phrase> kPhrases = {
      {"go|goes|going|gone|went on with|from|to", "resume, continue"},
      {"the run goes on", "the run continues"},
      {"anew", "again, from scratch"},
      {"is|are|was|were|be told", "Tenon logs, prints, reports"},
      {"tells the|it|what|whoever|its|a|each|of", "reports, logs, prints"},
      {"hears", "receives"},
      {"figure|figures", "metric, number"},
      {"horizon|horizons", "run length, stopping condition"},
      {"first values", "initial values"},
      {"shared|dealt out", "sharded, assigned"},
      {"not finite", "non-finite"},
      {"wholly or not", "atomically"},
      {"wholly", "completely, or drop it"},
      {"damaged", "corrupt"},
      {"held against", "verified against"},
      {"left out", "skipped, excluded"},
      {"passed over", "skipped"},
      {"of its|their|his own .|,|;|:|)", "own, separate, custom"},
      {"goes|gone|going back", "rolls back"},
      {"is|are not there", "does not exist"},
      {"mend|mends|mended", "fix"},
      {"wish|wishes|wished", "request"},
      {"but for", "except"},
      {"made up for", "run on resume"},
      {"in a row", "consecutive, streak"},
      {"bundle|bundles", "checkpoint, checkpoint directory"},
      {"at rest", "at a boundary"},
      {"judge|judges|judged", "check"},
      {"lenient", "exempt"},
      {"so many", "N, every N steps"},
      {"of before", "earlier, the last X before Y"},
      {"as good as", "nearly"},
      {"to come .|,|;|:|)", "newer, future"},
      {"settle|settles|settled", "resolve, sync, finish"},
      {"misspelt", "misspelled"},
  };
  return kPhrases;
}

struct Word {
  std::string text;  // lower case
  int line = 0;
};

std::vector<Word> words_of(std::string_view text, int first_line) {
  std::vector<Word> words;
  int line = first_line;
  std::string word;
  const auto flush = [&] {
    if (!word.empty()) {
      words.push_back({word, line});
      word.clear();
    }
  };
  const auto is_alnum = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool is_in_id = c == '.' && !word.empty() && is_alnum(i + 1);  // "checkpoint.damaged"
    if (is_alnum(i) || is_in_id || c == '_' || c == '\'') {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      continue;
    }
    flush();
    if (c == '\n') {
      ++line;
    } else if (c != ' ' && c != '*' && c != '/' && c != '#' && c != '-') {
      words.push_back({std::string(1, c), line});  // a phrase does not reach over punctuation
    }
  }
  flush();
  return words;
}

// A phrase as a list of sets of words.
using Pattern = std::vector<std::set<std::string>>;

Pattern pattern_of(const std::string& words) {
  Pattern pattern;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    std::set<std::string> choices;
    std::istringstream parts(word);
    for (std::string part; std::getline(parts, part, '|');) {
      choices.insert(part);
    }
    pattern.push_back(choices);
  }
  return pattern;
}

using Report = std::function<void(const Phrase& phrase, int line)>;

void find_phrases(const std::vector<Word>& words, const Report& report) {
  static const std::vector<Pattern> kPatterns = [] {
    std::vector<Pattern> patterns;
    for (const Phrase& phrase : phrases()) {
      patterns.push_back(pattern_of(phrase.words));
    }
    return patterns;
  }();
  for (size_t i = 0; i < words.size(); ++i) {
    for (size_t p = 0; p < kPatterns.size(); ++p) {
      const Pattern& pattern = kPatterns[p];
      bool is_match = i + pattern.size() <= words.size();
      for (size_t k = 0; is_match && k < pattern.size(); ++k) {
        is_match = pattern[k].count(words[i + k].text) == 1;
      }
      if (is_match) {
        report(phrases()[p], words[i].line);
      }
    }
  }
}

// What a C or C++ source says to people.
struct SourceText {
  std::string comments;  // everything else is blank, lines stay where they are
  std::string strings;
};

SourceText split_source(const std::string& text) {
  SourceText result{std::string(text.size(), ' '), std::string(text.size(), ' ')};
  enum class In { kCode, kLine, kBlock, kString, kRaw, kChar } in = In::kCode;
  std::string raw_end;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      result.comments[i] = result.strings[i] = '\n';
      if (in == In::kLine) {
        in = In::kCode;
      }
      continue;
    }
    const std::string_view rest = std::string_view(text).substr(i);
    switch (in) {
      case In::kCode:
        if (rest.rfind("//", 0) == 0) {
          in = In::kLine;
        } else if (rest.rfind("/*", 0) == 0) {
          in = In::kBlock;
          ++i;
        } else if (rest.rfind("R\"", 0) == 0) {
          const size_t open = text.find('(', i);
          raw_end = ")" + text.substr(i + 2, open - i - 2) + "\"";
          in = In::kRaw;
          i = open;
        } else if (c == '"') {
          in = In::kString;
        } else if (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) ==
                                               0)) {  // no digit separator
          in = In::kChar;
        }
        break;
      case In::kLine:
        result.comments[i] = c;
        break;
      case In::kBlock:
        if (rest.rfind("*/", 0) == 0) {
          in = In::kCode;
          ++i;
        } else {
          result.comments[i] = c;
        }
        break;
      case In::kString:
      case In::kChar:
        if (c == '\\') {
          ++i;
        } else if (c == (in == In::kString ? '"' : '\'')) {
          in = In::kCode;
        } else if (in == In::kString) {
          result.strings[i] = c;
        }
        break;
      case In::kRaw:
        if (rest.rfind(raw_end, 0) == 0) {
          in = In::kCode;
          i += raw_end.size() - 1;
        } else {
          result.strings[i] = c;
        }
        break;
    }
  }
  return result;
}

// Prose of a page: code blocks, inline code and link targets are blank.
std::string prose_of(const std::string& page) {
  std::string prose;
  bool is_code = false;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("```") != std::string::npos) {
      is_code = !is_code;
      prose += '\n';
      continue;
    }
    bool is_quoted = false;
    for (size_t i = 0; i < line.size() && !is_code; ++i) {
      if (line[i] == '`') {
        is_quoted = !is_quoted;
        prose += '.';
      } else if (!is_quoted && line.compare(i, 2, "](") == 0) {
        const size_t end = line.find(')', i);
        i = end == std::string::npos ? line.size() : end;
        prose += ' ';
      } else if (!is_quoted) {
        prose += line[i];
      }
    }
    prose += '\n';
  }
  return prose;
}

// Files of the tree below `folders` with one of `endings`, relative to the root.
std::vector<fs::path> files_below(const std::vector<std::string>& folders,
                                  const std::set<std::string>& endings) {
  std::vector<fs::path> files;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(tenon::source_dir() / folder)) {
      if (entry.is_regular_file() && endings.count(entry.path().extension().string()) != 0) {
        files.push_back(fs::relative(entry.path(), tenon::source_dir()));
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> pages() {
  std::vector<fs::path> files = files_below({"docs", "plugins", "sdk", "recipes"}, {".md"});
  std::erase_if(files, [](const fs::path& file) {
    return file == "docs/reference/glossary.md";  // names the words to avoid
  });
  for (const char* page : {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}) {
    files.emplace_back(page);
  }
  return files;
}

// Literals without a space are keys, ids and patterns: what files and recipes hold stays as it is.
std::string messages_of(const std::string& source) {
  std::string messages = split_source(source).strings;
  for (size_t begin = 0; begin < messages.size();) {
    size_t end = messages.find('\n', begin);
    end = end == std::string::npos ? messages.size() : end;
    // On one line, literals are at least two blanks apart: their quotes.
    for (size_t at = begin; at < end;) {
      const size_t first = messages.find_first_not_of(' ', at);
      if (first >= end) {
        break;
      }
      const size_t last = std::min(messages.find("  ", first), end);
      if (messages.find(' ', first) >= last) {
        std::fill(messages.begin() + static_cast<std::ptrdiff_t>(first),
                  messages.begin() + static_cast<std::ptrdiff_t>(last),
                  '.');  // no phrase reaches over it
      }
      at = last;
    }
    begin = end + 1;
  }
  return messages;
}

void check_phrases(const fs::path& file, const std::string& text) {
  find_phrases(words_of(text, 1), [&](const Phrase& phrase, int line) {
    FAIL_CHECK(file.string() << ":" << line << ": \"" << phrase.words
                             << "\"; write: " << phrase.use);
  });
}

const std::set<std::string> kCode = {".h", ".hpp", ".c", ".cpp", ".cu", ".in"};

}  // namespace

TEST_CASE("phrases are found across lines, but not across sentences", "[tree]") {
  std::vector<int> lines;
  const Report note = [&](const Phrase&, int line) { lines.push_back(line); };
  find_phrases(words_of("A run is\n * told of it. Gone on. With", 1), note);
  CHECK(lines == std::vector<int>{1});
  const SourceText source = split_source("f(\"a // b\"); // c \"d\"\n/* e */ R\"(f)\" 1'000 'g'");
  CHECK(source.comments.find("c \"d\"") != std::string::npos);
  CHECK(source.comments.find("e") != std::string::npos);
  CHECK(source.comments.find("b") == std::string::npos);
  CHECK(source.strings.find("a // b") != std::string::npos);
  CHECK(source.strings.find('f') != std::string::npos);
  CHECK(source.strings.find('g') == std::string::npos);
  CHECK(prose_of("a `figure` [b](wish.md)\n```\nanew\n```\n").find("anew") == std::string::npos);
}

TEST_CASE("pages use the words of the glossary", "[tree]") {
  for (const fs::path& page : pages()) {
    check_phrases(page, prose_of(tenon::file_text(tenon::source_dir() / page)));
  }
}

TEST_CASE("lines of prose have at most 100 columns", "[tree]") {
  for (const fs::path& page : pages()) {
    bool is_code = false;
    bool is_generated = false;
    std::istringstream lines(tenon::file_text(tenon::source_dir() / page));
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      is_code ^= line.find("```") != std::string::npos;
      is_generated = line.rfind("<!-- host ", 0) == 0 || (is_generated && line != "<!-- end -->");
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // of UTF-8
      });
      const bool is_prose = !is_code && !is_generated && line.rfind("|", 0) != 0 &&
                            line.rfind("#", 0) != 0 && line.rfind("    ", 0) != 0 &&
                            line.rfind("<!--", 0) != 0 && line.find(' ', 60) != std::string::npos;
      INFO(page.string() << ":" << number << " has " << columns << " columns");
      CHECK((!is_prose || columns <= 100));
    }
  }
}

TEST_CASE("comments and messages of the SDK and the plugins use the words of the glossary",
          "[tree]") {
  for (const fs::path& file : files_below({"sdk", "plugins"}, kCode)) {
    const SourceText source = split_source(tenon::file_text(tenon::source_dir() / file));
    check_phrases(file, source.comments);
    check_phrases(file, messages_of(tenon::file_text(tenon::source_dir() / file)));
  }
}

TEST_CASE("comments and messages of the host use the words of the glossary", "[tree]") {
  for (const fs::path& file : files_below({"host"}, kCode)) {
    const std::string source = tenon::file_text(tenon::source_dir() / file);
    check_phrases(file, prose_of(split_source(source).comments));  // without `names` of code
    check_phrases(file, messages_of(source));
  }
}
