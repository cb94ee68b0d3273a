// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/recipe_plan.hpp"

#include "host/data/data_stream.hpp"
#include "host/device/machine_memory.hpp"
#include "host/device/precision.hpp"
#include "host/distributed/ranks/mesh.hpp"
#include "host/error/error.hpp"
#include "host/model/model_runner.hpp"
#include "host/plugin/loss_proxy.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/optimizer_proxy.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/kernel_policy.hpp"
#include "host/train/components/optimizer_groups.hpp"
#include "host/train/components/rank_groups.hpp"
#include "host/train/components/recipe_model.hpp"
#include "host/train/components/recipe_parametrizations.hpp"
#include "host/train/components/run_dataset.hpp"
#include "host/train/objective/chunked_loss.hpp"
#include "host/train/objective/loss_set.hpp"

#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <utility>

namespace tenon {
namespace {

// "auto" means a GPU here: large runs are seldom planned on one of the machines that train.
bool is_for_gpu(const Recipe& recipe) {
  return recipe.device != "cpu";
}

// Returns the fields of a microbatch by their declared axes, or nothing if a size is not declared.
std::optional<std::vector<PlannedField>> declared_fields(const std::vector<FieldInfo>& schema,
                                                         int64_t batch_size) {
  std::vector<PlannedField> fields;
  for (const FieldInfo& info : schema) {
    PlannedField field{info.name, static_cast<at::ScalarType>(info.dtype), {}};
    for (const Axis& axis : info.axes) {
      if (axis.size < 0 && axis.name != "B") {
        return std::nullopt;
      }
      field.shape.push_back(axis.size >= 0 ? axis.size : batch_size);
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

// Returns the fields of the first microbatch of the first epoch.
std::vector<PlannedField> read_fields(DataSource& source, const LoaderOptions& options) {
  DataStream stream(source, options);
  stream.begin_epoch(0);
  std::vector<PlannedField> fields;
  if (stream.next_window()) {
    if (const std::optional<Batch> batch = stream.loader().next()) {
      for (size_t i = 0; i < batch->fields.size(); ++i) {
        if (batch->fields[i].defined()) {
          fields.push_back({(*batch->schema)[i].name,
                            batch->fields[i].scalar_type(),
                            batch->fields[i].sizes().vec()});
        }
      }
    }
  }
  return fields;
}

// Returns the size of axis T of the first field that has one; 0 if none has.
int64_t positions_of(const std::vector<FieldInfo>& schema,
                     const std::vector<PlannedField>& fields) {
  for (const PlannedField& field : fields) {
    const auto info = std::ranges::find(schema, field.name, &FieldInfo::name);
    for (size_t d = 0; info != schema.end() && d < info->axes.size(); ++d) {
      if (info->axes[d].name == "T" && d < field.shape.size()) {
        return field.shape[d];
      }
    }
  }
  return 0;
}

int64_t slot_bytes(const OptimizerInfo& info, at::ScalarType stored) {
  int64_t bytes = 0;
  for (const SlotSpec& slot : info.slots) {
    if (slot.shape == TENON_SLOT_LIKE_PARAMETER) {
      bytes += static_cast<int64_t>(c10::elementSize(
          slot.dtype >= TENON_CLASS_FIRST ? stored : static_cast<at::ScalarType>(slot.dtype)));
    }
  }
  return bytes;
}

int64_t bytes_of_buffers(const ModelGraph& graph, at::ScalarType seen) {
  int64_t bytes = 0;
  for (const ModelBuffer& buffer : graph.buffers) {
    const auto dtype =
        buffer.dtype >= TENON_CLASS_FIRST ? seen : static_cast<at::ScalarType>(buffer.dtype);
    bytes += c10::multiply_integers(buffer.shape) * static_cast<int64_t>(c10::elementSize(dtype));
  }
  return bytes;
}

class Planning {
 public:
  Planning(const Recipe& recipe, PluginRegistry& registry, const PlanRequest& request)
      : recipe_(recipe),
        request_(request),
        precision_(precision_policy(recipe.train.precision,
                                    is_for_gpu(recipe) ? ComputesOn::kGpu : ComputesOn::kCpu)),
        mesh_(mesh(recipe, request)),
        abi_mesh_(mesh_.view()),
        factory_(registry, recipe, abi_mesh_),
        model_(factory_.create(recipe.model.use, "model")) {
    set_kernel_policy(kernel_policy_of(recipe.kernels));
    exec_.seed = recipe.seed;
    exec_.device = is_for_gpu(recipe) ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
    exec_.compute_dtype = precision_.compute;
    exec_.autocast_dtype = precision_.autocast;
    exec_.mesh = &abi_mesh_;
    exec_.tensors = tensor_service();
    exec_.ops = op_service();
    // Plugins build their modules in the default dtype.
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(precision_.exact()));
  }

  RecipePlan plan() {
    PlanSubject& subject = result_.subject;
    subject.graph = recipe_model(model_, recipe_.model);
    add_parametrizations(factory_, recipe_.model, subject.graph);
    result_.machine = request_.on(is_for_gpu(recipe_) ? kPlannedGpus : kPlannedCpus);
    subject.microbatches = microbatches_per_step(recipe_, request_.ranks);
    subject.has_host = is_for_gpu(recipe_);
    subject.reshard_after_forward = recipe_.parallel.reshard_after_forward;
    subject.bucket_bytes = recipe_.parallel.bucket_bytes;
    if (recipe_.parallel.gradient_dtype == GradientDtype::kBf16) {
      subject.gradient_dtype = at::kBFloat16;
    }
    subject.buffer_bytes = bytes_of_buffers(subject.graph, precision_.compute);
    add_groups();
    add_costs();
    add_losses();

    result_.recipe = recipe_.file;
    result_.device = is_for_gpu(recipe_) ? "cuda" : "cpu";
    result_.precision = recipe_.train.precision;
    result_.request = request_;
    result_.batch_size = recipe_.data.batch_size;
    const PlanChoice given{.replicate = mesh_.size(MeshDim::kReplicate),
                           .shard = mesh_.size(MeshDim::kShard),
                           .stage = recipe_.parallel.stage,
                           .recomputes = recipe_.train.recompute == Recompute::kBlocks,
                           .offloads = recipe_.parallel.offload};
    result_.plan = plan_rank(subject, given, result_.machine);
    if (request_.memory.has_value() && result_.plan.memory.sum() > *request_.memory) {
      result_.exceeds = true;
      result_.suggestion = cheapest_that_fits(subject, given, result_.machine, *request_.memory);
      if (!result_.suggestion.has_value()) {
        result_.smallest = smallest_plan(subject, given, result_.machine);
      }
    }
    return std::move(result_);
  }

 private:
  static Mesh mesh(const Recipe& recipe, const PlanRequest& request) {
    return Mesh({.replicate = recipe.parallel.replicate, .shard = recipe.parallel.shard},
                static_cast<uint32_t>(request.ranks),
                0);
  }

  void add_groups() {
    const ModelGraph& graph = result_.subject.graph;
    const OptimizerPlan optimizers = plan_optimizers(recipe_.optimizer, graph);
    std::vector<bool> is_by_element;
    for (size_t i = 0; i < optimizers.partitions.size(); ++i) {
      const OptimizerProxy proxy(
          factory_.create(optimizers.partitions[i].use, formatted("optimizer/{}", i)));
      result_.subject.optimizer_bytes.push_back(slot_bytes(proxy.info(), precision_.stored));
      is_by_element.push_back(proxy.info().needs == TENON_OPTIMIZER_ELEMENTWISE);
    }
    std::vector<bool> needs_whole(graph.parameters.size(), false);
    for (size_t p = 0; p < needs_whole.size(); ++p) {
      needs_whole[p] = !is_by_element[optimizers.partition_of[p]];
    }
    const std::vector<bool> unsharded =
        unsharded_parameters(recipe_.parallel, graph, std::move(needs_whole));
    result_.subject.groups =
        lay_out_groups(graph,
                       {.stored = precision_.stored,
                        .seen = precision_.compute,
                        .partition_of = [&](uint32_t p) { return optimizers.partition_of[p]; },
                        .is_unsharded = [&](uint32_t p) { return unsharded[p]; }});
  }

  void add_costs() {
    PlanSubject& subject = result_.subject;
    const uint64_t seed = mix_seeds(recipe_.seed, stream_of("data"));
    train_set_.emplace(factory_, recipe_.data.train, "data/train", seed, false);
    DataSource& source = train_set_->source();
    const std::vector<FieldInfo>& schema = *source.info().schema;
    check_model_fields(subject.graph, schema, source.name());
    std::optional<std::vector<PlannedField>> fields =
        declared_fields(schema, recipe_.data.batch_size);
    if (!fields.has_value()) {
      LoaderOptions options;
      options.batch_size = recipe_.data.batch_size;
      options.shuffle = false;
      options.seed = seed;
      options.prefetch = 1;
      fields = read_fields(source, options);
    }
    for (const PlannedField& field : *fields) {
      subject.batch_bytes += field.bytes();
    }
    // All microbatches of a step are held together; on CPUs, prefetched ones share their memory.
    subject.batches_held = is_for_gpu(recipe_) ? subject.microbatches
                                               : 2 * subject.microbatches + recipe_.data.prefetch;
    result_.tokens_a_sample = positions_of(schema, *fields);
    std::vector<bool> is_trainable(subject.graph.parameters.size(), false);
    for (const GroupLayout& group : subject.groups) {
      for (const uint32_t p : group.parameters) {
        is_trainable[p] = group.is_trainable;
      }
    }
    subject.costs = block_costs(model_,
                                subject.graph,
                                {.fields = std::move(*fields),
                                 .num_samples = recipe_.data.batch_size,
                                 .stored = precision_.stored,
                                 .seen = precision_.compute,
                                 .is_trainable = [&](uint32_t p) { return is_trainable[p]; },
                                 .base = exec_});
  }

  void add_losses() {
    std::vector<NamedLoss> losses;
    std::vector<bool> is_hand_written;
    for (size_t i = 0; i < recipe_.losses.size(); ++i) {
      const LossUse& use = recipe_.losses[i];
      LossProxy proxy(factory_.create(use.use, formatted("losses/{}", i)));
      is_hand_written.push_back(proxy.has_backward());
      losses.push_back({use.name, use.weight, use.inputs, std::move(proxy)});
    }
    PlanSubject& subject = result_.subject;
    const LossSet set(std::move(losses), subject.graph, recipe_.model.name, exec_);
    set.check_fields(*train_set_->source().info().schema, train_set_->source().name());
    for (size_t i = 0; i < set.size(); ++i) {
      // Losses sum in fp32. CPU kernels read narrow values directly; on other devices the loss
      // makes an fp32 copy.
      int64_t wide = 0;
      const auto narrow = static_cast<int64_t>(c10::elementSize(precision_.compute));
      for (const uint32_t v : set.values_read(i)) {
        const ModelValue& value = subject.graph.values[v];
        for (size_t k = 0; value.maker != kNoIndex && is_for_gpu(recipe_) && narrow < 4 &&
                           k < subject.graph.blocks[value.maker].outputs.size();
             ++k) {
          if (subject.graph.blocks[value.maker].outputs[k] == v) {
            wide += subject.costs[value.maker].bytes_of_output[k] / narrow * 4;
          }
        }
      }
      subject.losses.push_back({set.values_read(i), is_hand_written[i], wide});
    }
    if (recipe_.train.loss_chunk.has_value() && result_.tokens_a_sample > 0) {
      subject.tile_share = std::min(1.0,
                                    static_cast<double>(*recipe_.train.loss_chunk) /
                                        static_cast<double>(result_.tokens_a_sample));
    }
  }

  const Recipe& recipe_;
  const PlanRequest& request_;
  PrecisionPolicy precision_;
  Mesh mesh_;
  tenon_mesh abi_mesh_;
  ComponentFactory factory_;
  ModelProxy model_;
  ExecBase exec_;
  std::optional<RunDataset> train_set_;
  RecipePlan result_;
};

}  // namespace

RecipePlan plan_recipe(const Recipe& recipe, PluginRegistry& registry, const PlanRequest& request) {
  const MemoryLimit limit;  // for plugins that allocate a model to describe it
  return Planning(recipe, registry, request).plan();
}

}  // namespace tenon
