// SPDX-License-Identifier: Apache-2.0
//
// Ranks that hold boxes of a parameter, and flat ranges of them, save a checkpoint together. Ranks
// that split it in any other way load it.
#include <tenon/model.h>

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/distributed/ranks/rank_role.hpp"
#include "host/error/error.hpp"
#include "host/tensor/flat_group.hpp"
#include "host/tensor/initializer.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

const std::vector<int64_t>& split_shape() {
  static const std::vector<int64_t> kShape = {6, 10, 9};
  return kShape;
}

// How ranks split the parameter: a grid of boxes, and each box in flat slices.
struct Split {
  std::vector<int64_t> grid;
  int64_t num_slices = 1;
  // Sizes of the parts of a fused matrix along a dimension: each box has a range of each part.
  size_t axis = 0;
  std::vector<int64_t> parts = {};

  int64_t num_boxes() const { return grid[0] * grid[1] * grid[2]; }
  uint32_t num_ranks() const { return static_cast<uint32_t>(num_boxes() * num_slices); }

  // The ranks of one box are neighbors. The last boxes along a dimension may be smaller or empty.
  Box box(uint32_t rank) const {
    int64_t rest = rank / num_slices;
    Box box{{0, 0, 0}, {0, 0, 0}};
    for (size_t d = 3; d-- > 0;) {
      const int64_t index = rest % grid[d];
      const int64_t size = (split_shape()[d] + grid[d] - 1) / grid[d];
      box.start[d] = index * size;
      box.size[d] = std::min(size, split_shape()[d] - box.start[d]);
      if (d == axis && !parts.empty()) {
        cut_parts(index, box);
      }
      rest /= grid[d];
    }
    return box;
  }

  void cut_parts(int64_t index, Box& box) const {
    std::vector<IndexRange> ranges;
    int64_t begin = 0;
    for (const int64_t size : parts) {
      ranges.push_back({begin + index * size / grid[axis], size / grid[axis]});
      begin += size;
    }
    const Box fused = box_of_ranges(split_shape(), axis, ranges);
    box.start[axis] = fused.start[axis];
    box.size[axis] = fused.size[axis];
    box.axis = fused.axis;
    box.ranges = fused.ranges;
  }

  FlatGroup group(uint32_t rank) const {
    return FlatGroup("block",
                     at::kFloat,
                     at::kCPU,
                     {{.id = 0, .shape = {7}, .name = "b"},
                      {.id = 1, .shape = split_shape(), .name = "w", .box = box(rank)}},
                     std::nullopt,
                     {.num_slices = num_slices, .slice = rank % num_slices});
  }
};

const std::vector<Split>& splits() {
  static const std::vector<Split> kSplits = {{{1, 1, 1}, 1},
                                             {{1, 1, 1}, 3},
                                             {{3, 1, 1}, 1},
                                             {{1, 2, 1}, 1},
                                             {{1, 1, 4}, 2},
                                             {{2, 3, 1}, 2},
                                             {{6, 1, 2}, 1},
                                             {{2, 1, 1}, 1, 0, {2, 4}},
                                             {{1, 2, 1}, 3, 1, {4, 2, 4}},
                                             {{2, 1, 3}, 2, 2, {3, 6}},
                                             {{3, 2, 1}, 1, 1, {6, 4}}};
  return kSplits;
}

void draw(FlatGroup& group) {
  for (size_t e = 0; e < group.entries().size(); ++e) {
    const FlatPart& part = group.part(e);
    fill_init(TENON_INIT_NORMAL,
              0,
              1,
              42,
              group.entries()[e].parameter.name,
              part.piece,
              group.data().narrow(0, part.in_slice, part.length()));
  }
}

at::Tensor whole_value() {
  at::Tensor whole = at::empty(split_shape());
  fill_init(TENON_INIT_NORMAL, 0, 1, 42, "w", TensorPiece(split_shape()), whole);
  return whole;
}

class SavedSplit {
 public:
  explicit SavedSplit(const Split& split) {
    storage_->open("a", true);
    std::vector<RankShare> shares;
    for (uint32_t rank = 0; rank < split.num_ranks(); ++rank) {
      FlatGroup group = split.group(rank);
      draw(group);
      StateTree tree;
      const FlatPart& part = group.part(1);
      if (part.length() > 0) {
        tree.put_part(
            "w", group.data_view(1), {part.piece, /*is_sliced=*/true}, StateTree::Copy::kNo);
      }
      const RankRole role(Mesh({}, split.num_ranks(), rank));
      shares.push_back(share_of(share_text(write_share(tree, role, *storage_, "a", false))));
    }
    CheckpointMetadata metadata;
    metadata.checkpoint = "a";
    for (const auto& [name, content] : index_files(merged(metadata, shares), "{}\n")) {
      write_file(name, content, *storage_, "a");
    }
    storage_->commit("a");
  }
  CheckpointReader reader() const { return {storage_, "a"}; }
  std::filesystem::path path(const std::string& file) const { return folder_.path() / "a" / file; }

