// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_difference.hpp"

#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/checkpoint/named_checkpoint.hpp"
#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr auto kYes = StateTree::Copy::kYes;

// A state with a tensor that ranks share, numbers, bytes, and something that each rank has.
StateTree state_of(uint32_t rank, uint32_t world_size) {
  StateTree tree;
  const at::Tensor weight = at::arange(24, at::kFloat);
  const int64_t share = 24 / world_size;
  tree.put_part("parameters/values/w",
                weight.narrow(0, rank * share, share),
                {TensorPiece({4, 6}).part(rank * share, share), world_size > 1},
                kYes);
  tree.put_int("run/step", 5);
  tree.put_double("run/factor", 0.5);
  tree.put_double("run/seconds", 1.5 + rank, TENON_STATE_PER_RANK);
  tree.put_bytes("text", "abc");
  tree.put_int("own", rank, TENON_STATE_PER_RANK);
  return tree;
}

// Replaces or adds entries of a tree.
StateTree changed(const StateTree& tree, const StateTree& by, const std::string& without = "") {
  StateTree result;
  for (const auto& [name, entry] : tree.entries()) {
    if (by.find(name) == nullptr && name != without) {
      result.put_entry(name, entry);
    }
  }
  for (const auto& [name, entry] : by.entries()) {
    result.put_entry(name, entry);
  }
  return result;
}

class Checkpoints {
 public:
  explicit Checkpoints(std::string root = "")
      : root_(root.empty() ? folder_.path().string() : (folder_.path() / root).string()),
        storage_(std::make_shared<LocalStorage>(root_)) {}

  // As so many ranks write it, each with `by` in place of what it has.
  CheckpointReader save(const std::string& name,
                        uint32_t world_size,
                        const StateTree& by = {},
                        const std::string& without = "") {
    std::vector<StateTree> trees;
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      trees.push_back(changed(state_of(rank, world_size), by, without));
    }
    return save_trees(name, trees);
  }

  CheckpointReader save_trees(const std::string& name, const std::vector<StateTree>& trees) {
    const auto world_size = static_cast<uint32_t>(trees.size());
    storage_->open(name, true);
    std::vector<RankShare> shares;
    for (uint32_t rank = 0; rank < world_size; ++rank) {
      const RankRole role(Mesh({}, world_size, rank));
      shares.push_back(write_share(trees[rank], role, *storage_, name, false));
    }
    for (const auto& [file, content] : index_files(merged({}, std::move(shares)), "{}\n")) {
      write_file(file, content, *storage_, name);
    }
    storage_->commit(name);
    return {storage_, name};
  }

  std::filesystem::path folder() const { return folder_.path(); }

 private:
  ScratchFolder folder_;
  std::string root_;
  std::shared_ptr<CheckpointStore> storage_;
};

// "name: what" of each difference, with "; ".
std::string told(const CheckpointReader& a, const CheckpointReader& b) {
  std::string text;
  for (const EntryDifference& entry : compare_checkpoints(a, b).entries) {
    text += (text.empty() ? "" : "; ") + entry.name + ": " + entry.what;
  }
  return text;
}

// How a state with these entries differs from the one without.
std::string told_of(const StateTree& by, const std::string& without = "") {
  Checkpoints checkpoints;
  const CheckpointReader a = checkpoints.save("a", 1);
  const CheckpointReader b = checkpoints.save("b", 1, by, without);
  return told(a, b);
}

std::string address_of(const std::string& path) {
  const NamedCheckpoint named = find_checkpoint(path);
  return named.storage->address(named.checkpoint);
}

}  // namespace

TEST_CASE("checkpoints of one state are equal, but for the time that it took", "[checkpoint]") {
  StateTree later;
  later.put_double("run/seconds", 9, TENON_STATE_PER_RANK);
  CHECK(told_of(later).empty());
  Checkpoints checkpoints;
  const CheckpointReader a = checkpoints.save("a", 1);
  CHECK(compare_checkpoints(a, checkpoints.save("b", 1)).num_equal == 5);
}

TEST_CASE("a state is the same however many ranks have written it", "[checkpoint]") {
  Checkpoints checkpoints;
  const CheckpointReader one = checkpoints.save("one", 1);
  const CheckpointReader two = checkpoints.save("two", 2);
  const CheckpointReader three = checkpoints.save("three", 3);
  CHECK(told(one, two).empty());
  CHECK(told(two, three).empty());
  CHECK(compare_checkpoints(two, three).num_equal == 4);  // what all ranks have
}

