// SPDX-License-Identifier: Apache-2.0
#include "host/train/plan/recipe_plan.hpp"

#include "host/data/data_stream.hpp"
#include "host/data/read_ahead.hpp"
#include "host/device/block_cache.hpp"
#include "host/device/machine_memory.hpp"
#include "host/device/precision.hpp"
#include "host/distributed/ranks/mesh.hpp"
#include "host/error/error.hpp"
#include "host/kernels/products.hpp"
#include "host/model/block_tiles.hpp"
#include "host/model/joined_graph.hpp"
#include "host/model/model_fields.hpp"
#include "host/plugin/loss_proxy.hpp"
#include "host/plugin/model_proxy.hpp"
#include "host/plugin/optimizer_proxy.hpp"
#include "host/plugin/parameter_average_proxy.hpp"
#include "host/tensor/batch_positions.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/philox.hpp"
#include "host/tensor/tensor_service.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/component_factory.hpp"
#include "host/train/components/kernel_policy.hpp"
#include "host/train/components/optimizer_groups.hpp"
#include "host/train/components/recomputed_blocks.hpp"
#include "host/train/components/run_dataset.hpp"
#include "host/train/components/run_models.hpp"
#include "host/train/components/saved_activations.hpp"
#include "host/train/components/sharding_options.hpp"
#include "host/train/objective/chunked_loss.hpp"
#include "host/train/objective/loss_set.hpp"
#include "host/train/objective/metric_set.hpp"
#include "host/train/run_plan/model_plan.hpp"
#include "host/train/run_plan/pipeline_model.hpp"

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

// Returns the bytes of state per element of a partition's parameters. Slots of rows and columns
// depend on the shapes, so that it is a mean.
double slot_bytes(const OptimizerInfo& info,
                  at::ScalarType stored,
                  const std::vector<std::vector<int64_t>>& shapes) {
  double bytes = 0;
  for (const SlotSpec& slot : info.slots) {
    const auto size = static_cast<double>(c10::elementSize(
        slot.dtype >= TENON_CLASS_FIRST ? stored : static_cast<at::ScalarType>(slot.dtype)));
    double elements = 0;
    double slots = 0;
    for (const std::vector<int64_t>& shape : shapes) {
      elements += static_cast<double>(c10::multiply_integers(shape));
      slots += slot.shape == TENON_SLOT_SCALAR
                   ? 0
                   : static_cast<double>(c10::multiply_integers(info.slot_shape(slot, shape)));
    }
    bytes += elements > 0 ? size * slots / elements : 0;
  }
  return bytes;
}

