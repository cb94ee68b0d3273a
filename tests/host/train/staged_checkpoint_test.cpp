// SPDX-License-Identifier: Apache-2.0
//
// Ranks of a pipeline train, clip and save the parameters of their stages; any other mesh resumes
// from the checkpoint, to the bit of one rank.
#include <tenon/draft/parameter_average.h>
#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/distributed/ranks/rank_role.hpp"
#include "host/model/divided_graph.hpp"
#include "host/model/parameter_store.hpp"
#include "host/model/sharded_parameters.hpp"
#include "host/optim/clip.hpp"
#include "host/optim/gradient_norm.hpp"
#include "host/optim/optimizer_driver.hpp"
#include "host/tensor/initializer.hpp"
#include "host/train/best_state.hpp"
#include "host/train/parameter_averages.hpp"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/optim/momentum_optimizer.hpp"
#include "tests/host/tensor/joined_state.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/made_instance.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr uint32_t kStages = 4;
// Parameters of a block: rows, vector, matrix, frozen.
constexpr uint32_t kOfStage = 4;

struct StagedMesh {
  MeshDegrees degrees;
  int stage = 3;
  bool is_interleaved = false;
  uint32_t size() const {
    return static_cast<uint32_t>(degrees.replicate * degrees.shard * degrees.tensor *
                                 degrees.context * degrees.pipeline);
  }
};

bool is_of_matrices(uint32_t p) {
  return p % kOfStage == 2;
}

ModelGraph staged_graph(const StagedMesh& mesh, const RankRole& role) {
  const RankIndex pipeline = role.pipeline();
  ModelGraph graph;
  graph.stage_owners.clear();
  for (uint32_t b = 0; b < kStages; ++b) {
    const uint32_t owner = mesh.is_interleaved ? b % pipeline.count : b * pipeline.count / kStages;
    graph.stage_owners.push_back(owner);
    ModelBlock block;
    block.name = "block" + std::to_string(b);
    block.flags = TENON_BLOCK_DIVISIBLE;
    block.stage = b;
    block.is_elsewhere = owner != pipeline.index;
    const auto add = [&](const char* name, std::vector<int64_t> shape, uint32_t flags = 0) {
      ModelParameter made;
      made.name = block.name + "." + name;
      made.shape = std::move(shape);
      made.dtype = TENON_CLASS_PARAM;
      made.flags = flags;
      made.blocks = {b};
      made.holders = {owner};
      made.is_elsewhere = block.is_elsewhere;
      block.parameters.push_back(static_cast<uint32_t>(graph.parameters.size()));
      graph.parameters.push_back(std::move(made));
    };
    add("rows", {12, 50 + b});
    graph.parameters.back().split = ModelSplit{0, {12}, {12}};
    add("vector", {7 + b});
    add("matrix", {6, 4});
    add("frozen", {9}, TENON_PARAM_FROZEN);
    graph.buffers.push_back({.name = block.name + ".mean",
                             .shape = {3},
                             .dtype = TENON_F32,
                             .kind = TENON_BUFFER_STATE,
                             .owner = owner});
    block.buffers = {b};
    graph.blocks.push_back(std::move(block));
  }
  divide_graph(graph, role.tensor(), IndivisibleBlocks::kRefuse);
  return graph;
}

// Averages with the factor 1/2.
struct MeanOfTwo {
  static tenon_status* update(void*, const tenon_exec*, const tenon_parameter_average_args* args) {
    for (size_t i = 0; i < args->num_pieces; ++i) {
      tensor_of(args->averages[i]).add_(tensor_of(args->parameters[i])).mul_(0.5);
    }
    return nullptr;
  }
  static const void* extension(void*, const char* id) {
    static const tenon_parameter_average table = {sizeof(tenon_parameter_average), &update};
    return std::strcmp(id, TENON_PARAMETER_AVERAGE_ID) == 0 ? &table : nullptr;
  }
};

// The trained state of one rank. Gradients are those of the whole run.
class StagedRank {
 public:
  StagedRank(const StagedMesh& mesh, uint32_t rank)
      : role_(Mesh(mesh.degrees, mesh.size(), rank)),
        graph_(staged_graph(mesh, role_)),
        store_(graph_, layout_of(role_, mesh.stage)),
        by_element_(TENON_OPTIMIZER_ELEMENTWISE, 1),
        by_matrix_(TENON_OPTIMIZER_MATRIX, 0),
        hook_(made_instance("hook", "test", nullptr, nullptr, &MeanOfTwo::extension)),
        best_({.metric = "loss"}, {{"parameters", &store_}}) {
    std::vector<OptimizedPartition> partitions = by_element_.partitions();
    partitions.push_back(std::move(by_matrix_.partitions().front()));
    driver_.emplace(std::move(partitions), store_.groups(), ExecBase{});
    averages_.emplace(*ParameterAverageProxy::of(hook_), store_.groups(), ExecBase{});
    each_part([](FlatGroup& group, const FlatEntry& entry, const FlatPart& part) {
      fill_init(TENON_INIT_NORMAL,
                0,
                1,
                5,
                entry.parameter.name,
                part.piece,
                group.data().narrow(0, part.in_slice, part.length()));
    });
  }
  StagedRank(const StagedRank&) = delete;
  StagedRank& operator=(const StagedRank&) = delete;

