// SPDX-License-Identifier: Apache-2.0
//
// Files of a run folder that are truncated, extended, removed, exchanged, or replaced by folders,
// FIFOs, devices and links, and files and folders that do not belong there. No command crashes or
// hangs, and a run that resumes ends as if nothing had happened.
#include <algorithm>
#include <fstream>
#include <sys/stat.h>

#include "tests/attack/stopped_run.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = std::uintmax_t{1}
                                      << 30;  // more is sparse, of an earlier damage

void write_bytes(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

// Puts something that is no file in place of a file. Returns what.
std::string replace_file_by(Attack& attack, const fs::path& file) {
  fs::remove(file);
  switch (attack.below(5)) {
    case 0:
      fs::create_directory(file);
      return "a folder";
    case 1:
      ::mkfifo(file.c_str(), 0600);
      return "a FIFO";
    case 2:
      fs::create_symlink("/dev/zero", file);
      return "a link to /dev/zero";
    case 3:
      fs::create_symlink("nowhere", file);
      return "a dangling link";
    default:
      return "nothing";
  }
}

// Adds what does not belong into a run folder. Returns what.
std::string add_foreign(Attack& attack, const fs::path& run) {
  static const std::vector<std::string> names = {"notes.md",
                                                 "checkpoints/notes",
                                                 "checkpoints/.open-step-1",
                                                 "checkpoints/step-99999999",
                                                 "checkpoints/step (copy)",
                                                 "checkpoints/\xff\xfe",
                                                 "checkpoints/\x1b[31m",
                                                 "checkpoints/.gone-x",
                                                 "attempt-1",
                                                 "errors"};
  const std::string name = attack.pick(names);
  const std::vector<std::string> saved = checkpoint_names(run);
  std::error_code ignored;
  if (attack.below(2) == 0 && !saved.empty()) {
    fs::copy(
        run / "checkpoints" / attack.pick(saved), run / name, fs::copy_options::recursive, ignored);
    return "a copy of a checkpoint as " + name;
  }
  write_bytes(run / name, "foreign");
  return "a file " + name;
}

// Damages a run folder once. Returns how.
std::string damage(Attack& attack, const StoppedRun& of, const fs::path& run) {
  // Of an earlier damage, a file may be none any more.
  std::vector<std::string> files = of.files();
  std::erase_if(files, [&](const std::string& one) {
    return !fs::is_regular_file(fs::symlink_status(run / one));
  });
  const std::string name = attack.pick(files);
  const fs::path file = run / name;
  const std::string text = fs::file_size(file) < kMostBytes ? file_text(file) : "";
  switch (attack.below(8)) {
    case 0:
      fs::resize_file(file, attack.below(text.size() + 1));
      return name + " truncated";
    case 1:
      write_bytes(file, "");
      return name + " emptied";
    case 2:
      write_bytes(file, text + std::string(1 + attack.below(5000), '\0'));
      return name + " extended by zeros";
    case 3:
      write_bytes(file, std::string(text.size(), '\0'));
      return name + " zeroed";
    case 4: {
      const std::string other = attack.pick(files);
      write_bytes(file, file_text(run / other));
      write_bytes(run / other, text);
      return name + " and " + other + " exchanged";
    }
    case 5:
      return name + " replaced by " + replace_file_by(attack, file);
    case 6: {  // the same file of an earlier checkpoint
      const auto same_name = [&](const std::string& one) {
        return fs::path(one).filename() == fs::path(name).filename() && one != name;
      };
      const auto other = std::ranges::find_if(files, same_name);
      if (other == files.end()) {
        fs::resize_file(file, std::uintmax_t{1} << 40);  // sparse
        return name + " extended to a TiB";
      }
      write_bytes(file, file_text(run / *other));
      return name + " replaced by " + *other;
    }
    default:
      return add_foreign(attack, run);
  }
}

void damage_once(Attack& attack, const StoppedRun& of) {
  const fs::path folder = attack.folder() / "damaged";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path run = folder / "run";
  fs::copy(of.stopped(), run, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  std::string how = of.name();
  for (std::uint64_t n = 1 + attack.below(2); n > 0; --n) {
    how += ": " + damage(attack, of, run);
  }
  for (const char* const action : {"--verify", "--inspect"}) {
    const Ended ended = act_on(action, run, folder / "look.log");
    if (const std::string bad = bad_ending(ended.status, ended.log); !bad.empty()) {
      attack.found(how + ": " + action + ": " + bad, folder);
      return;
    }
  }
  const Ended resumed = of.resume(run, folder / "resume.log");
  if (const std::string bad = bad_ending(resumed.status, resumed.log); !bad.empty()) {
    attack.found(how + ": resumed: " + bad, folder);
    return;
  }
  if (resumed.status != 0) {
    attack.survived("refused: " + error_id_of(resumed.log));
    return;
  }
  const bool is_of_metrics =
      how.find("metrics.jsonl") != std::string::npos || how.find("log") != std::string::npos;
  const std::string wrong =
      of.difference(run, is_of_metrics ? Metrics::kIgnore : Metrics::kCompare);
  if (!wrong.empty()) {
    attack.found(how + ": resumed, and " + wrong, folder);
  } else {
    attack.survived("resumed: equal");
  }
}

}  // namespace

void attack_damage(Attack& attack) {
  const std::vector<StoppedRun> runs = stopped_runs(attack.folder(), attack.count() < 100 ? 1 : 4);
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    damage_once(attack, runs[i % runs.size()]);
  }
}

}  // namespace tenon