TEST_CASE("elements that differ are counted, and how far they are apart", "[checkpoint]") {
  const auto with = [](const std::function<void(at::Tensor&)>& change) {
    at::Tensor weight = at::arange(24, at::kFloat);
    change(weight);
    StateTree tree;
    tree.put_part("parameters/values/w", weight, {TensorPiece({4, 6}), false}, kYes);
    return told_of(tree);
  };
  CHECK(with([](at::Tensor&) {}).empty());
  CHECK(with([](at::Tensor& w) { w.narrow(0, 3, 2) += 0.25; }) ==
        "parameters/values/w: 2 of 24 elements differ, by at most 0.25");
  CHECK(with([](at::Tensor& w) { w.narrow(0, 0, 1).fill_(-0.0); }) ==
        "parameters/values/w: equal values, different bits");
  CHECK(with([](at::Tensor& w) {
          w.narrow(0, 7, 1).fill_(std::numeric_limits<double>::quiet_NaN());
          w.narrow(0, 8, 1) += 2;
        }) == "parameters/values/w: 2 of 24 elements differ, by at most 2, ignoring NaN");
}

TEST_CASE("entries of another type, shape or value, and those of one alone, are told",
          "[checkpoint]") {
  StateTree step;
  step.put_int("run/step", 6);
  CHECK(told_of(step) == "run/step: 5 and 6");
  StateTree factor;
  factor.put_double("run/factor", 0.1);
  CHECK(told_of(factor) == "run/factor: 0.5 and 0.10000000000000001");
  StateTree text;
  text.put_bytes("text", "abd");
  CHECK(told_of(text) == "text: the bytes differ (3 bytes)");
  StateTree longer;
  longer.put_bytes("text", "abcd");
  CHECK(told_of(longer) == "text: U8 [3] and U8 [4]");
  StateTree shape;
  shape.put_tensor("parameters/values/w", at::zeros({2, 2}, at::kDouble), kYes);
  CHECK(told_of(shape) == "parameters/values/w: F32 [4, 6] and F64 [2, 2]");
  StateTree number;
  number.put_int("text", 3);
  CHECK(told_of(number) == "text: a tensor and a number");
  StateTree more;
  more.put_int("run/more", 1);
  CHECK(told_of(more) == "run/more: only in the second");
  CHECK(told_of({}, "run/step") == "run/step: only in the first");
}

TEST_CASE("what each rank has is compared rank by rank", "[checkpoint]") {
  Checkpoints checkpoints;
  const CheckpointReader a = checkpoints.save("a", 2);
  StateTree own;
  own.put_int("own", 7, TENON_STATE_PER_RANK);
  const CheckpointReader b =
      checkpoints.save_trees("b", {state_of(0, 2), changed(state_of(1, 2), own)});
  CHECK(told(a, b) == "rank 1: own: 1 and 7");
}

TEST_CASE("a checkpoint is named by its folder, or that of its run", "[checkpoint]") {
  Checkpoints checkpoints("run/checkpoints");
  (void)checkpoints.save("one", 1);
  (void)checkpoints.save("two", 1);
  const std::string run = (checkpoints.folder() / "run").string();
  const std::string newest = run + "/checkpoints/two";
  CHECK(address_of(run) == newest);
  CHECK(address_of(run + "/") == newest);
  CHECK(address_of(run + "/checkpoints") == newest);
  CHECK(address_of(run + "/checkpoints/one") == run + "/checkpoints/one");
  CHECK(address_of(run + "/checkpoints/one/") == run + "/checkpoints/one");
  const auto refusal = [](const std::string& path) {
    try {
      (void)find_checkpoint(path);
    } catch (const Error& error) {
      CHECK(error.id() == "storage.not_found");
      return error.message();
    }
    return std::string("none");
  };
  CHECK_THAT(refusal(run + "/checkpoints/three"),
             contains_text("three does not exist; pass a run"));
  CHECK_THAT(refusal(checkpoints.folder().string()), contains_text("no finished checkpoint at"));
  std::filesystem::remove(run + "/checkpoints/one/COMMITTED");
  CHECK_THAT(refusal(run + "/checkpoints/one"), contains_text("no finished checkpoint at"));
}

}  // namespace tenon
