// SPDX-License-Identifier: Apache-2.0
#include "host/tools/plan/program_table.hpp"

#include "host/model/program_text.hpp"
#include "host/text/byte_size.hpp"
#include "host/text/formatted.hpp"
#include "host/train/plan/planned_memory.hpp"
#include "host/train/plan/planned_pipeline.hpp"
#include "host/train/plan/planned_traffic.hpp"

#include <map>
#include <vector>

namespace tenon {
namespace {

// The programs of a rank, one for each of its stages. `memory` is that of the rank.
std::string programs_of_rank(const PlanSubject& subject,
                             const PlanChoice& choice,
                             const PlanMemory& memory) {
  PlannedPrograms programs(subject);
  const std::vector<PlannedGroup> groups = planned_groups(subject, choice, programs.facts());
  const PlannedPass pass = programs.pass(choice, groups);
  ProgramNames names{.graph = subject.graph, .groups = {}};
  for (const GroupLayout& layout : subject.groups) {
    names.groups.push_back(layout.name);
  }
  const int64_t always = memory.sum() - memory.activations - memory.gathered - memory.rounding;
  std::map<const Instruction*, int64_t> held;
  planned_peak(pass, [&](const Instruction& instruction, int64_t bytes) {
    held[&instruction] = always + bytes;
  });
  std::string text;
  for (const Program* const program : pass.programs) {
    if (program == nullptr) {
      continue;
    }
    if (pass.programs.size() > 1) {
      text += formatted(
          "stage {}, on rank {} of the pipeline\n", program->stage(), subject.pipeline_rank());
    }
    const auto complete = [&](const Instruction& instruction, ProgramRow& row) {
      if (const auto found = held.find(&instruction); found != held.end()) {
        row.held = byte_size(static_cast<uint64_t>(found->second));
      }
      if (const int64_t sent = sent_by(pass, *program, instruction, true).sum(); sent > 0) {
        row.sent = "sends " + byte_size(static_cast<uint64_t>(sent));
      }
    };
    text += text_of(*program, names, complete);
  }
  return text;
}

}  // namespace

std::string program_table(const RecipePlan& plan) {
  const PlanSubject& subject = plan.subject;
  const PlanChoice& choice = plan.plan.choice;
  const std::string mesh =
      formatted("ranks {}, replicate {}, shard {}{}, stage {}",
                plan.request.ranks,
                choice.replicate,
                choice.shard,
                choice.pipeline > 1 ? formatted(", pipeline {}", choice.pipeline) : "",
                choice.stage);
  std::string text = plan.recipe + ": what each rank runs for a microbatch (" + mesh + ")\n";
  if (!subject.pipeline.has_value()) {
    return text + programs_of_rank(subject, choice, plan.plan.memory);
  }
  for (uint32_t rank = 0; rank < plan.plan.pipeline.size(); ++rank) {
    text += programs_of_rank(seen_by(subject, rank), choice, plan.plan.pipeline[rank].memory);
  }
  return text;
}

}  // namespace tenon
