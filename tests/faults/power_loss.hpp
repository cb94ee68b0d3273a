// SPDX-License-Identifier: Apache-2.0
//
// The states that a disk may be in after a loss of power: the model that the tests by power loss
// replay records of disk_recorder.hpp with. It allows what POSIX allows, like ALICE (Pillai et al.,
// All File Systems Are Not Created Equal, OSDI 2014), which is more than any one file system does:
//
//   a file      what was written since the last sync of the file is there, lost, or there in part:
//               a half of it, the new size with zeros, or what it was between two writes (a file
//               that was truncated and is not yet written again is empty). A sync of a file does
//               not put its name on the disk.
//   a folder    names that were created, removed or renamed since the last sync of the folder are
//               there or not, each by itself and in any order. A rename is one change, even between
//               two folders; a sync of the folder that it goes to makes it durable.
//
// For each moment after a call, with U the calls that are not synced at it, there are the states
// with all of U, with none of U, with all but one of U, with none but one of U (a rename whose data
// are lost is one of these), and with random parts of U.
// Not modeled: a disk that loses what was synced, and one that writes less than it says.
// Threads: any, on one object each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/faults/disk_log.hpp"

namespace tenon {

struct LostPower {
  size_t num_events;  // that came before
  std::string what;   // what is lost: "all but rename a -> b"
  DiskImage image;
  // A file whose name was on the disk, and that has no name now, although nothing removed or
  // replaced it: it was moved to a folder that is lost. "" if there is none.
  std::string lost_file;
};

// Syncs of a kind that do nothing show that a test finds their lack.
enum class Syncs { kWork, kNotOfFolders, kNotOfFiles };

class PowerLoss {
 public:
  explicit PowerLoss(DiskLog& log, Syncs syncs = Syncs::kWork, uint32_t seed = 1);

  // Calls `visit` for each state, once for each set of lines that the program had printed before.
  void visit_states(const std::function<void(const LostPower&)>& visit);

 private:
  struct FileState {
    size_t synced = 0;
    std::vector<size_t> pending;  // the contents since
  };
  // Of each node, its entries.
  using Folders = std::vector<std::map<std::string, size_t>>;
  using Choice = std::map<size_t, size_t>;  // the content of a node; otherwise the synced one

  void apply(const DiskEvent& event);
  void visit_moment(const std::function<void(const LostPower&)>& visit);
  void offer(const std::vector<bool>& stays,
             const Choice& contents,
             const std::function<std::string()>& what,
             const std::function<void(const LostPower&)>& visit);
  std::vector<size_t> partial_contents(const FileState& file);
  std::vector<size_t> dirty_files() const;
  std::string name_of(size_t node) const;
  Folders folders_of(const std::vector<bool>& stays, std::set<size_t>& removed) const;
  DiskImage image_of(const Folders& folders, const Choice& contents) const;
  std::string lost_file(const Folders& folders, const std::set<size_t>& removed) const;

  DiskLog& log_;
  Syncs syncs_;
  std::mt19937 random_;
  size_t num_events_ = 0;
  size_t num_said_ = 0;
  Folders durable_;
  std::vector<const DiskEvent*> pending_;  // changes of entries
  std::vector<FileState> files_;           // by node
  std::vector<std::string> names_;         // by node: its last name
  std::unordered_set<size_t> seen_;
};

}  // namespace tenon