  // Whether a parameter has a gradient is known to all ranks.
  void set_gradients(int number) {
    each_part([&](FlatGroup& group, FlatEntry& entry, const FlatPart& part) {
      if (!group.is_trainable()) {
        return;
      }
      const at::Tensor whole =
          at::sin(at::arange(c10::multiply_integers(entry.parameter.shape), at::kFloat)
                      .mul(0.1 + static_cast<double>(entry.parameter.id))
                      .add(number));
      group.grad()
          .narrow(0, part.in_slice, part.length())
          .copy_(values_of(part.piece, whole.view(entry.parameter.shape)));
      entry.has_grad = entry.parameter.id % kOfStage != 1 || number != 2;
      if (!entry.has_grad) {
        group.grad().narrow(0, part.in_slice, part.length()).zero_();
      }
    });
  }
  ExactSum squares() const {
    return grad_squares(store_.groups(), NormOf::kCounted, SquareScale::kOne);
  }
  void update(int number, double norm) {
    clip_grad_norm(store_.groups(), norm, 2.5);
    clip_grad_value(store_.groups(), 0.3);
    driver_->update(1, {static_cast<uint64_t>(number), 0, true});
    averages_->update(static_cast<uint64_t>(number));
    for (FlatGroup& group : store_.groups()) {
      group.clear_grads();
    }
    for (size_t b = 0; b < store_.buffers().size(); ++b) {  // as all ranks receive them
      store_.buffers()[b] =
          store_.buffers()[b] + static_cast<double>(number * 10) + static_cast<double>(b);
    }
    if (number == 1) {
      MetricRecord record;
      record.values.emplace_back("loss", 1.5);
      best_.consider(record, 1);
    }
  }

  StateTree state() const {
    StateTree tree;
    best_.snapshot(tree, "best");
    store_.snapshot(tree, "parameters");
    driver_->snapshot(tree, "optimizer");
    averages_->snapshot(tree, "averages");
    tree.put_bytes("hook/text", "of all ranks");
    tree.put_tensor("hook/values", at::arange(40), StateTree::Copy::kYes);
    return tree;
  }
  void load(const StateTree& tree) {
    best_.load(tree, "best");
    store_.load(tree, "parameters");
    driver_->load(tree, "optimizer");
    averages_->load(tree, "averages");
  }
  const RankRole& role() const { return role_; }

 private:
  static ParameterLayout layout_of(const RankRole& role, int stage) {
    ParameterLayout layout;
    layout.partition_of = [](uint32_t p) { return is_of_matrices(p) ? 1U : 0U; };
    layout.is_unsharded = is_of_matrices;
    layout.sharing = sharing_of({.stage = stage}, role);
    layout.role = role;
    return layout;
  }
  template <class Take>
  void each_part(Take take) {
    for (FlatGroup& group : store_.groups()) {
      for (size_t e = 0; e < group.entries().size(); ++e) {
        take(group, group.entries()[e], group.part(e));
      }
    }
  }

  RankRole role_;
  ModelGraph graph_;
  ParameterStore store_;
  MomentumOptimizer by_element_;
  MomentumOptimizer by_matrix_;
  ComponentInstance hook_;
  BestState best_;
  std::optional<OptimizerDriver> driver_;
  std::optional<ParameterAverages> averages_;
};

// All ranks of a run.
class StagedRun {
 public:
  StagedRun(const StagedMesh& mesh, std::initializer_list<int> steps) {
    for (uint32_t rank = 0; rank < mesh.size(); ++rank) {
      ranks_.push_back(std::make_unique<StagedRank>(mesh, rank));
    }
    for (const int number : steps) {
      step(number);
    }
  }

  void step(int number) {
    ExactSum sum;
    for (const auto& rank : ranks_) {
      rank->set_gradients(number);
      sum.add(rank->squares());
    }
    norms_.push_back(std::sqrt(sum.value()));
    for (const auto& rank : ranks_) {
      rank->update(number, norms_.back());
    }
  }

  // Writes a checkpoint of all ranks.
  std::unique_ptr<CheckpointReader> save(const ScratchFolder& folder) const {
    const auto storage = std::make_shared<LocalStorage>(folder.path().string());
    storage->open("a", true);
    std::vector<RankShare> shares;
    for (const auto& rank : ranks_) {
      shares.push_back(write_share(rank->state(), rank->role(), *storage, "a", false));
    }
    CheckpointMetadata metadata;
    metadata.checkpoint = "a";
    for (const auto& [name, content] : index_files(merged(metadata, shares), "{}\n")) {
      write_file(name, content, *storage, "a");
    }
    storage->commit("a");
    return std::make_unique<CheckpointReader>(storage, "a");
  }

