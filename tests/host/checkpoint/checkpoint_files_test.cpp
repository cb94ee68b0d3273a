// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/checkpoint_files.hpp"

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/checkpoint/commit_record.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/checkpoint/safetensors.hpp"
#include "host/error/error.hpp"
#include "host/io/checksum.hpp"

#include <ATen/Functions.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

template <class Call>
std::string message_of(Call call, const std::string& id) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.id() == id);
    return error.message();
  }
  FAIL("no error, where " << id << " was to come");
  return "";
}

at::Tensor numbers(std::vector<int64_t> shape, double first) {
  int64_t numel = 1;
  for (const int64_t size : shape) {
    numel *= size;
  }
  return (at::arange(numel, at::kDouble) + first).to(at::kFloat).view(shape);
}

// What rank `rank` of two has: a sharded weight [5, 3] of which rank 0 has 7 elements, something
// that both have, rows of a table, and entries of its own.
StateTree state_of(uint32_t rank) {
  const at::Tensor weight = numbers({5, 3}, 0);
  StateTree tree;
  tree.set_version("", 1);
  tree.set_version("components/hooks/0", 7);
  tree.put_part("parameters/values/w",
                weight.flatten().narrow(0, rank == 0 ? 0 : 7, rank == 0 ? 7 : 8),
                {TensorPiece({5, 3}).part(rank == 0 ? 0 : 7, rank == 0 ? 7 : 8), true},
                StateTree::Copy::kYes);
  if (rank == 1) {  // a whole that lies in one slice
    tree.put_part(
        "parameters/values/b", numbers({4}, 50), {TensorPiece({4}), true}, StateTree::Copy::kYes);
  }
  tree.put_tensor("parameters/buffers/mean", numbers({2, 2}, 9), StateTree::Copy::kNo);
  tree.put_tensor("empty", at::empty({0, 3}), StateTree::Copy::kNo);
  tree.put_tensor("narrow", numbers({3}, 1).to(at::kBFloat16), StateTree::Copy::kNo);
  tree.put_int("run/step", 12);
  tree.put_double("run/odd", std::numeric_limits<double>::quiet_NaN());
  tree.put_double("run/third", 1.0 / 3);
  tree.put_bytes("text", std::string("a\0b", 3));
  tree.put_int("data/shards/" + std::to_string(rank), 100 + rank, TENON_STATE_PER_SHARD);
  tree.put_int("own", rank, TENON_STATE_PER_RANK);
  tree.put_bytes("own_text", std::string(rank + 1, 'x'), TENON_STATE_PER_RANK);
  const int64_t num_rows = rank == 0 ? 2 : 3;
  tree.put_tensor(
      "tables/t/ids", at::arange(num_rows) * 2 + rank, StateTree::Copy::kNo, kStateByRow);
  tree.put_tensor("tables/t/values",
                  numbers({num_rows, 2}, 1000 * (rank + 1)),
                  StateTree::Copy::kNo,
                  kStateByRow);
  return tree;
}

class Saved {
 public:
  Saved() {
    storage().open("a", true);
    std::vector<RankShare> shares;
    for (uint32_t rank = 0; rank < 2; ++rank) {
      const RankRole role(Mesh({}, 2, rank));
      shares.push_back(
          share_of(share_text(write_share(state_of(rank), role, storage(), "a", false))));
    }
    CheckpointMetadata metadata;
    metadata.checkpoint = "a";
    metadata.step = 12;
    metadata.metrics["loss"] = 0.1;
    for (const auto& [name, content] : index_files(merged(metadata, shares), "{}\n")) {
      write_file(name, content, storage(), "a");
    }
    storage().commit("a");
  }
  CheckpointStore& storage() { return *storage_; }
  CheckpointReader reader() { return {storage_, "a"}; }
  fs::path path(const std::string& file) const { return folder_.path() / "a" / file; }

  // Flips one bit.
  void spoil(const std::string& file, int64_t at, int bit = 2) const {
    std::fstream stream(path(file), std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(at, at < 0 ? std::ios::end : std::ios::beg);
    const auto position = stream.tellg();
    const char byte = static_cast<char>(stream.get() ^ (1 << bit));
    stream.seekp(position);
    stream.put(byte);
  }

 private:
  ScratchFolder folder_;
  std::shared_ptr<CheckpointStore> storage_ =
      std::make_shared<LocalStorage>(folder_.path().string());
};

}  // namespace

