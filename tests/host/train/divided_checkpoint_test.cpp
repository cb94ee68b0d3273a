// SPDX-License-Identifier: Apache-2.0
//
// Tensor ranks, slices and copies save parameters, optimizer states and averages together, and any
// other mesh resumes from them, to the bit.
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
#include "host/optim/optimizer_driver.hpp"
#include "host/tensor/initializer.hpp"
#include "host/train/parameter_averages.hpp"

#include <ATen/Functions.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <cstring>
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

// The last parameter is a matrix of the optimizer of matrices.
constexpr uint32_t kMatrix = 5;

ModelGraph graph_of(RankIndex tensor) {
  ModelGraph graph;
  const auto add =
      [&](const char* name, std::vector<int64_t> shape, std::optional<ModelSplit> split) {
        ModelParameter made;
        made.name = name;
        made.shape = std::move(shape);
        made.dtype = TENON_CLASS_PARAM;
        made.blocks = {0};
        made.split = std::move(split);
        graph.parameters.push_back(std::move(made));
      };
  add("rows", {12, 5}, ModelSplit{0, {12}, {12}});
  add("columns", {3, 12}, ModelSplit{1, {12}, {2}});  // 4 ranks: 2 copies of each half
  add("fused", {20, 3}, ModelSplit{0, {12, 4, 4}, {12, 4, 4}});
  add("keys", {16, 3}, ModelSplit{0, {12, 4}, {12, 2}});  // 4 ranks: stored whole
  add("vector", {7}, {});
  add("matrix", {12, 4}, ModelSplit{0, {12}, {12}});
  graph.blocks.resize(1);
  graph.blocks[0].name = "block";
  graph.blocks[0].flags = TENON_BLOCK_DIVISIBLE;
  graph.blocks[0].parameters = {0, 1, 2, 3, 4, kMatrix};
  divide_graph(graph, tensor, IndivisibleBlocks::kRefuse);
  std::vector<bool> needs_whole(graph.parameters.size(), false);
  needs_whole[kMatrix] = tensor.count > 1;
  store_whole(graph, tensor, needs_whole);
  return graph;
}

// Averages with the factor 1/2.
struct HalfAverage {
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

struct MeshOfRun {
  MeshDegrees degrees;
  int stage = 3;
  uint32_t size() const {
    return static_cast<uint32_t>(degrees.replicate * degrees.shard * degrees.tensor *
                                 degrees.context);
  }
};

// The trained state of one rank. Gradients are those of the whole run.
class RankOfRun {
 public:
  RankOfRun(const MeshOfRun& mesh, uint32_t rank)
      : role_(Mesh(mesh.degrees, mesh.size(), rank)),
        graph_(graph_of(role_.tensor())),
        store_(graph_, layout_of(role_, mesh.stage)),
        by_element_(TENON_OPTIMIZER_ELEMENTWISE, 1),
        by_matrix_(TENON_OPTIMIZER_MATRIX, 0),
        hook_(made_instance("hook", "test", nullptr, nullptr, &HalfAverage::extension)) {
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
  RankOfRun(const RankOfRun&) = delete;
  RankOfRun& operator=(const RankOfRun&) = delete;

  void step(int number) {
    each_part([&](FlatGroup& group, FlatEntry& entry, const FlatPart& part) {
      const std::vector<int64_t>& shape = entry.parameter.shape;
      // Small integers, so that sums are exact in any order.
      const at::Tensor whole =
          at::arange(c10::multiply_integers(shape), at::kFloat).add(7 * number).fmod(5);
      group.grad()
          .narrow(0, part.in_slice, part.length())
          .copy_(values_of(part.piece, whole.view(shape)));
      entry.has_grad = entry.parameter.id != 0 || number != 2;
    });
    driver_->update(1, {static_cast<uint64_t>(number), 0, true});
    averages_->update(static_cast<uint64_t>(number));
    for (FlatGroup& group : store_.groups()) {
      group.clear_grads();
    }
  }

  StateTree state() const {
    StateTree tree;
    store_.snapshot(tree, "parameters");
    driver_->snapshot(tree, "optimizer");
    averages_->snapshot(tree, "averages");
    return tree;
  }
  void load(const StateTree& tree) {
    store_.load(tree, "parameters");
    driver_->load(tree, "optimizer");
    averages_->load(tree, "averages");
  }
  const RankRole& role() const { return role_; }

 private:
  static ParameterLayout layout_of(const RankRole& role, int stage) {
    ParameterLayout layout;
    layout.partition_of = [](uint32_t p) { return p == kMatrix ? 1U : 0U; };
    layout.is_unsharded = [](uint32_t p) { return p == kMatrix; };
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
  std::optional<OptimizerDriver> driver_;
  std::optional<ParameterAverages> averages_;
};

using RunRanks = std::vector<std::unique_ptr<RankOfRun>>;

RunRanks run_of(const MeshOfRun& mesh, std::initializer_list<int> steps) {
  RunRanks ranks;
  for (uint32_t rank = 0; rank < mesh.size(); ++rank) {
    ranks.push_back(std::make_unique<RankOfRun>(mesh, rank));
    for (const int number : steps) {
      ranks.back()->step(number);
    }
  }
  return ranks;
}

const std::vector<MeshOfRun>& meshes() {
  static const std::vector<MeshOfRun> kMeshes = {
      {{.shard = 1}},
      {{.shard = 3}},
      {{.shard = 1, .tensor = 2}},
      {{.shard = 2, .tensor = 2}},
      {{.shard = 2, .tensor = 2}, 1},
      {{.shard = 1, .tensor = 4}},
      {{.replicate = 2, .shard = 2, .tensor = 4}},
      {{.replicate = 2, .shard = 1, .tensor = 4, .context = 2}},
  };
  return kMeshes;
}

std::string text_of(const MeshOfRun& mesh) {
  return Mesh(mesh.degrees, mesh.size(), 0).text();
}

}  // namespace

TEST_CASE("any mesh resumes from the checkpoint of any other, to the bit", "[train]") {
  for (const MeshOfRun& from : meshes()) {
    ScratchFolder folder;
    const auto storage = std::make_shared<LocalStorage>(folder.path().string());
    storage->open("a", true);
    std::vector<RankShare> shares;
    std::vector<StateTree> trees;
    for (const auto& rank : run_of(from, {1, 2})) {
      trees.push_back(rank->state());
      shares.push_back(write_share(trees.back(), rank->role(), *storage, "a", false));
    }
    INFO("from " << text_of(from));
    CHECK_NOTHROW(joined_state(trees));  // copies have the same values
    CheckpointMetadata metadata;
    metadata.checkpoint = "a";
    for (const auto& [name, content] : index_files(merged(metadata, shares), "{}\n")) {
      write_file(name, content, *storage, "a");
    }
    storage->commit("a");
    const CheckpointReader reader(storage, "a");
    CHECK_NOTHROW(reader.verify());
    for (const MeshOfRun& to : meshes()) {
      const RunRanks saved = run_of(to, {1, 2});
      const RunRanks continued = run_of(to, {1, 2, 3});
      const RunRanks resumed = run_of(to, {3});  // from other values
      for (uint32_t rank = 0; rank < to.size(); ++rank) {
        INFO("to " << text_of(to) << ", rank " << rank);
        resumed[rank]->load(reader.state(rank, to.size(), nullptr));
        CHECK(state_difference(resumed[rank]->state(), saved[rank]->state()) == "");
        resumed[rank]->step(3);
        CHECK(state_difference(resumed[rank]->state(), continued[rank]->state()) == "");
      }
    }
  }
}

}  // namespace tenon