  const std::vector<std::unique_ptr<StagedRank>>& ranks() const { return ranks_; }
  const std::vector<double>& norms() const { return norms_; }

 private:
  std::vector<std::unique_ptr<StagedRank>> ranks_;
  std::vector<double> norms_;
};

const std::vector<StagedMesh>& staged_meshes() {
  static const std::vector<StagedMesh> kMeshes = {
      {{.shard = 1}},
      {{.shard = 3}},
      {{.shard = 1, .pipeline = 2}},
      {{.shard = 1, .pipeline = 2}, 3, true},
      {{.shard = 1, .pipeline = 3}},
      {{.shard = 2, .pipeline = 2}},
      {{.shard = 2, .pipeline = 3}, 1},
      {{.shard = 2, .tensor = 2, .pipeline = 2}, 3, true},
      {{.replicate = 2, .shard = 1, .pipeline = 2}, 2},
  };
  return kMeshes;
}

std::string text_of(const StagedMesh& mesh) {
  return Mesh(mesh.degrees, mesh.size(), 0).text() + (mesh.is_interleaved ? " interleaved" : "");
}

std::vector<StateTree> states_of(const StagedRun& run) {
  std::vector<StateTree> states;
  for (const auto& rank : run.ranks()) {
    states.push_back(rank->state());
  }
  return states;
}

}  // namespace

TEST_CASE("ranks of a pipeline clip and update as one rank does, to the bit", "[train]") {
  const StagedRun one({{.shard = 1}}, {1, 2, 3});
  const StateTree wanted = one.ranks().front()->state();
  REQUIRE(one.norms().front() > 2.5);
  for (const StagedMesh& mesh : staged_meshes()) {
    INFO(text_of(mesh));
    const StagedRun run(mesh, {1, 2, 3});
    CHECK(run.norms() == one.norms());
    const StateTree joined = joined_state(states_of(run));
    for (const auto& [name, entry] : wanted.entries()) {
      CAPTURE(name);
      REQUIRE(joined.find(name) != nullptr);
      if (std::holds_alternative<at::Tensor>(entry.value)) {
        CHECK(joined.get_tensor(name).equal(wanted.get_tensor(name)));
      } else if (std::holds_alternative<int64_t>(entry.value) &&
                 !name.starts_with("optimizer/starts/")) {
        CHECK(joined.get_int(name) == wanted.get_int(name));
      }
    }
    CHECK(joined.entries().size() == wanted.entries().size());
  }
}

TEST_CASE("any pipeline resumes from the checkpoint of any other, to the bit", "[train]") {
  for (const StagedMesh& from : staged_meshes()) {
    INFO("from " << text_of(from));
    const ScratchFolder folder;
    const auto reader = StagedRun(from, {1, 2}).save(folder);
    CHECK_NOTHROW(reader->verify());
    for (const StagedMesh& to : staged_meshes()) {
      const StagedRun saved(to, {1, 2});
      const StagedRun continued(to, {1, 2, 3});
      StagedRun resumed(to, {3});  // from other values
      for (uint32_t rank = 0; rank < to.size(); ++rank) {
        INFO("to " << text_of(to) << ", rank " << rank);
        resumed.ranks()[rank]->load(reader->state(rank, to.size(), nullptr));
        CHECK(state_difference(resumed.ranks()[rank]->state(), saved.ranks()[rank]->state()) == "");
      }
      resumed.step(3);
      for (uint32_t rank = 0; rank < to.size(); ++rank) {
        INFO("to " << text_of(to) << ", rank " << rank);
        CHECK(state_difference(resumed.ranks()[rank]->state(), continued.ranks()[rank]->state()) ==
              "");
      }
    }
  }
}

TEST_CASE("the index of a pipeline's checkpoint is that of one rank", "[train]") {
  const ScratchFolder folder;
  const auto one = StagedRun({{.shard = 1}}, {1}).save(folder);
  for (const StagedMesh& mesh : staged_meshes()) {
    INFO(text_of(mesh));
    const ScratchFolder other;
    const auto many = StagedRun(mesh, {1}).save(other);
    const StoredEntries& wanted = one->index().shared;
    const StoredEntries& found = many->index().shared;
    REQUIRE(found.tensors.size() == wanted.tensors.size());
    for (const auto& [name, tensor] : wanted.tensors) {
      CAPTURE(name);
      REQUIRE(found.tensors.contains(name));
      CHECK(found.tensors.at(name).shape == tensor.shape);
      CHECK(found.tensors.at(name).dtype == tensor.dtype);
    }
    CHECK(many->index().tensor_bytes() == one->index().tensor_bytes());
    REQUIRE(found.numbers.size() == wanted.numbers.size());
    for (const auto& [name, number] : wanted.numbers) {
      CAPTURE(name);
      const bool is_start = name.starts_with("optimizer/starts/");
      CHECK((is_start || found.numbers.at(name).value == number.value));
    }
  }
}

}  // namespace tenon
