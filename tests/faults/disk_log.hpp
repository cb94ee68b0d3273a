// SPDX-License-Identifier: Apache-2.0
//
// The changes and syncs of a folder, in order: what disk_recorder.hpp records and power_loss.hpp
// replays. Files and folders are numbers, "nodes", so that a rename changes entries alone.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {

inline constexpr size_t kNoNode = static_cast<size_t>(-1);
inline constexpr size_t kRootNode = 0;

enum class NodeKind { kFolder, kFile, kLink };

struct DiskEvent {
  enum class Kind {
    kEntries,     // of one call: they take effect together, or not at all
    kContent,     // a file now has this content
    kSyncFile,    // its content is on the disk
    kSyncFolder,  // its entries are on the disk
    kSyncAll,
    kSaid,  // the program printed a line: from now on the user may rely on what it says
  };
  struct Entry {
    size_t folder;
    std::string name;
    size_t node;  // kNoNode: removed
  };

  Kind kind;
  std::string call;  // for messages: "rename run/a -> run/b"; the line of kSaid
  std::vector<Entry> entries = {};
  size_t node = kNoNode;
  size_t content = 0;  // a number of Contents
};

// File contents, each once, by numbers. The empty content is 0.
class Contents {
 public:
  Contents() { add(""); }
  size_t add(const std::string& text);
  const std::string& operator[](size_t content) const { return *texts_[content]; }

 private:
  std::unordered_map<std::string, size_t> numbers_;
  std::vector<const std::string*> texts_;
};

struct DiskLog {
  std::vector<DiskEvent> events;
  std::vector<NodeKind> nodes = {NodeKind::kFolder};
  Contents contents;
};

// A folder with all that is in it: paths without a leading '/', folders before their contents.
struct ImageEntry {
  NodeKind kind;
  size_t content = 0;
  bool operator==(const ImageEntry&) const = default;
};
using DiskImage = std::map<std::string, ImageEntry>;

DiskImage read_image(const std::filesystem::path& root, Contents& contents);
// Creates `root`, which must not exist.
void write_image(const DiskImage& image,
                 const Contents& contents,
                 const std::filesystem::path& root);

}  // namespace tenon
