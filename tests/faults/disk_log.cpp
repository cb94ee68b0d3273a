// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/disk_log.hpp"

#include <fstream>

#include "tests/support/read_files.hpp"

namespace tenon {

namespace fs = std::filesystem;

size_t Contents::add(const std::string& text) {
  const auto [at, is_new] = numbers_.try_emplace(text, texts_.size());
  if (is_new) {
    texts_.push_back(&at->first);
  }
  return at->second;
}

DiskImage read_image(const fs::path& root, Contents& contents) {
  DiskImage image;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string path = entry.path().lexically_relative(root).string();
    if (entry.is_symlink()) {
      image[path] = {NodeKind::kLink, contents.add(fs::read_symlink(entry.path()).string())};
    } else if (entry.is_directory()) {
      image[path] = {NodeKind::kFolder};
    } else {
      image[path] = {NodeKind::kFile, contents.add(file_text(entry.path()))};
    }
  }
  return image;
}

void write_image(const DiskImage& image, const Contents& contents, const fs::path& root) {
  fs::create_directory(root);
  for (const auto& [path, entry] : image) {
    const fs::path full = root / path;
    if (entry.kind == NodeKind::kFolder) {
      fs::create_directory(full);
    } else if (entry.kind == NodeKind::kLink) {
      fs::create_symlink(contents[entry.content], full);
    } else {
      const std::string& text = contents[entry.content];
      std::ofstream out(full, std::ios::binary);
      out.write(text.data(), static_cast<std::streamsize>(text.size()));
    }
  }
}

}  // namespace tenon
