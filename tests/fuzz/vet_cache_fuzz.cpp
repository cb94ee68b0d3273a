// SPDX-License-Identifier: Apache-2.0
//
// A cache of verdicts that is nearly right is used or ignored, and never stops the host; so is the
// answer of the process that checks plugins. A case is the text of the cache or of an answer.
#include "host/trust/vet_answer.hpp"
#include "host/trust/vet_cache.hpp"

#include <filesystem>
#include <fstream>

#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Files {
  ScratchFolder folder;
  std::string plugin = folder.write("plugin.so", "not loaded").string();
  std::string other = folder.write("other.so", "not loaded either").string();
  std::string cache = (folder.path() / "vetted.json").string();
};

const Files& files() {
  static const Files made;
  return made;
}

const Verdict& bad_verdict() {
  static const Verdict verdict{.id = "plugin.crashed",
                               .message = files().plugin + " crashed; fix it or remove it",
                               .details = "its last words",
                               .signal = "SIGSEGV",
                               .backtrace = {"frame 0", "frame 1"}};
  return verdict;
}

std::string seed_cache() {
  fs::remove(files().cache);
  VetCache cache(files().cache, "host-a");
  cache.store(files().plugin, *file_stamp(files().plugin), bad_verdict());
  cache.store(files().other, *file_stamp(files().other), {});
  cache.save();
  return read_corpus_file(files().cache);
}

std::string make_cache(Mutator& mutator) {
  static const JsonCases caches({seed_cache()});
  static const JsonCases answers({vet_answer_text({}), vet_answer_text(bad_verdict())});
  return mutator.one_in(4) ? answers.make(mutator) : caches.make(mutator);
}

void check_verdict(const Verdict& verdict) {
  // Bytes that are no UTF-8 are replaced where a message becomes an Error.
  if (!verdict.is_good()) {
    (void)Error(verdict.id, verdict.message).what();
  }
}

std::string judge_cache(const std::string& text) {
  if (const std::optional<Verdict> answer = verdict_of_answer(text)) {
    check_verdict(*answer);
  }
  std::ofstream(files().cache, std::ios::binary | std::ios::trunc) << text;
  VetCache cache(files().cache, "host-a");
  const std::optional<Verdict> found = cache.find(files().plugin);
  if (found.has_value()) {
    check_verdict(*found);
  }
  cache.store(files().other, *file_stamp(files().other), {});
  cache.save();
  VetCache again(files().cache, "host-a");
  const std::optional<Verdict> other = again.find(files().other);
  if (!other.has_value() || !other->is_good()) {
    throw FuzzFinding("a verdict that was saved is not found again");
  }
  const std::optional<Verdict> same = again.find(files().plugin);
  if (found.has_value() != same.has_value() || (found.has_value() && found->id != same->id)) {
    throw FuzzFinding("a verdict differs when it is written and read again");
  }
  return found.has_value() ? kFuzzAccepted : "ignored";
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::use_memory_for_scratch();
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "vet_cache_fuzz", .make = tenon::make_cache, .judge = tenon::judge_cache});
}
