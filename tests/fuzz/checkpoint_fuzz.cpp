// SPDX-License-Identifier: Apache-2.0
//
// A change of any file of a checkpoint is found, and a crafted index with right sums is read or
// refused. A case is a line that names a file of the newest of two checkpoints, and its content:
// "index.json" has the sums that the checkpoint was saved with, "+index.json" its own.
#include "host/checkpoint/checkpoint_files.hpp"
#include "host/checkpoint/checkpoint_order.hpp"
#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <algorithm>
#include <memory>
#include <variant>

#include "tests/fuzz/checkpoint_corpus.hpp"
#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"

namespace tenon {
namespace {

constexpr char kCommitted[] = "COMMITTED";
constexpr char kLatest[] = "latest";
constexpr char kCrafted[] = "+index.json";

const MemoryStorage& seed_storage() {
  static const MemoryStorage storage = [] {
    MemoryStorage made;
    made.checkpoints = {corpus_checkpoint(7, 17, 2), corpus_checkpoint(9, 18, 2)};
    made.latest_text = made.checkpoints.back().name + "\n";
    return made;
  }();
  return storage;
}

std::string seed_of(const std::string& file) {
  const MemoryCheckpoint& newest = seed_storage().checkpoints.back();
  return file == kCommitted ? newest.committed
         : file == kLatest  ? seed_storage().latest_text
         : file == kCrafted ? newest.files.at(kIndexFile)
                            : newest.files.at(file);
}

std::string make_change(Mutator& mutator) {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> names = {kCommitted, kLatest, kCrafted, kCrafted, kCrafted};
    for (const auto& [name, content] : seed_storage().checkpoints.back().files) {
      names.push_back(name);
    }
    return names;
  }();
  static const JsonCases indexes({seed_of(kIndexFile)});
  static const std::vector<std::string> others = {seed_storage().checkpoints.front().committed,
                                                  seed_storage().checkpoints.front().name + "\n"};
  const std::string& file = mutator.pick(files);
  if (mutator.one_in(20)) {
    return file + "\n" + seed_of(file);
  }
  return file + "\n" +
         (file == kCrafted ? indexes.make(mutator)
                           : mutator.mutated(seed_of(file), {"0", "a", "step-7"}, others));
}

// Opens it, verifies it, and reads all of its state, on as many ranks as it has and on fewer.
void read_checkpoint(const std::shared_ptr<MemoryStorage>& storage, const std::string& name) {
  const CheckpointReader reader(storage, name);
  reader.verify();
  for (const uint32_t world_size : {1U, 2U}) {
    std::vector<std::string> dropped;
    const StateTree tree = reader.state(0, world_size, &dropped);
    for (const auto& [entry_name, entry] : tree.entries()) {
      if (std::holds_alternative<std::shared_ptr<const TensorSource>>(entry.value)) {
        (void)tree.get_tensor(entry_name);
      }
    }
  }
}

std::string judge_change(const std::string& input) {
  const std::size_t end = std::min(input.find('\n'), input.size());
  const std::string file = input.substr(0, end);
  const std::string content = end < input.size() ? input.substr(end + 1) : "";
  const auto storage = std::make_shared<MemoryStorage>(seed_storage());
  MemoryCheckpoint& newest = storage->checkpoints.back();
  const std::string name = newest.name;
  if (file == kCommitted) {
    newest.committed = content;
  } else if (file == kLatest) {
    storage->latest_text = content;
  } else if (file == kCrafted) {
    newest.files[kIndexFile] = content;
    set_sums(newest);
  } else {
    newest.files[file] = content;
  }
  std::string first;
  const std::string order = outcome_of([&] {
    const CheckpointOrder found = checkpoint_order(storage);
    for (const std::string& warning : found.warnings) {
      check_fuzz_message("a warning", warning);
    }
    if (found.checkpoints.size() != 2) {
      throw FuzzFinding("a checkpoint is not listed");
    }
    first = found.checkpoints.back();
  });
  if (order != kFuzzAccepted) {
    return order;
  }
  if (file == kLatest && first != name) {
    throw FuzzFinding("a wrong `latest` hides the newest checkpoint");
  }
  const bool is_same = file != kCrafted && content == seed_of(file);
  const std::string outcome = outcome_of([&] { read_checkpoint(storage, name); });
  if (is_same && outcome != kFuzzAccepted) {
    throw FuzzFinding("a valid checkpoint is refused: " + outcome);
  }
  const bool is_summed = file != kCrafted && file != kLatest && file != kCommitted;
  if (is_summed && !is_same && outcome == kFuzzAccepted) {
    throw FuzzFinding("a change of " + file + " is not found");
  }
  return outcome;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc,
      argv,
      {.name = "checkpoint_fuzz", .make = tenon::make_change, .judge = tenon::judge_change});
}
