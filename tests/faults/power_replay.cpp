// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/power_replay.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <limits>
#include <random>
#include <set>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "tests/faults/started_run.hpp"
#include "tests/recipes/host_run.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kCommitted[] = "/COMMITTED";
constexpr size_t kNever = std::numeric_limits<size_t>::max();
constexpr size_t kProcesses = 2;  // resumed at a time

// "run/checkpoints/X" of "saved run/checkpoints/X (58 KiB, 0.1 s)", and of an export; "" of others.
std::string promised_by(const std::string& line) {
  for (const char* const word : {"saved ", "exported "}) {
    if (line.starts_with(word)) {
      const size_t begin = std::string(word).size();
      return line.substr(begin, line.find(" (") - begin);
    }
  }
  return "";
}

// What is in a folder, with paths below it.
DiskImage part_of(const DiskImage& image, const std::string& folder) {
  DiskImage part;
  const std::string prefix = folder + "/";
  for (auto at = image.lower_bound(prefix); at != image.end() && at->first.starts_with(prefix);
       ++at) {
    part[at->first.substr(prefix.size())] = at->second;
  }
  return part;
}

std::string parent_of(const std::string& path) {
  return fs::path(path).parent_path().string();
}

uint64_t step_of(const std::string& checkpoint) {
  const size_t at = checkpoint.find("step-");
  return at == std::string::npos ? 0 : std::strtoull(checkpoint.c_str() + at + 5, nullptr, 10);
}

// Names, and of each file whether it is empty, as at the moment when nothing was lost, or
// otherwise.
size_t shape_of(const DiskImage& image, const DiskImage& live) {
  std::string shape;
  for (const auto& [path, entry] : image) {
    const auto at = live.find(path);
    const bool is_same = at != live.end() && at->second == entry;
    shape += path + (entry.content == 0 ? "|0" : is_same ? "|1" : "|2");
  }
  return std::hash<std::string>()(shape);
}

ScratchFolder fast_scratch() {
  // Tests of durability do not need a disk: the recorder watches calls.
  if (::access("/dev/shm", W_OK | X_OK) == 0) {
    ::setenv("TMPDIR", "/dev/shm", 1);
  }
  return {};
}

fs::path new_folder(const fs::path& path) {
  fs::create_directory(path);
  return path;
}

json json_at(const fs::path& file) {
  return json::parse(file_text(file), nullptr, /*allow_exceptions=*/false);
}

}  // namespace

std::string text_of(const LostPower& state, const DiskLog& log) {
  const std::string moment =
      state.num_events == 0 ? "at the start" : "after " + log.events[state.num_events - 1].call;
  return "call " + std::to_string(state.num_events) + ", " + moment + ", lost: " + state.what;
}

PowerReplay::PowerReplay(PowerScenario scenario)
    : scenario_(std::move(scenario)),
      folder_(fast_scratch()),
      recipe_(folder_.write("recipe.json", scenario_.recipe)),
      recorder_(new_folder(folder_.path() / "disk")) {
  INFO(scenario_.name);
  const fs::path out = folder_.path() / "out";
  if (scenario_.kill_after != nullptr) {
    CHECK(recorder_.run(words(), out, scenario_.kill_after) == 128 + SIGKILL);
  }
  const int status = recorder_.run(words(), out);
  INFO(file_text(out));
  REQUIRE(status == 0);
  final_ = recorder_.image();
  // The recorder has seen all, or the test proves nothing.
  REQUIRE(final_ == read_image(folder_.path() / "disk", recorder_.log().contents));
}

std::vector<std::string> PowerReplay::words() const {
  std::vector<std::string> words = host_words(recipe_);
  words.insert(words.end(), {"--run-dir", "run"});
  words.insert(words.end(), scenario_.arguments.begin(), scenario_.arguments.end());
  return words;
}

std::string PowerReplay::said() const {
  std::string text;
  for (const DiskEvent& event : log().events) {
    text += event.kind == DiskEvent::Kind::kSaid ? event.call + "\n" : "";
  }
  return text;
}

std::vector<std::string> PowerReplay::check_states(Syncs syncs) {
  std::vector<std::string> wrong;
  promises_.clear();
  complete_.clear();
  states_.clear();
  num_states_ = 0;
  DiskImage live;
  std::set<size_t> shapes;
  size_t moment = kNever;
  PowerLoss loss(recorder_.log(), syncs);
  loss.visit_states([&](const LostPower& state) {
    ++num_states_;
    if (state.what == "nothing" || moment == kNever) {
      live = state.image;
      note_promises(state);
    }
    moment = state.num_events;
    if (const std::string problem = wrong_with(state); !problem.empty()) {
      wrong.push_back(text_of(state, log()) + ": " + problem);
    } else if (const size_t shape = shape_of(state.image, live); shapes.insert(shape).second) {
      states_.push_back({state, shape});
    }
  });
  return wrong;
}