 private:
  ScratchFolder folder_;
  std::shared_ptr<CheckpointStore> storage_ =
      std::make_shared<LocalStorage>(folder_.path().string());
};

}  // namespace

TEST_CASE("a checkpoint of any split is loaded by any other, to the bit", "[checkpoint]") {
  const at::Tensor whole = whole_value();
  for (const Split& from : splits()) {
    const SavedSplit saved(from);
    CHECK_NOTHROW(saved.reader().verify());
    CHECK(saved.reader().state(0, 1, nullptr).get_tensor("w").equal(whole));
    for (const Split& to : splits()) {
      for (uint32_t rank = 0; rank < to.num_ranks(); ++rank) {
        INFO("from " << from.num_ranks() << " ranks to " << rank << " of " << to.num_ranks());
        const CheckpointReader reader = saved.reader();
        const StateTree state = reader.state(rank, to.num_ranks(), nullptr);
        FlatGroup group = to.group(rank);
        const FlatPart& part = group.part(1);
        state.copy_tensor("w", group.data_view(1), part.piece);
        CHECK(group.data_view(1).flatten().equal(values_of(part.piece, whole)));
        FlatGroup wanted = to.group(rank);
        draw(wanted);
        CHECK(group.data_view(1).equal(wanted.data_view(1)));
      }
    }
  }
}

TEST_CASE("any flat range of a tensor that is stored in boxes is read", "[checkpoint]") {
  const at::Tensor flat = whole_value().flatten();
  const SavedSplit saved({{2, 3, 2}, 2});
  const CheckpointReader reader = saved.reader();
  const StateTree state = reader.state(0, 1, nullptr);
  bool is_equal = true;
  for (int64_t first = 0; first < flat.numel(); first += 7) {
    for (int64_t numel = 1; first + numel <= flat.numel(); numel += 53) {
      const at::Tensor to = at::empty({numel});
      state.copy_tensor("w", to, TensorPiece(split_shape()).part(first, numel));
      is_equal = is_equal && to.equal(flat.narrow(0, first, numel));
    }
  }
  CHECK(is_equal);
}