TEST_CASE("each rank is given its state again, to the bit", "[checkpoint]") {
  Saved saved;
  const CheckpointReader reader = saved.reader();
  CHECK(reader.recipe() == "{}\n");
  CHECK(reader.index().metadata.step == 12);
  CHECK(reader.index().metadata.metrics.at("loss") == 0.1);
  for (uint32_t rank = 0; rank < 2; ++rank) {
    INFO("rank " << rank);
    const StateTree state = reader.state(rank, 2, nullptr);
    const StateTree wanted = state_of(rank);
    for (const auto& [name, entry] : wanted.entries()) {
      INFO(name);
      if (entry.is_sliced) {
        const at::Tensor part = std::get<at::Tensor>(entry.value);
        const at::Tensor read = at::empty_like(part);
        state.copy_tensor(name, read, entry.piece);
        CHECK(read.equal(part));
        continue;
      }
      StateTree one;
      one.put_entry(name, entry);
      StateTree other;
      REQUIRE(state.find(name) != nullptr);
      other.put_entry(name, *state.find(name));
      CHECK(one == other);
    }
    CHECK(state.version("components/hooks/0") == 7);
    CHECK(state.find("data/shards/0") != nullptr);  // of all shards
    CHECK(state.find("data/shards/1") != nullptr);
  }
}

TEST_CASE("another number of ranks is given any part, all rows, and nobody's own", "[checkpoint]") {
  Saved saved;
  std::vector<std::string> dropped;
  const StateTree state = saved.reader().state(2, 3, &dropped);
  CHECK(dropped == std::vector<std::string>{"own", "own_text"});
  CHECK(state.find("own") == nullptr);
  CHECK(state.get_tensor("parameters/values/w").equal(numbers({5, 3}, 0)));
  CHECK(state.get_tensor("parameters/values/b").equal(numbers({4}, 50)));
  for (int64_t first = 0; first < 15; ++first) {
    for (int64_t size = 1; first + size <= 15; ++size) {
      at::Tensor part = at::empty({size});
      state.copy_tensor("parameters/values/w", part, TensorPiece({5, 3}).part(first, size));
      CHECK(part.equal(numbers({15}, 0).narrow(0, first, size)));
    }
  }
  CHECK(state.get_tensor("tables/t/ids").equal(at::tensor({0, 2, 1, 3, 5}, at::kLong)));
  const at::Tensor rows = at::empty({3, 2});
  state.copy_rows("tables/t/values", 1, rows);
  CHECK(rows.equal(at::cat({numbers({1, 2}, 1002), numbers({2, 2}, 2000)})));
}