// Learns from the state that has lost nothing what the last call has made complete, and what the
// last line promises.
void PowerReplay::note_promises(const LostPower& state) {
  if (state.num_events == 0) {
    return;
  }
  const DiskEvent& event = log().events[state.num_events - 1];
  if (event.kind == DiskEvent::Kind::kSaid) {
    if (const std::string folder = promised_by(event.call); !folder.empty()) {
      promises_.push_back({folder, state.num_events, kNever});
    }
  } else if (event.kind == DiskEvent::Kind::kEntries && event.call.starts_with("rename ")) {
    for (Promise& promise : promises_) {
      if (event.call.starts_with("rename " + promise.folder + kCommitted + " -> ")) {
        promise.until = std::min(promise.until, state.num_events);
      }
    }
    for (const auto& [path, entry] : state.image) {
      if (path.ends_with(kCommitted) &&
          event.call.find(" -> " + parent_of(path)) != event.call.npos) {
        complete_[parent_of(path)].push_back(part_of(state.image, parent_of(path)));
      }
    }
  }
}

bool PowerReplay::is_complete(const DiskImage& image, const std::string& folder) const {
  const auto versions = complete_.find(folder);
  return versions != complete_.end() &&
         std::ranges::count(versions->second, part_of(image, folder)) > 0;
}

bool PowerReplay::is_json(size_t content) {
  const auto [found, is_new] = is_json_.try_emplace(content, false);
  if (is_new) {
    found->second = json::accept(log().contents[content]);
  }
  return found->second;
}

std::vector<const PowerReplay::Promise*> PowerReplay::promises_at(size_t num_events) const {
  std::vector<const Promise*> promises;
  for (const Promise& promise : promises_) {
    if (promise.since <= num_events && num_events < promise.until) {
      promises.push_back(&promise);
    }
  }
  return promises;
}

std::string PowerReplay::wrong_with(const LostPower& state) {
  const DiskImage& image = state.image;
  if (!state.lost_file.empty()) {
    return state.lost_file + " was moved, and is lost";
  }
  for (const Promise* const promise : promises_at(state.num_events)) {
    if (!image.contains(promise->folder + kCommitted)) {
      return promise->folder + " was printed to be saved, and is lost";
    }
  }
  for (const auto& [path, entry] : image) {
    const std::string& text = log().contents[entry.content];
    if (path.ends_with(kCommitted) && !is_complete(image, parent_of(path))) {
      return parent_of(path) + " is committed, and is not complete";
    }
    if (path.ends_with("/latest") &&
        !image.contains(parent_of(path) + "/" + text.substr(0, text.find('\n')) + kCommitted)) {
      return path + " names no checkpoint: '" + text + "'";
    }
    if ((path.ends_with("/recipe.json") || path.ends_with("/summary.json")) &&
        path.find("/.") == path.npos && !is_json(entry.content)) {
      return path + " is not JSON";
    }
  }
  return wrong_rows(state);
}

// Rows that were printed to be in a file are in it.
std::string PowerReplay::wrong_rows(const LostPower& state) const {
  for (size_t i = 0; i < state.num_events; ++i) {
    const DiskEvent& event = log().events[i];
    const size_t at = event.call.find(" are in ");
    if (event.kind != DiskEvent::Kind::kSaid || at == event.call.npos ||
        event.call.find(" rows of table ") == event.call.npos) {
      continue;
    }
    const std::string file = event.call.substr(at + std::string(" are in ").size());
    const auto found = state.image.find(file);
    if (found == state.image.end() || found->second != final_.at(file)) {
      return file + " was printed to be written, and is not complete";
    }
  }
  return "";
}

// A process that resumes from a state.
struct PowerReplay::Resumed {
  const Kept* kept;
  fs::path folder;
  pid_t process;
};

PowerReplay::Resumed PowerReplay::start(const Kept& kept, size_t number) const {
  const fs::path folder = folder_.path() / ("state-" + std::to_string(number));
  write_image(kept.state.image, log().contents, folder);
  std::vector<std::string> words = this->words();
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const std::string out = folder.string() + ".out";
  std::fflush(nullptr);
  const pid_t process = ::fork();
  REQUIRE(process >= 0);
  if (process == 0) {
    ::setsid();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (::dup2(file, STDOUT_FILENO) >= 0 && ::dup2(file, STDERR_FILENO) >= 0 &&
        ::chdir(folder.c_str()) == 0) {
      ::execv(pointers[0], pointers.data());
    }
    ::_exit(127);
  }
  return {&kept, folder, process};
}