TEST_CASE("ranges that are far apart, and many bytes, are read in several reads", "[checkpoint]") {
  const std::vector<int64_t> large = {8, 600'000};
  const at::Tensor whole = at::arange(8 * 600'000, at::kFloat).view(large);
  ScratchFolder folder;
  const auto storage = std::make_shared<LocalStorage>(folder.path().string());
  storage->open("a", true);
  StateTree tree;
  tree.put_tensor("w", whole, StateTree::Copy::kNo);
  const RankShare share = write_share(tree, RankRole(), *storage, "a", false);
  for (const auto& [name, content] : index_files(merged({}, {share}), "{}\n")) {
    write_file(name, content, *storage, "a");
  }
  storage->commit("a");
  for (const Box& box : {Box{.start = {0, 100}, .size = {8, 100}},
                         Box{.start = {0, 0}, .size = {8, 400'000}},
                         Box{.start = {1, 5}, .size = {7, 599'990}}}) {
    const TensorPiece piece(large, box);
    INFO(piece.text());
    const CheckpointReader reader(storage, "a");
    const at::Tensor to = at::empty(box.size);
    reader.state(0, 1, nullptr).copy_tensor("w", to, piece);
    CHECK(to.flatten().equal(values_of(piece, whole)));
  }
}

TEST_CASE("an index has boxes, ranges of boxes, and a version of its own, only if it needs them",
          "[checkpoint]") {
  for (const Split& split : splits()) {
    const SavedSplit saved(split);
    const CheckpointReader reader = saved.reader();
    const bool has_ranges = !split.parts.empty();
    const bool has_boxes = split.grid[1] > 1 || split.grid[2] > 1 || has_ranges;
    INFO(split.num_ranks() << " ranks");
    for (const StoredPiece& piece : reader.index().shared.tensors.at("w").pieces) {
      CHECK(piece.box.has_value() == has_boxes);
      CHECK((has_boxes && !piece.box->ranges.empty()) == has_ranges);
    }
    std::ifstream file(saved.path("index.json"));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    CHECK_THAT(text,
               contains_text(has_ranges  ? "\"version\": 3"
                             : has_boxes ? "\"version\": 2"
                                         : "\"version\": 1"));
    CHECK(index_text(reader.index()) == text);
  }
}

TEST_CASE("a flipped bit in a box is reported by each rank that reads it", "[checkpoint]") {
  const SavedSplit saved({{1, 2, 1}, 1});
  const auto file = saved.path("rank-1-of-2.safetensors");
  {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(-3, std::ios::end);
    const auto position = stream.tellg();
    const char byte = static_cast<char>(stream.get() ^ 4);
    stream.seekp(position);
    stream.put(byte);
  }
  for (const Split& to : splits()) {
    int num_reported = 0;
    int num_readers = 0;
    for (uint32_t rank = 0; rank < to.num_ranks(); ++rank) {
      const CheckpointReader reader = saved.reader();
      const StateTree state = reader.state(0, 1, nullptr);
      FlatGroup group = to.group(rank);
      const FlatPart& part = group.part(1);
      bool needs_box = false;
      for_each_shared_range(part.piece,
                            TensorPiece(split_shape(), {.start = {0, 5, 0}, .size = {6, 5, 9}}),
                            [&](int64_t, int64_t, int64_t) { needs_box = true; });
      num_readers += needs_box ? 1 : 0;
      try {
        state.copy_tensor("w", group.data_view(1), part.piece);
      } catch (const Error& error) {
        CHECK(error.id() == "checkpoint.damaged");
        CHECK_THAT(error.message(), contains_text("rank-1-of-2.safetensors is corrupt: entry 'w'"));
        ++num_reported;
      }
    }
    // A rank that reads the start of a piece alone does not come to its checksum.
    CHECK(num_reported >= 1);
    CHECK(num_reported <= num_readers);
  }
}

TEST_CASE("boxes that do not cover a tensor make no checkpoint", "[checkpoint]") {
  ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  storage.open("a", true);
  const Split split{{1, 2, 1}, 1};
  std::vector<RankShare> shares;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    StateTree tree;
    const FlatGroup group = split.group(rank);
    tree.put_part("w", group.data_view(1), {group.part(1).piece, true}, StateTree::Copy::kNo);
    shares.push_back(write_share(tree, RankRole(Mesh({}, 2, rank)), storage, "a", false));
  }
  const auto refused = [](const std::vector<RankShare>& some) {
    try {
      merged({}, some);
    } catch (const Error& error) {
      CHECK(error.id() == "checkpoint.incomplete");
      return error.message();
    }
    return std::string();
  };
  CHECK(refused(shares).empty());
  CHECK_THAT(refused({shares[0]}), contains_text("'w' lacks the elements from 45 on"));
  CHECK_THAT(refused({shares[1]}), contains_text("'w' lacks the elements from 0 on"));
  CHECK_THAT(refused({shares[0], shares[0]}),
             contains_text("'w' has duplicate elements from 0 of the box [0:6, 0:5, 0:9] on"));
}

TEST_CASE("each piece is saved by one of its copies, and copies share the work", "[checkpoint]") {
  constexpr uint32_t kTensor = 4;
  constexpr uint32_t kShard = 2;
  constexpr uint32_t kRanks = 2 * kShard * kTensor;
  const MeshDegrees degrees{.replicate = 2, .shard = kShard, .tensor = kTensor};
  const std::vector<int64_t> shape = {8, 6};
  const at::Tensor whole = at::arange(48, at::kFloat).view(shape);
  ScratchFolder folder;
  const auto storage = std::make_shared<LocalStorage>(folder.path().string());
  storage->open("a", true);
  std::vector<RankShare> shares;
  std::vector<std::string> names;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    StateTree tree;
    names.clear();
    for (const uint32_t num_copies : {1U, 2U, 4U}) {
      for (const bool is_sliced : {false, true}) {
        for (int i = 0; i < 8; ++i) {
          // The rows of this rank, the same for `num_copies` adjacent tensor ranks.
          const int64_t rows = 8 * num_copies / kTensor;
          const int64_t first = rank % kTensor / num_copies * rows;
          const TensorPiece box(shape, Box{{first, 0}, {rows, 6}});
          const int64_t half = box.numel() / kShard;
          const TensorPiece piece =
              is_sliced ? box.part(rank / kTensor % kShard * half, half) : box;
          names.push_back("w" + std::to_string(num_copies) + (is_sliced ? "s" : "w") +
                          std::to_string(i));
          tree.put_part(names.back(),
                        values_of(piece, whole),
                        {.piece = piece, .is_sliced = is_sliced, .num_copies = num_copies},
                        StateTree::Copy::kYes);
        }
      }
    }
    const RankRole role(Mesh(degrees, kRanks, rank));
    shares.push_back(write_share(tree, role, *storage, "a", false));
  }
  for (const RankShare& share : shares) {
    // Eight tensors for each set of copies: of 2, 4 and 8 ranks if sliced, else of 4, 8 and 16.
    CHECK(share.shared.tensors.size() >= 4 + 2 + 1 + 2 + 1);
    CHECK(share.shared.tensors.size() <= 4 + 2 + 1 + 2 + 1 + 1);
  }
  CheckpointMetadata metadata;
  metadata.checkpoint = "a";
  for (const auto& [name, content] : index_files(merged(metadata, shares), "{}\n")) {
    write_file(name, content, *storage, "a");  // merged() refuses duplicates and gaps
  }
  storage->commit("a");
  const CheckpointReader reader(storage, "a");
  const StateTree state = reader.state(0, 1, nullptr);
  for (const std::string& name : names) {
    CHECK(state.get_tensor(name).equal(whole));
  }
}

}  // namespace tenon