TEST_CASE("whatever is spoilt in a checkpoint is found and named", "[checkpoint]") {
  Saved saved;
  const auto read_all = [&] { saved.reader().verify(); };
  CHECK_NOTHROW(read_all());
  SECTION("a bit of a tensor") {
    saved.spoil("rank-0-of-2.safetensors", -3);
    CHECK_THAT(message_of(read_all, "checkpoint.damaged"),
               contains_text("rank-0-of-2.safetensors is corrupt: entry '") &&
                   contains_text(", expected "));
  }
  SECTION("a bit of the index") {
    saved.spoil("index.json", 97);
    CHECK_THAT(message_of(read_all, "checkpoint.damaged"),
               contains_text("index.json does not match its checksum in SUMS.xxh128"));
  }
  SECTION("the recipe, and the sums themselves") {
    saved.spoil("recipe.json", 0);
    CHECK_THAT(message_of(read_all, "checkpoint.damaged"),
               contains_text("recipe.json does not match its checksum"));
    saved.spoil("recipe.json", 0);
    saved.spoil("SUMS.xxh128", 5);
    message_of(read_all, "checkpoint.damaged");
    saved.spoil("SUMS.xxh128", 5);
    std::ofstream(saved.path("SUMS.xxh128"), std::ios::app) << "\n";
    CHECK_THAT(message_of(read_all, "checkpoint.damaged"), contains_text("SUMS.xxh128 is corrupt"));
  }
  SECTION("a shard that was cut") {
    fs::resize_file(saved.path("rank-1-of-2.safetensors"), 100);
    CHECK_THAT(message_of(read_all, "checkpoint.damaged"),
               contains_text("rank-1-of-2.safetensors has 100 bytes, expected"));
  }
  SECTION("a shard that is missing") {
    fs::remove(saved.path("rank-1-of-2.safetensors"));
    CHECK_THAT(message_of(read_all, "checkpoint.damaged"),
               contains_text("the file rank-1-of-2.safetensors is missing"));
  }
  SECTION("shards that were swapped") {
    fs::resize_file(saved.path("rank-0-of-2.safetensors"),
                    fs::file_size(saved.path("rank-1-of-2.safetensors")));
    fs::rename(saved.path("rank-0-of-2.safetensors"), saved.path("x"));
    fs::rename(saved.path("rank-1-of-2.safetensors"), saved.path("rank-0-of-2.safetensors"));
    fs::rename(saved.path("x"), saved.path("rank-1-of-2.safetensors"));
    message_of(read_all, "checkpoint.damaged");
  }
  SECTION("an index of something else, with sums that fit") {
    fs::remove(saved.path("SUMS.xxh128"));
    fs::remove(saved.path("index.json"));
    const std::string foreign = R"({"format": "other"})";
    std::ofstream(saved.path("index.json")) << foreign;
    std::ofstream(saved.path("SUMS.xxh128")) << xxh128_text(foreign) << "  index.json\n"
                                             << xxh128_text("{}\n") << "  recipe.json\n";
    CHECK_THAT(message_of(read_all, "checkpoint.foreign"),
               contains_text("another program wrote index.json"));
  }
  SECTION("an index of a release to come") {
    const std::string newer = R"({"format": "tenon.checkpoint", "version": 9})";
    fs::remove(saved.path("SUMS.xxh128"));
    std::ofstream(saved.path("index.json"), std::ios::trunc) << newer;
    std::ofstream(saved.path("SUMS.xxh128")) << xxh128_text(newer) << "  index.json\n"
                                             << xxh128_text("{}\n") << "  recipe.json\n";
    CHECK_THAT(message_of(read_all, "checkpoint.too_new"), contains_text("has format 9"));
  }
  SECTION("COMMITTED of another checkpoint") {
    fs::remove(saved.path("COMMITTED"));
    std::ofstream(saved.path("COMMITTED")) << commit_record_text(1, "b");
    CHECK_THAT(message_of(read_all, "checkpoint.damaged"),
               contains_text("COMMITTED and index.json are of different checkpoints, b and a"));
    // One of an earlier release has no name.
    std::ofstream(saved.path("COMMITTED"), std::ios::trunc) << "1\n";
    CHECK_NOTHROW(read_all());
  }
  SECTION("texts that have grown beyond any memory") {
    for (const char* const file : {"index.json", "recipe.json", "SUMS.xxh128"}) {
      INFO(file);
      const auto size = fs::file_size(saved.path(file));
      fs::resize_file(saved.path(file), uintmax_t{1} << 40);
      CHECK_THAT(message_of(read_all, "checkpoint.damaged"),
                 contains_text(std::string(file) + " has 1099511627776 bytes (expected at most"));
      fs::resize_file(saved.path(file), size);
    }
    CHECK_NOTHROW(read_all());
  }
  SECTION("no index at all") {
    fs::remove(saved.path("index.json"));
    CHECK_THAT(message_of(read_all, "checkpoint.foreign"), contains_text("has no index.json"));
  }
}

TEST_CASE("a flipped bit anywhere in a checkpoint is reported with its file", "[checkpoint]") {
  Saved saved;
  for (const std::string file : {"rank-0-of-2.safetensors",
                                 "rank-1-of-2.safetensors",
                                 "index.json",
                                 "recipe.json",
                                 "SUMS.xxh128",
                                 "COMMITTED"}) {
    const auto size = static_cast<int64_t>(fs::file_size(saved.path(file)));
    REQUIRE(size > 2);
    for (int64_t at = 0; at < size; at += file == "index.json" ? 53 : 5) {
      INFO(file << ", byte " << at);
      saved.spoil(file, at, static_cast<int>(at % 8));
      const std::string message =
          message_of([&] { saved.reader().verify(); }, "checkpoint.damaged");
      CHECK_THAT(message, contains_text(file));
      saved.spoil(file, at, static_cast<int>(at % 8));
    }
  }
  CHECK_NOTHROW(saved.reader().verify());
}

TEST_CASE("the header of each file is looked at by one of the ranks that go on", "[checkpoint]") {
  Saved saved;
  saved.spoil("rank-1-of-2.safetensors", 12);
  const CheckpointReader reader = saved.reader();
  CHECK_NOTHROW(reader.state(0, 2, nullptr));
  CHECK_THAT(message_of([&] { reader.state(1, 2, nullptr); }, "checkpoint.damaged"),
             contains_text("rank-1-of-2.safetensors is corrupt: its header"));
  message_of([&] { reader.state(0, 1, nullptr); }, "checkpoint.damaged");
}