std::string PowerReplay::end(Resumed& resumed) const {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  int status = 0;
  while (::waitpid(resumed.process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > limit) {
      ::kill(-resumed.process, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::string wrong = wrong_after(resumed, status);
  if (!wrong.empty()) {
    wrong = text_of(resumed.kept->state, log()) + ": " + wrong + "; the host printed:\n" +
            file_text(resumed.folder.string() + ".out");
  }
  if (wrong.empty() || std::getenv("TENON_POWER_KEEP") == nullptr) {
    fs::remove_all(resumed.folder);
  }
  fs::remove(resumed.folder.string() + ".out");
  return wrong;
}

std::string PowerReplay::wrong_after(const Resumed& resumed, int status) const {
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return "the same command ends with wait status " + std::to_string(status);
  }
  const std::string said = file_text(resumed.folder.string() + ".out");
  uint64_t promised = 0;
  for (const Promise* const promise : promises_at(resumed.kept->state.num_events)) {
    if (promise->folder.starts_with("run/checkpoints/")) {
      promised = std::max(promised, step_of(promise->folder));
    }
  }
  const size_t from = said.find("resumed from ");
  const uint64_t step = from == said.npos ? 0 : step_of(said.substr(from));
  if (step < promised) {
    return "it resumes from step " + std::to_string(step) + ", and step " +
           std::to_string(promised) + " was saved";
  }
  return wrong_files(resumed, said);
}

std::string PowerReplay::wrong_files(const Resumed& resumed, const std::string& said) const {
  const json whole = json::parse(log().contents[final_.at("run/summary.json").content]);
  const json summary = json_at(resumed.folder / "run" / "summary.json");
  for (const char* const key : {"outcome", "parameters_hash", "steps", "samples", "updates"}) {
    if (!summary.is_object() || summary.value(key, json()) != whole.value(key, json())) {
      return std::string(key) + " in summary.json differs from the run that kept its power";
    }
  }
  const auto lines = [](const std::string& text) {
    std::set<std::string> records;
    for (const json& record : metric_records(text)) {
      records.insert(record.dump());
    }
    return records;
  };
  const auto records = lines(file_text(resumed.folder / "run" / "metrics.jsonl"));
  const auto wanted = lines(log().contents[final_.at("run/metrics.jsonl").content]);
  if (!std::ranges::includes(wanted, records)) {
    return "metrics.jsonl has a record that the run that kept its power has not";
  }
  Contents contents = log().contents;
  const DiskImage now = read_image(resumed.folder, contents);
  for (const auto& [path, entry] : now) {
    if (path.ends_with(kCommitted) && final_.contains(path) &&
        part_of(now, parent_of(path)).size() != part_of(final_, parent_of(path)).size()) {
      return parent_of(path) + " has other files than in the run that kept its power";
    }
  }
  // A start over moves files aside, and removes none.
  for (const auto& [path, entry] : resumed.kept->state.image) {
    const std::string name = fs::path(path).filename().string();
    if (said.find("starting over") == said.npos || entry.kind != NodeKind::kFile ||
        path.find("/.") != path.npos || name.ends_with(".tmp") || parent_of(path) != "run") {
      continue;
    }
    const std::string& text = log().contents[entry.content];
    if (name == "attempt") {  // replaced, by a number that no earlier start has had
      if (std::stoull(contents[now.at(path).content]) <= std::stoull(text)) {
        return "the number in " + path + " is used again";
      }
      continue;
    }
    if (std::ranges::none_of(now, [&](const auto& other) {
          return fs::path(other.first).filename() == name &&
                 contents[other.second.content].starts_with(text);
        })) {
      return "what was in " + path + " is lost by starting over";
    }
  }
  return "";
}

std::vector<std::string> PowerReplay::resume_states(size_t most, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<const Kept*> chosen;
  for (const Kept& kept : states_) {
    chosen.push_back(&kept);
  }
  std::ranges::shuffle(chosen, random);
  chosen.resize(std::min(most, chosen.size()));
  std::vector<std::string> wrong;
  for (size_t i = 0; i < chosen.size(); i += kProcesses) {
    std::vector<Resumed> resumed;
    for (size_t k = i; k < std::min(i + kProcesses, chosen.size()); ++k) {
      resumed.push_back(start(*chosen[k], k));
    }
    for (Resumed& one : resumed) {
      ++num_resumed_;
      if (std::string problem = end(one); !problem.empty()) {
        wrong.push_back(std::move(problem));
      }
    }
  }
  return wrong;
}

}  // namespace tenon
