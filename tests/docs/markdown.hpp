// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the documentation need of Markdown: fenced blocks with the comment above each,
// headings and links. No parser: it knows the form in which the pages of this project are written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tenon {

// A block between lines of ```.
struct FencedBlock {
  std::string language;  // "json", "console"; "" where none is given
  std::string comment;   // of the line above, what stands between <!-- and -->; "" without one
  std::string text;      // with the line break at its end
  int line = 0;          // of the opening fence, from 1
};

std::vector<FencedBlock> fenced_blocks(const std::string& page);

// The page without its fenced blocks.
std::string prose_of(const std::string& page);

// Targets of [text](target), in order.
std::vector<std::string> links_of(const std::string& page);

// The anchors that headings have, as forges make them: "#exit-status" is "exit-status".
std::vector<std::string> anchors_of(const std::string& page);

// All pages that people read: README.md and its like, docs/, and each plugin's README.md.
std::vector<std::filesystem::path> all_pages();

// Errors  std::runtime_error if it cannot be read
std::string read_text(const std::filesystem::path& file);

}  // namespace tenon