TEST_CASE("shares that are not all there make no checkpoint", "[checkpoint]") {
  ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  storage.open("a", true);
  const RankShare one = write_share(state_of(0), RankRole(Mesh({}, 2, 0)), storage, "a", false);
  CHECK_THAT(message_of([&] { merged({}, {one}); }, "checkpoint.incomplete"),
             contains_text("'parameters/values/w' lacks the elements from 7 on"));
  CHECK_THAT(message_of(
                 [&] {
                   merged({}, {one, one});
                 },
                 "checkpoint.incomplete"),
             contains_text("has duplicate elements from 0 on"));
  message_of([&] { share_of("{}"); }, "checkpoint.damaged");
}

TEST_CASE("what a file cannot hold is refused, and giving up ends a write", "[checkpoint]") {
  ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  storage.open("a", true);
  StateTree odd;
  odd.put_tensor("z", at::zeros({2}, at::kComplexFloat), StateTree::Copy::kNo);
  CHECK_THAT(
      message_of([&] { write_share(odd, {}, storage, "a", false); }, "checkpoint.bad_tensor"),
      contains_text("'z' is ComplexFloat"));
  message_of([&] { write_share(state_of(0), {}, storage, "a", true); }, "checkpoint.given_up");
}

TEST_CASE("all ranks write about as much of what all have", "[checkpoint]") {
  ScratchFolder folder;
  LocalStorage storage(folder.path().string());
  storage.open("a", true);
  StateTree tree;
  for (int i = 0; i < 40; ++i) {
    tree.put_tensor("t" + std::to_string(i), at::zeros({1000 + i}), StateTree::Copy::kNo);
  }
  std::vector<RankShare> shares;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    shares.push_back(write_share(tree, RankRole(Mesh({}, 4, rank)), storage, "a", false));
    CHECK(shares.back().shared.tensors.size() == 10);
  }
  CHECK(merged({}, shares).tensor_bytes() == 4 * (40 * 1000 + 39 * 20));
}

TEST_CASE("safetensors headers are read as strictly as they are written", "[checkpoint]") {
  std::vector<SafeTensor> tensors = {
      {.name = "a", .dtype = at::kFloat, .shape = {2, 3}},
      {.name = "b", .dtype = at::kBool, .shape = {}},
  };
  std::string file = safetensors_header(tensors, {{"k", "v"}});
  CHECK(file.size() % 64 == 0);
  file += std::string(25, '\1');
  const auto read = [&file](uint64_t at, std::span<std::byte> out) {
    std::memcpy(out.data(), file.data() + at, out.size());
  };
  const SafetensorsContent content = read_safetensors_header(file.size(), read, "f");
  REQUIRE(content.tensors.size() == 2);
  CHECK(content.metadata.at("k") == "v");
  CHECK(content.tensors[1].begin == tensors[1].begin);
  CHECK(content.tensors[1].end == file.size());
  CHECK(content.tensors[0].shape == std::vector<int64_t>{2, 3});
  const auto broken = [&](const std::string& what, const std::string& by) {
    const size_t at = file.find(what);
    REQUIRE(at != std::string::npos);
    const std::string was = file;
    file.replace(at, what.size(), by);
    const std::string message =
        message_of([&] { read_safetensors_header(file.size(), read, "f"); }, "checkpoint.damaged");
    file = was;
    return message;
  };
  CHECK_THAT(broken("[2,3]", "[2,4]"), contains_text("a shape that does not match its byte range"));
  CHECK_THAT(broken("\"F32\"", "\"X32\""), contains_text("is not supported"));
  CHECK_THAT(broken("[0,24]", "[1,25]"), contains_text("there is a gap"));
  CHECK_THAT(broken("{", "["), contains_text("its header cannot be read"));
  CHECK_THAT(message_of([&] { read_safetensors_header(file.size() + 1, read, "f"); },
                        "checkpoint.damaged"),
             contains_text("but the file ends at"));
  CHECK_THAT(message_of([&] { read_safetensors_header(3, read, "f"); }, "checkpoint.damaged"),
             contains_text("it has 3 bytes"));
  const uint64_t huge = uint64_t{1} << 60;
  std::memcpy(file.data(), &huge, 8);
  CHECK_THAT(
      message_of([&] { read_safetensors_header(file.size(), read, "f"); }, "checkpoint.damaged"),
      contains_text("its header claims to have"));
}

}  // namespace tenon
