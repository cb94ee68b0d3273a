// SPDX-License-Identifier: Apache-2.0
//
// One flipped bit in any file of a run folder. `--verify` reports each in a checkpoint. A run that
// resumes with the flip is refused, or ends as the one without it. TENON_ATTACK_PLANT=flip checks
// the attack: it then treats each resumed run as if it were to equal another one, which must be
// found.
#include <cstdlib>
#include <fstream>

#include "tests/attack/stopped_run.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

// What the tests plant, to prove that a wrong result is found: the parameters of the resumed run
// are not those of the unbroken one.
bool is_planted() {
  const char* const planted = std::getenv("TENON_ATTACK_PLANT");
  return planted != nullptr && std::string(planted) == "flip";
}

// Hides a flip from the program: the run resumes with another weight, as it would if no checksum
// were checked.
void plant(const fs::path& run) {
  const std::vector<std::string> names = checkpoint_names(run);
  const fs::path index = run / "checkpoints" / names.back() / "index.json";
  std::string text = file_text(index);
  const std::size_t at = text.find("\"xxh3\": \"") + 9;
  text[at] = text[at] == '0' ? '1' : '0';
  std::ofstream(index, std::ios::binary | std::ios::trunc) << text;
}

std::string flip_bit(Attack& attack, const fs::path& file) {
  std::string text = file_text(file);
  const std::uint64_t bit = attack.below(8 * text.size());
  text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
  std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  return "bit " + std::to_string(bit);
}

// The file without what differs between runs: "checkpoints/*/index.json".
std::string kind_of(const std::string& file) {
  const fs::path path = file;
  return path.begin()->string() == "checkpoints" && std::distance(path.begin(), path.end()) > 2
             ? "checkpoints/*/" + path.filename().string()
             : file;
}

// Resumes a run with a checkpoint that is not valid: it is refused, or ends as if nothing had
// happened. Returns "", or what is wrong.
std::string resumed_wrongly(const StoppedRun& of, const fs::path& run, const fs::path& folder) {
  const Ended resumed = of.resume(run, folder / "resume.log");
  const std::string bad = bad_ending(resumed.status, resumed.log);
  if (!bad.empty() || resumed.status != 0) {
    return bad;
  }
  return of.difference(run, Metrics::kCompare);
}

void flip_once(Attack& attack, const StoppedRun& of) {
  const fs::path folder = attack.folder() / "flipped";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path run = folder / "run";
  fs::copy(of.stopped(), run, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  const std::string file = attack.pick(of.files());
  const std::string where = of.name() + ": " + flip_bit(attack, run / file) + " of " + file;
  const std::string kind = kind_of(file);
  if (kind != file) {  // of a checkpoint
    const fs::path checkpoint = run / fs::path(file).parent_path();
    const Ended verified = act_on("--verify", checkpoint, folder / "verify.log");
    if (const std::string bad = bad_ending(verified.status, verified.log); !bad.empty()) {
      attack.found(where + ": --verify: " + bad, folder);
    } else if (verified.status == 0) {
      attack.found(where + ": --verify does not find it", folder);
    } else if (const std::string wrong = resumed_wrongly(of, run, folder); !wrong.empty()) {
      attack.found(where + ": " + wrong, folder);
    } else {
      attack.survived(kind + ": found by --verify");
    }
    return;
  }
  const Ended resumed = of.resume(run, folder / "resume.log");
  if (const std::string bad = bad_ending(resumed.status, resumed.log); !bad.empty()) {
    attack.found(where + ": resumed: " + bad, folder);
    return;
  }
  if (resumed.status != 0) {
    attack.survived(kind + ": found by the resumed run");
    return;
  }
  if (is_planted()) {
    plant(run);
  }
  const std::string wrong =
      of.difference(run, is_only_read_by_people(file) ? Metrics::kIgnore : Metrics::kCompare);
  if (!wrong.empty()) {
    attack.found(where + ": not reported, and " + wrong, folder);
  } else {
    attack.survived(kind + ": harmless, the result is equal");
  }
}

}  // namespace

void attack_flips(Attack& attack) {
  const std::vector<StoppedRun> runs = stopped_runs(attack.folder(), attack.count() < 100 ? 1 : 4);
  for (std::uint64_t i = attack.first(); i < attack.first() + attack.count(); ++i) {
    attack.begin_case(i);
    flip_once(attack, runs[i % runs.size()]);
  }
}

}  // namespace tenon