// Returns the bytes of the ids and rows that a rank sends and receives for the lookups of a
// microbatch, if all ids differ and each has as many owners as readers: an id with its count as
// i64, and its row with a flag as fp32 (embedding/row_exchange.hpp).
int64_t exchange_bytes(const ModelGraph& graph, const std::vector<PlannedField>& fields) {
  int64_t bytes = 0;
  for (const ModelValue& value : graph.values) {
    if (!value.lookup.has_value() || value.users.empty()) {
      continue;
    }
    // Ids that a block makes have an unknown number.
    const auto column = std::ranges::find(fields, value.lookup->column, &PlannedField::name);
    const int64_t ids = column != fields.end() ? c10::multiply_integers(column->shape) : 0;
    bytes += 2 * ids * (2 * 8 + (1 + value.lookup->dim) * 4);
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
  Planning(const Recipe& recipe,
           PluginRegistry& registry,
           Process& process,
           const PlanRequest& request)
      : settings_(process.compute_settings()),
        recipe_(recipe),
        request_(request),
        role_(mesh(recipe, request)),
        abi_mesh_(role_.mesh().view()),
        factory_(registry, recipe, abi_mesh_),
        context_(context()) {
    if (recipe.parallel.tensor > 1) {
      throw Error("recipe.not_available",
                  formatted("/parallel/tensor {}: this release does not plan blocks that ranks "
                            "divide; set it to 1 for an upper bound of the memory of a rank",
                            recipe.parallel.tensor));
    }
    settings_->use_kernels(kernel_policy_of(recipe.kernels));
    // Plugins build their modules in the default dtype.
    settings_->use_default_dtype(context_.precision.exact());
  }

  RecipePlan plan() {
    PlanSubject& subject = result_.subject;
    model_.models = std::make_unique<RunModels>(recipe_, factory_);
    model_.graph = model_.models->joined();
    choose_blocks();
    subject.microbatches = microbatches_per_step(recipe_, role_.samples().count);
    cut();
    subject.graph = model_.graph;
    const std::vector<bool> recomputed = recomputed_blocks(recipe_.train.recompute, subject.graph);
    const bool recomputes = std::ranges::find(recomputed, true) != recomputed.end();
    if (recomputes) {  // otherwise, a plan that fits may recompute all
      subject.recomputable = recomputed;
    }
    result_.machine = request_.on(is_for_gpu(recipe_) ? kPlannedGpus : kPlannedCpus);
    subject.has_host = is_for_gpu(recipe_);
    subject.block_bytes = subject.has_host ? nullptr : &cpu_block_bytes;
    subject.reshard_after_forward = recipe_.parallel.reshard_after_forward;
    subject.bucket_bytes = recipe_.parallel.bucket_bytes;
    if (recipe_.parallel.gradient_dtype == GradientDtype::kBf16) {
      subject.gradient_dtype = at::kBFloat16;
    }
    subject.frees_gradients = recipe_.train.update_in_backward;
    subject.has_averages = averages_parameters();
    subject.buffer_bytes = bytes_of_buffers(subject.graph, context_.precision.compute);
    subject.tileable = tileable_blocks(subject.graph);
    add_groups();
    read_train_set();
    if (request_.is_longest) {
      find_longest();
    }
    measure(fields_, keeps_attention(recipe_.train.recompute));
    set_chunk(recipe_.train.loss_chunk);

    result_.recipe = recipe_.file;
    result_.device = is_for_gpu(recipe_) ? "cuda" : "cpu";
    result_.precision = recipe_.train.precision;
    result_.request = request_;
    result_.batch_size = recipe_.data.batch_size;
    const PlanChoice given{
        .replicate = role_.mesh().size(MeshDim::kReplicate),
        .shard = role_.mesh().size(MeshDim::kShard),
        .context = role_.positions().count,
        .tensor = role_.tensor().count,
        .pipeline = role_.pipeline().count,
        .stage = recipe_.parallel.stage,
        .recomputes = recomputes,
        .offloads = recipe_.parallel.offload,
        .keeps_attention = keeps_attention(recipe_.train.recompute),
        .block_tile_share = share_of(recipe_.train.tile),
        .moves_activations = recipe_.train.offload_activations != ActivationOffload::kNone};
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
    return Mesh(mesh_degrees(recipe.parallel), static_cast<uint32_t>(request.ranks), 0);
  }

  bool averages_parameters() {
    for (size_t i = 0; i < recipe_.hooks.size(); ++i) {
      const ComponentInstance hook = factory_.create(recipe_.hooks[i], formatted("hooks/{}", i));
      if (ParameterAverageProxy::of(hook).has_value()) {
        return true;
      }
    }
    return false;
  }

  void add_groups() {
    const ModelGraph& trained = model_.trained_graph();
    plan_updates(model_, context_);
    const std::vector<uint32_t>& partition_of = model_.optimizers.partition_of;
    for (size_t i = 0; i < model_.partitions.size(); ++i) {
      const OptimizerInfo& info = model_.partitions[i].optimizer.info();
      std::vector<std::vector<int64_t>> shapes;
      for (size_t p = 0; p < trained.parameters.size(); ++p) {
        if (partition_of[p] == i && trained.parameters[p].same_as == kNoIndex) {
          shapes.push_back(trained.parameters[p].shape);
        }
      }
      result_.subject.optimizer_bytes.push_back(
          slot_bytes(info, context_.precision.stored, shapes));
      result_.subject.optimizer_slots.push_back(info.slots.size());
    }
    result_.subject.groups = group_layouts(model_);
  }

  // Finds the fields of a microbatch.
  void read_train_set() {
    PlanSubject& subject = result_.subject;
    const uint64_t seed = mix_seeds(recipe_.seed, stream_of("data"));
    train_set_.emplace(
        factory_,
        recipe_.data.train,
        "data/train",
        seed,
        false,
        StoredFields{.names = model_.models->stored_fields(), .dtype = context_.precision.exact()});
    DataSource& source = train_set_->source();
    const std::vector<FieldInfo>& schema = *source.info().schema;
    check_model_fields(subject.graph, readable_fields(schema), source.name());
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
    const bool reads_lengths =
        std::ranges::any_of(subject.graph.values, [](const ModelValue& value) {
          return value.source_kind == TENON_SOURCE_BATCH && value.source == kLengthsField;
        });
    if (reads_lengths && !find_field(schema, kLengthsField)) {
      fields->push_back({std::string(kLengthsField), at::kLong, {recipe_.data.batch_size}});
    }
    fields_ = std::move(*fields);
    fields_ = resized(positions_of(schema, fields_));
  }

  // Returns the fields of the longest part of sequences of another length.
  std::vector<PlannedField> resized(int64_t whole) {
    const std::vector<FieldInfo>& schema = *train_set_->source().info().schema;
    whole_ = whole;
    const int64_t positions = positions_of_rank(whole, 0, role_.positions().count).length;
    std::vector<PlannedField> fields = fields_;
    for (PlannedField& field : fields) {
      const auto info = std::ranges::find(schema, field.name, &FieldInfo::name);
      for (size_t d = 0; info != schema.end() && d < info->axes.size(); ++d) {
        if (info->axes[d].name == "T" && d < field.shape.size()) {
          field.shape[d] = positions;
        }
      }
    }
    return fields;
  }

  // Sets all that depends on the fields of a microbatch.
  void measure(std::vector<PlannedField> fields, bool counts_attention) {
    PlanSubject& subject = result_.subject;
    const std::vector<FieldInfo>& schema = *train_set_->source().info().schema;
    int64_t bytes = 0;
    for (const PlannedField& field : fields) {
      bytes += field.bytes();
    }
    // All microbatches of a step are held together. On CPUs, those that are read ahead and the one
    // that is being read share their memory.
    const auto ahead = static_cast<int64_t>(
        read_ahead_depth(static_cast<size_t>(recipe_.data.prefetch + subject.microbatches),
                         static_cast<size_t>(bytes)));
    subject.batch_bytes =
        bytes * (is_for_gpu(recipe_) ? subject.microbatches : subject.microbatches + ahead + 1);
    subject.exchange_bytes = exchange_bytes(subject.graph, fields);
    result_.tokens_a_sample = whole_;
    positions_ = positions_of(schema, fields);
    std::vector<bool> is_trainable(subject.graph.parameters.size(), false);
    for (const GroupLayout& group : subject.groups) {
      for (const uint32_t p : group.parameters) {
        is_trainable[p] = group.is_trainable;
      }
    }
    subject.costs =
        block_costs(model_.models->list(),
                    subject.graph,
                    {.fields = std::move(fields),
                     .num_samples = recipe_.data.batch_size,
                     .stored = context_.precision.stored,
                     .seen = context_.precision.compute,
                     .is_trainable = [&](uint32_t p) { return is_trainable[p]; },
                     .counts_attention = counts_attention && can_keep_attention(context_.exec),
                     .base = context_.exec});
    add_products(is_trainable);
    add_losses(*model_.losses);
  }

  // Products of fp32 factors on a CPU may run by Tenon's own kernels, which pack the factors.
  void add_products(const std::vector<bool>& is_trainable) {
    PlanSubject& subject = result_.subject;
    if (is_for_gpu(recipe_) || context_.precision.compute != at::kFloat ||
        context_.precision.autocast.has_value()) {
      return;
    }
    const int64_t rows = recipe_.data.batch_size * std::max<int64_t>(1, positions_);
    for (size_t b = 0; b < subject.costs.size(); ++b) {
      int64_t& bytes = subject.costs[b].product_bytes;
      for (const uint32_t p : subject.graph.blocks[b].parameters) {
        const std::vector<int64_t>& shape = subject.graph.parameters[p].shape;
        if (shape.size() == 2) {
          bytes = std::max(
              bytes,
              product_bytes(rows, shape[0], shape[1], recipe_.compute_threads, is_trainable[p]));
        }
      }
    }
  }

  // Returns the share of positions in a part of `positions`; nothing if samples have no positions.
  std::optional<double> share_of(std::optional<int64_t> positions) const {
    if (!positions.has_value() || positions_ == 0) {
      return std::nullopt;
    }
    return std::min(1.0, static_cast<double>(*positions) / static_cast<double>(positions_));
  }

  void set_chunk(std::optional<int64_t> positions) {
    result_.subject.tile_share = share_of(positions);
  }

  void find_longest() {
    const std::vector<FieldInfo>& schema = *train_set_->source().info().schema;
    if (positions_of(schema, fields_) == 0) {
      throw Error("model.no_positions",
                  "--longest: no field of " + train_set_->source().name() +
                      " has an axis T, so its samples are no sequences; remove --longest");
    }
    const TrainRecipe& train = recipe_.train;
    const std::vector<bool> given = std::exchange(result_.subject.recomputable, {});
    const std::string word = train.recompute.size() == 1 ? train.recompute.front() : "";
    const bool is_word = word == "none" || word == "blocks" || word == "selective";
    LongestOptions options;
    options.given.loss_chunk = train.loss_chunk;
    options.given.recompute = is_word ? word : "";
    options.given.tile = train.tile;
    options.given.offload_activations =
        train.offload_activations == ActivationOffload::kHost   ? "host"
        : train.offload_activations == ActivationOffload::kDisk ? "disk"
                                                                : "";
    options.can_chunk = !tail_blocks(result_.subject.graph).empty();
    options.can_tile =
        std::ranges::find(result_.subject.tileable, true) != result_.subject.tileable.end();
    measure(fields_, true);
    options.can_keep_attention = std::ranges::any_of(
        result_.subject.costs, [](const BlockCost& cost) { return cost.attention_bytes > 0; });
    options.has_host = result_.subject.has_host;
    // A longer sequence may pass the model's tables of positions, which attention checks.
    const std::vector<BlockCost> costs = result_.subject.costs;
    const int64_t measured = result_.tokens_a_sample;
    const auto plan_at = [&](int64_t positions, const LongestSettings& settings) {
      measure(resized(positions), false);
      for (size_t b = 0; b < costs.size() && settings.recompute == "selective"; ++b) {
        result_.subject.costs[b].attention_bytes = costs[b].attention_bytes / measured * positions;
      }
      set_chunk(settings.loss_chunk);
      result_.subject.recomputable = settings.recompute.empty() ? given : std::vector<bool>();
      return plan_rank(result_.subject, choice_of(settings), result_.machine);
    };
    result_.longest = longest_plans(settings_to_try(options), plan_at, *request_.memory);
    result_.subject.recomputable = given;
  }

  PlanChoice choice_of(const LongestSettings& settings) const {
    return {.replicate = role_.mesh().size(MeshDim::kReplicate),
            .shard = role_.mesh().size(MeshDim::kShard),
            .context = role_.positions().count,
            .tensor = role_.tensor().count,
            .pipeline = role_.pipeline().count,
            .stage = recipe_.parallel.stage,
            .recomputes = settings.recompute != "none",
            .offloads = recipe_.parallel.offload,
            .keeps_attention = settings.recompute == "selective",
            .block_tile_share = share_of(settings.tile),
            .moves_activations = !settings.offload_activations.empty()};
  }

  // Binds losses and metrics, and drops the blocks that neither needs.
  void choose_blocks() {
    CreatedObjective created = create_objective(context_);
    for (const NamedLoss& loss : created.losses) {
      is_hand_written_.push_back(loss.proxy.has_backward());
    }
    bind_objective(model_, std::move(created), context_);
    skip_unread_blocks(model_.graph, model_.values_read());
  }

  // Divides the model into the stages of a pipeline.
  void cut() {
    const auto schedule =
        load_pipeline(context_, static_cast<uint32_t>(result_.subject.microbatches));
    if (schedule.has_value()) {
      cut_model(
          context_, *schedule, model_.values_read(), model_.graph, model_.models->trained().graph);
      result_.subject.pipeline = {.schedule = *schedule};
    }
  }

  void add_losses(const LossSet& set) {
    PlanSubject& subject = result_.subject;
    subject.losses.clear();
    set.check_fields(readable_fields(*train_set_->source().info().schema),
                     train_set_->source().name());
    for (size_t i = 0; i < set.size(); ++i) {
      // Losses sum in fp32. CPU kernels read narrow values directly; on other devices the loss
      // makes an fp32 copy.
      int64_t wide = 0;
      const auto narrow = static_cast<int64_t>(c10::elementSize(context_.precision.compute));
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
      subject.losses.push_back({set.values_read(i), is_hand_written_[i], wide});
    }
  }

  PlanContext context() {
    const PrecisionPolicy precision = precision_policy(
        recipe_.train.precision, is_for_gpu(recipe_) ? ComputesOn::kGpu : ComputesOn::kCpu);
    ExecBase exec;
    exec.seed = recipe_.seed;
    exec.device = is_for_gpu(recipe_) ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
    exec.compute_dtype = precision.compute;
    exec.autocast_dtype = precision.autocast;
    exec.mesh = &abi_mesh_;
    exec.tensors = tensor_service();
    exec.ops = op_service();
    return {.recipe = recipe_,
            .factory = factory_,
            .role = role_,
            .precision = precision,
            .exec = exec};
  }

  const std::unique_ptr<ComputeSettings> settings_;
  const Recipe& recipe_;
  const PlanRequest& request_;
  RankRole role_;
  tenon_mesh abi_mesh_;
  ComponentFactory factory_;
  const PlanContext context_;
  ModelPlan model_;
  std::vector<bool> is_hand_written_;  // by loss
  std::optional<RunDataset> train_set_;
  std::vector<PlannedField> fields_;  // of a microbatch, as the recipe has them
  int64_t whole_ = 0;                 // positions of a sequence
  int64_t positions_ = 0;             // those that a rank computes
  RecipePlan result_;
};

}  // namespace

RecipePlan plan_recipe(const Recipe& recipe,
                       PluginRegistry& registry,
                       Process& process,
                       const PlanRequest& request) {
  const MemoryLimit limit;  // for plugins that allocate a model to describe it
  return Planning(recipe, registry, process, request).plan();
}

}  // namespace tenon
