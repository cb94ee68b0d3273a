// SPDX-License-Identifier: Apache-2.0
#include "tests/docs/markdown.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "tests/support/paths.hpp"

namespace fs = std::filesystem;

namespace tenon {
namespace {

bool is_fence(const std::string& line) {
  return line.compare(0, 3, "```") == 0;
}

std::string comment_in(const std::string& line) {
  const std::regex form("<!-- (.*) -->");
  std::smatch match;
  return std::regex_match(line, match, form) ? match[1].str() : "";
}

}  // namespace

std::vector<FencedBlock> fenced_blocks(const std::string& page) {
  std::vector<FencedBlock> blocks;
  std::istringstream in(page);
  std::string above;
  int number = 0;
  for (std::string line; std::getline(in, line); above = line) {
    ++number;
    if (!is_fence(line)) {
      continue;
    }
    FencedBlock block;
    block.language = line.substr(3);
    block.comment = comment_in(above);
    block.line = number;
    while (std::getline(in, line) && !is_fence(line)) {
      ++number;
      block.text += line + "\n";
    }
    ++number;
    blocks.push_back(std::move(block));
  }
  return blocks;
}

std::string prose_of(const std::string& page) {
  std::string prose;
  std::istringstream in(page);
  bool is_inside = false;
  for (std::string line; std::getline(in, line);) {
    if (is_fence(line)) {
      is_inside = !is_inside;
    } else if (!is_inside) {
      prose += line + "\n";
    }
  }
  return prose;
}

std::vector<std::string> links_of(const std::string& page) {
  const std::regex form(R"(\]\(([^()\s]+)\))");
  const std::string prose = prose_of(page);
  std::vector<std::string> links;
  for (std::sregex_iterator match(prose.begin(), prose.end(), form), end; match != end; ++match) {
    links.push_back((*match)[1].str());
  }
  return links;
}

std::vector<std::string> anchors_of(const std::string& page) {
  std::vector<std::string> anchors;
  std::istringstream in(prose_of(page));
  for (std::string line; std::getline(in, line);) {
    const std::size_t level = line.find_first_not_of('#');
    if (level == 0 || level == std::string::npos || line[level] != ' ') {
      continue;
    }
    std::string anchor;
    for (const char c : line.substr(level + 1)) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) != 0 || c == '-' || c == '_') {
        anchor += static_cast<char>(std::tolower(byte));
      } else if (c == ' ') {
        anchor += '-';
      }
    }
    anchors.push_back(anchor);
  }
  return anchors;
}

std::vector<fs::path> all_pages() {
  std::vector<fs::path> pages;
  for (const char* const page : {"README.md", "CHANGELOG.md", "CONTRIBUTING.md"}) {
    pages.push_back(source_dir() / page);
  }
  for (const char* const folder : {"docs", "plugins"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() / folder)) {
      if (entry.path().extension() == ".md") {
        pages.push_back(entry.path());
      }
    }
  }
  std::sort(pages.begin(), pages.end());
  return pages;
}

std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) {
    throw std::runtime_error("cannot read " + file.string());
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace tenon
