// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/power_loss.hpp"

#include <algorithm>
#include <numeric>

namespace tenon {
namespace {

constexpr int kRandomParts = 3;  // at each moment

bool is_rename(const DiskEvent& event) {
  return event.entries.size() == 2;
}

template <class Folders>
void set_entries(const DiskEvent& event, Folders& folders) {
  for (const DiskEvent::Entry& entry : event.entries) {
    if (entry.node == kNoNode) {
      folders[entry.folder].erase(entry.name);
    } else {
      folders[entry.folder][entry.name] = entry.node;
    }
  }
}

template <class Folders>
void remove_name(const DiskEvent::Entry& name, size_t node, Folders& folders) {
  auto& folder = folders[name.folder];
  if (const auto at = folder.find(name.name); at != folder.end() && at->second == node) {
    folder.erase(at);
  }
}

size_t hash_of(const DiskImage& image, size_t seed) {
  const std::hash<std::string> hash_text;
  const auto mix = [&seed](size_t value) {
    seed ^= value + 0x9e3779b97f4a7c15 + (seed << 6) + (seed >> 2);
  };
  for (const auto& [path, entry] : image) {
    mix(hash_text(path));
    mix(entry.content * 3 + static_cast<size_t>(entry.kind));
  }
  return seed;
}

}  // namespace

PowerLoss::PowerLoss(DiskLog& log, Syncs syncs, uint32_t seed)
    : log_(log),
      syncs_(syncs),
      random_(seed),
      durable_(log.nodes.size()),
      files_(log.nodes.size()),
      names_(log.nodes.size()) {}

void PowerLoss::visit_states(const std::function<void(const LostPower&)>& visit) {
  visit_moment(visit);
  for (const DiskEvent& event : log_.events) {
    apply(event);
    ++num_events_;
    visit_moment(visit);
  }
}

void PowerLoss::apply(const DiskEvent& event) {
  const auto sync_entries = [this](size_t folder) {
    std::erase_if(pending_, [&](const DiskEvent* change) {
      if (folder != kNoNode && change->entries.back().folder != folder) {
        return false;
      }
      set_entries(*change, durable_);
      return true;
    });
  };
  const auto sync_content = [](FileState& file) {
    if (!file.pending.empty()) {
      file.synced = file.pending.back();
      file.pending.clear();
    }
  };
  switch (event.kind) {
    case DiskEvent::Kind::kEntries:
      pending_.push_back(&event);
      for (const DiskEvent::Entry& entry : event.entries) {
        if (entry.node != kNoNode) {
          names_[entry.node] = entry.name;
        }
      }
      break;
    case DiskEvent::Kind::kContent:
      if (log_.nodes[event.node] == NodeKind::kLink) {  // made with its content at once
        files_[event.node].synced = event.content;
      } else {
        files_[event.node].pending.push_back(event.content);
      }
      break;
    case DiskEvent::Kind::kSyncFile:
      if (syncs_ != Syncs::kNotOfFiles) {
        sync_content(files_[event.node]);
      }
      break;
    case DiskEvent::Kind::kSyncFolder:
      if (syncs_ != Syncs::kNotOfFolders) {
        sync_entries(event.node);
      }
      break;
    case DiskEvent::Kind::kSyncAll:
      std::ranges::for_each(files_, sync_content);
      sync_entries(kNoNode);
      break;
    case DiskEvent::Kind::kSaid:
      ++num_said_;
      break;
  }
}

std::string PowerLoss::name_of(size_t node) const {
  return "the content of " + names_[node];
}

std::vector<size_t> PowerLoss::dirty_files() const {
  std::vector<size_t> nodes;
  for (size_t node = 0; node < files_.size(); ++node) {
    if (!files_[node].pending.empty()) {
      nodes.push_back(node);
    }
  }
  return nodes;
}

// What a file may have other than its content before and after: half of what was added or changed,
// zeros in its place, and the shortest that it was between.
std::vector<size_t> PowerLoss::partial_contents(const FileState& file) {
  const std::string& before = log_.contents[file.synced];
  const std::string& after = log_.contents[file.pending.back()];
  const auto first = std::ranges::mismatch(before, after);
  const auto same = static_cast<size_t>(first.in2 - after.begin());
  std::string zeros = after;
  std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(same), zeros.end(), '\0');
  const size_t half = same + (after.size() - same) / 2;
  std::string torn = after.substr(0, half);
  if (before.size() > half) {
    torn += before.substr(half);
  }
  const size_t shortest = *std::ranges::min_element(
      file.pending, {}, [this](size_t content) { return log_.contents[content].size(); });
  std::vector<size_t> contents = {log_.contents.add(torn), log_.contents.add(zeros), shortest};
  std::ranges::sort(contents);
  contents.erase(std::ranges::unique(contents).begin(), contents.end());
  return contents;
}

