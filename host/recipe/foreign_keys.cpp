// SPDX-License-Identifier: Apache-2.0
#include "host/recipe/foreign_keys.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace tenon {
namespace {

struct ForeignKey {
  std::string_view key;
  std::string_view here;
};

// Of the Hugging Face Trainer and TRL, Lightning, DeepSpeed, Megatron and others, by name.
constexpr auto kForeignKeys = std::to_array<ForeignKey>({
    {"accumulate_grad_batches", R"("train.gradient_accumulation")"},
    {"adam_beta1", R"("optimizer.options.betas")"},
    {"adam_beta2", R"("optimizer.options.betas")"},
    {"adam_epsilon", R"("optimizer.options.eps")"},
    {"batch_size", R"("data.batch_size")"},
    {"bf16", R"("train.precision": "bf16_autocast")"},
    {"check_val_every_n_epoch", R"("eval.every_epochs")"},
    {"clip_grad", R"("train.clip_grad_norm")"},
    {"dataloader_drop_last", R"("data.last": "drop")"},
    {"dataloader_num_workers", R"("data.loader_threads")"},
    {"default_root_dir", "the option --run-dir"},
    {"devices", "the option --launch"},
    {"drop_last", R"("data.last": "drop")"},
    {"early_stopping", "the hook \"early_stop\""},
    {"early_stopping_patience", "the option \"patience\" of the hook \"early_stop\""},
    {"epochs", R"("train.epochs")"},
    {"eval_interval", R"("eval.every_steps")"},
    {"eval_steps", R"("eval.every_steps")"},
    {"eval_strategy", R"("eval.every_steps" or "eval.every_epochs")"},
    {"evaluation_strategy", R"("eval.every_steps" or "eval.every_epochs")"},
    {"every_n_steps", "\"every_steps\""},
    {"every_n_train_steps", R"("checkpoint.every_steps")"},
    {"fp16", R"("train.precision": "fp16_autocast")"},
    {"global_batch_size", R"("train.global_batch_size")"},
    {"gradient_accumulation_steps", R"("train.gradient_accumulation")"},
    {"gradient_checkpointing", R"("train.recompute": "blocks")"},
    {"gradient_clip_val", R"("train.clip_grad_norm")"},
    {"gradient_clipping", R"("train.clip_grad_norm")"},
    {"learning_rate", R"("optimizer.options.lr")"},
    {"load_best_model_at_end", R"("eval.keep_best")"},
    {"log_every_n_steps", R"("train.log_every")"},
    {"logger", R"("sinks")"},
    {"logging", R"("sinks" and "train.log_every")"},
    {"logging_dir", "the option --run-dir"},
    {"logging_steps", R"("train.log_every")"},
    {"lr", R"("optimizer.options.lr")"},
    {"lr_scheduler_type", R"("lr_scheduler.type")"},
    {"max_epochs", R"("train.epochs")"},
    {"max_grad_norm", R"("train.clip_grad_norm")"},
    {"max_iters", R"("train.steps")"},
    {"max_steps", R"("train.steps")"},
    {"max_time", R"("train.minutes")"},
    {"metric_for_best_model", R"("eval.keep_best.metric")"},
    {"micro_batch_size", R"("data.batch_size")"},
    {"monitor", R"("eval.keep_best.metric")"},
    {"num_epochs", R"("train.epochs")"},
    {"num_train_epochs", R"("train.epochs")"},
    {"num_train_steps", R"("train.steps")"},
    {"num_warmup_steps", "\"lr_scheduler.options.warmup_steps\""},
    {"num_workers", R"("data.loader_threads")"},
    {"output_dir", "the option --run-dir"},
    {"patience", "the option \"patience\" of the hook \"early_stop\""},
    {"per_device_eval_batch_size", R"("data.batch_size")"},
    {"per_device_train_batch_size", R"("data.batch_size")"},
    {"report_to", R"("sinks")"},
    {"resume", "the option --resume"},
    {"resume_from_checkpoint", "the option --resume"},
    {"save_interval", R"("checkpoint.every_steps")"},
    {"save_steps", R"("checkpoint.every_steps")"},
    {"save_strategy", R"("checkpoint.every_steps" or "checkpoint.every_epochs")"},
    {"save_top_k", R"("checkpoint.keep_best.count")"},
    {"save_total_limit", R"("checkpoint.keep_last")"},
    {"steps", R"("train.steps")"},
    {"total_steps", R"("train.total_steps")"},
    {"train_batch_size", R"("train.global_batch_size")"},
    {"train_iters", R"("train.steps")"},
    {"train_micro_batch_size_per_gpu", R"("data.batch_size")"},
    {"val_check_interval", R"("eval.every_steps")"},
    {"wandb", R"("sinks")"},
    {"warmup_ratio", "\"lr_scheduler.options.warmup_steps\""},
    {"warmup_steps", "\"lr_scheduler.options.warmup_steps\""},
    {"weight_decay", R"("optimizer.options.weight_decay")"},
});

static_assert(std::ranges::is_sorted(kForeignKeys, {}, &ForeignKey::key), "sort the keys");

}  // namespace

std::string_view key_for_foreign(std::string_view key) {
  const auto* const found = std::ranges::lower_bound(kForeignKeys, key, {}, &ForeignKey::key);
  return found != kForeignKeys.end() && found->key == key ? found->here : "";
}

void point_to_own_keys(ProblemList& problems) {
  for (Problem& problem : problems.editable()) {
    if (problem.id != "recipe.unknown_key" || !problem.note.empty()) {
      continue;
    }
    const std::string_view key =
        std::string_view(problem.pointer).substr(problem.pointer.rfind('/') + 1);
    if (const std::string_view here = key_for_foreign(key); !here.empty()) {
      problem.note = "what other trainers call " + std::string(key) + " is " + std::string(here);
    }
  }
}

}  // namespace tenon
