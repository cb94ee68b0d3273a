// SPDX-License-Identifier: Apache-2.0
//
// The section "parallel" of a recipe.
#pragma once

#include "host/recipe/resume_rule.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

enum class GradientDtype { kStored, kBf16 };
enum class ContextExchange { kUlysses, kGather };
enum class UndeclaredBlocks { kRefuse, kWhole };

// Its keys about the stages of a pipeline.
struct PipelineKeys {
  std::int64_t pipeline = 1;
  std::string schedule = "1f1b";
  std::optional<std::int64_t> stages_per_rank;  // null: the schedule's default
  std::vector<std::string> stage_starts;        // empty: by cost
};

struct ParallelRecipe : PipelineKeys {
  std::int64_t replicate = 1;  // -1: all ranks that `shard` leaves
  std::int64_t shard = -1;
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t context = 1;
  ContextExchange context_by = ContextExchange::kUlysses;
  UndeclaredBlocks undeclared = UndeclaredBlocks::kRefuse;
  int stage = 3;                              // ZeRO stage
  std::optional<bool> reshard_after_forward;  // null: all blocks except the last
  std::vector<std::string> unsharded;         // name patterns of blocks
  std::int64_t bucket_bytes = 26214400;
  GradientDtype gradient_dtype = GradientDtype::kStored;  // of exchanges between ranks
  bool offload = false;
  double start_timeout_seconds = 300;
  double timeout_seconds = 100;
  std::string interface;  // "": the interface that reaches the first rank
  bool check_collectives = false;
  bool share_memory = true;
  std::int64_t check_replicas_every = 0;  // 0: never

  template <class Section>
  static void bind(Section& s) {
    s.key("replicate", &ParallelRecipe::replicate)
        .min(-1)
        .max(1000000)
        .doc(
            "ranks, or groups of ranks, that each hold the whole model; -1: all that shard leaves");
    s.key("shard", &ParallelRecipe::shard)
        .min(-1)
        .max(1000000)
        .doc("ranks that hold one model together; -1: all that replicate leaves");
    s.key("tensor", &ParallelRecipe::tensor)
        .min(1)
        .max(1000000)
        .doc("ranks that divide the parameters of each block among them, and have the same data");
    s.key("sequence_parallel", &ParallelRecipe::sequence_parallel)
        .doc(
            "between blocks, each rank of a tensor group has a piece of the positions, so that "
            "activations are divided too; needs tensor above 1");
    s.key("context", &ParallelRecipe::context)
        .min(1)
        .max(1000000)
        .doc("ranks that divide the positions of each sequence among them");
    s.choice("context_by",
             &ParallelRecipe::context_by,
             {{"ulysses", ContextExchange::kUlysses}, {"gather", ContextExchange::kGather}})
        .doc(
            "how attention sees the positions of other ranks. ulysses: each rank computes some of "
            "the heads; gather: each rank gets all keys and values");
    s.choice("undeclared",
             &ParallelRecipe::undeclared,
             {{"refuse", UndeclaredBlocks::kRefuse}, {"whole", UndeclaredBlocks::kWhole}})
        .doc(
            "blocks that ranks cannot divide: refuse them, or let each rank run them whole. For "
            "tensor, only blocks whose units the degree does not divide");
    s.key("pipeline", &ParallelRecipe::pipeline)
        .min(1)
        .max(1000000)
        .doc("ranks that divide the blocks of the model among them, and have the same data");
    s.key("schedule", &ParallelRecipe::schedule)
        .doc(
            "order in which the ranks of a pipeline run forwards and backwards: a name that "
            "`tenon schedule` knows, or the path of a table in PyTorch's CSV form");
    s.key("stages_per_rank", &ParallelRecipe::stages_per_rank)
        .min(1)
        .max(1000)
        .doc("parts of the model that each rank of a pipeline has; null: those of the schedule");
    s.key("stage_starts", &ParallelRecipe::stage_starts)
        .doc(
            "name patterns of blocks: the first match of each begins the next stage of a pipeline; "
            "empty: stages of nearly equal costs");
    s.not_yet("expert", "expert parallelism", "[1]");
    s.key("stage", &ParallelRecipe::stage)
        .min(1)
        .max(3)
        .doc("ZeRO stage: 1 shards optimizer state, 2 also gradients, 3 also parameters");
    s.key("reshard_after_forward", &ParallelRecipe::reshard_after_forward)
        .doc(
            "stage 3: free a block's parameters between forward and backward; null: all blocks "
            "except the last");
    s.key("unsharded", &ParallelRecipe::unsharded)
        .non_empty()
        .doc("name patterns of blocks whose parameters each rank keeps whole");
    s.key("bucket_bytes", &ParallelRecipe::bucket_bytes)
        .min(1)
        .doc("replicated models: gradients to reduce together, in bytes");
    s.choice("gradient_dtype",
             &ParallelRecipe::gradient_dtype,
             {{"stored", GradientDtype::kStored}, {"bf16", GradientDtype::kBf16}})
        .doc("dtype in which ranks exchange gradients: as stored, or bf16 for fewer bytes")
        .resume(resume::kUpdates);
    s.key("offload", &ParallelRecipe::offload)
        .doc(
            "keep parameters, gradients and optimizer state in host memory, except those of the "
            "running block");
    s.key("start_timeout_seconds", &ParallelRecipe::start_timeout_seconds)
        .above(0)
        .doc("longest wait for another rank until the first step is done, in seconds");
    s.key("timeout_seconds", &ParallelRecipe::timeout_seconds)
        .above(0)
        .doc("longest wait for another rank after the first step, in seconds");
    s.key("interface", &ParallelRecipe::interface)
        .or_null()
        .non_empty()
        .doc("network interface between ranks; null: the one that reaches the first rank");
    s.key("check_collectives", &ParallelRecipe::check_collectives)
        .doc("compare each collective between ranks before it starts, to debug plugins");
    s.key("share_memory", &ParallelRecipe::share_memory)
        .doc(
            "exchange CPU tensors between ranks of one machine through shared memory; if false, "
            "through the network");
    s.key("check_replicas_every", &ParallelRecipe::check_replicas_every)
        .every()
        .doc("steps between comparisons of replicas, by hash; 0 or null: never");
  }
};

}  // namespace tenon