void PowerLoss::visit_moment(const std::function<void(const LostPower&)>& visit) {
  const size_t num = pending_.size();
  const std::vector<size_t> dirty = dirty_files();
  const std::vector<bool> all(num, true);
  const std::vector<bool> none(num, false);
  Choice after;
  for (const size_t node : dirty) {
    after[node] = files_[node].pending.back();
  }
  offer(
      all, after, [] { return std::string("nothing"); }, visit);
  offer(
      none, {}, [] { return std::string("all that is not synced"); }, visit);
  offer(
      all, {}, [] { return std::string("all content that is not synced"); }, visit);
  for (size_t i = 0; i < num; ++i) {
    const auto call = [this, i] { return pending_[i]->call; };
    std::vector<bool> stays = all;
    stays[i] = false;
    offer(stays, after, call, visit);
    stays = none;
    stays[i] = true;
    offer(
        stays, {}, [&] { return "all but " + call(); }, visit);
  }
  for (const size_t node : dirty) {
    const auto name = [this, node] { return name_of(node); };
    Choice contents = after;
    contents.erase(node);
    offer(all, contents, name, visit);
    offer(
        none, {{node, after[node]}}, [&] { return "all but " + name(); }, visit);
    for (const size_t part : partial_contents(files_[node])) {
      contents[node] = part;
      offer(
          all, contents, [&] { return "a part of " + name(); }, visit);
    }
  }
  for (int i = 0; i < kRandomParts && num + dirty.size() > 1; ++i) {
    std::vector<bool> stays(num);
    std::generate(stays.begin(), stays.end(), [this] { return random_() % 2 == 0; });
    Choice contents = after;
    std::erase_if(contents, [this](const auto&) { return random_() % 2 == 0; });
    offer(
        stays, contents, [] { return std::string("a random part"); }, visit);
  }
}

void PowerLoss::offer(const std::vector<bool>& stays,
                      const Choice& contents,
                      const std::function<std::string()>& what,
                      const std::function<void(const LostPower&)>& visit) {
  std::set<size_t> removed;
  const Folders folders = folders_of(stays, removed);
  DiskImage image = image_of(folders, contents);
  if (seen_.insert(hash_of(image, num_said_)).second) {
    visit({num_events_, what(), std::move(image), lost_file(folders, removed)});
  }
}

// `removed` receives the nodes whose name was removed or replaced.
PowerLoss::Folders PowerLoss::folders_of(const std::vector<bool>& stays,
                                         std::set<size_t>& removed) const {
  Folders folders = durable_;
  for (size_t i = 0; i < pending_.size(); ++i) {
    if (!stays[i]) {
      continue;
    }
    const DiskEvent& event = *pending_[i];
    // What is renamed twice has one name, also if the first rename is lost.
    for (size_t earlier = 0; earlier < i && is_rename(event); ++earlier) {
      if (!stays[earlier] && is_rename(*pending_[earlier]) &&
          pending_[earlier]->entries[1].node == event.entries[1].node) {
        remove_name(pending_[earlier]->entries[0], event.entries[1].node, folders);
      }
    }
    const DiskEvent::Entry& last = event.entries.back();
    if (const auto at = folders[last.folder].find(last.name); at != folders[last.folder].end()) {
      removed.insert(at->second);
    }
    set_entries(event, folders);
  }
  return folders;
}

DiskImage PowerLoss::image_of(const Folders& folders, const Choice& contents) const {
  DiskImage image;
  std::vector<std::pair<size_t, std::string>> open = {{kRootNode, ""}};
  while (!open.empty()) {
    const auto [folder, path] = open.back();
    open.pop_back();
    for (const auto& [name, node] : folders[folder]) {
      const NodeKind kind = log_.nodes[node];
      if (kind == NodeKind::kFolder) {
        open.emplace_back(node, path + name + "/");
        image[path + name] = {kind};
      } else {
        const auto chosen = contents.find(node);
        image[path + name] = {kind,
                              chosen != contents.end() ? chosen->second : files_[node].synced};
      }
    }
  }
  return image;
}

std::string PowerLoss::lost_file(const Folders& folders, const std::set<size_t>& removed) const {
  std::set<size_t> reached;
  std::vector<size_t> open = {kRootNode};
  while (!open.empty()) {
    const size_t folder = open.back();
    open.pop_back();
    for (const auto& [name, node] : folders[folder]) {
      reached.insert(node);
      open.push_back(node);
    }
  }
  open = {kRootNode};
  while (!open.empty()) {
    const size_t folder = open.back();
    open.pop_back();
    for (const auto& [name, node] : durable_[folder]) {
      if (removed.contains(node)) {  // with all that is in it
        continue;
      }
      if (log_.nodes[node] == NodeKind::kFile && !reached.contains(node)) {
        return name;
      }
      open.push_back(node);
    }
  }
  return "";
}

}  // namespace tenon
