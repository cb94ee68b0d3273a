// SPDX-License-Identifier: Apache-2.0
#include "host/tools/plan/program_table.hpp"

#include "host/model/program_text.hpp"
#include "host/text/byte_size.hpp"
#include "host/text/formatted.hpp"
#include "host/train/plan/planned_memory.hpp"
#include "host/train/plan/planned_traffic.hpp"

#include <map>
#include <vector>

namespace tenon {

std::string program_table(const RecipePlan& plan) {
  const PlanSubject& subject = plan.subject;
  const PlanChoice& choice = plan.plan.choice;
  PlannedPrograms programs(subject);
  const std::vector<PlannedGroup> groups = planned_groups(subject, choice, programs.facts());
  const PlannedPass pass{.subject = subject,
                         .choice = choice,
                         .facts = programs.facts(),
                         .program = programs.of(choice),
                         .groups = groups};
  ProgramNames names{.graph = subject.graph, .groups = {}};
  for (const GroupLayout& layout : subject.groups) {
    names.groups.push_back(layout.name);
  }
  const PlanMemory& memory = plan.plan.memory;
  const int64_t always = memory.sum() - memory.activations - memory.gathered - memory.rounding;
  std::map<const Instruction*, int64_t> held;
  planned_peak(pass, [&](const Instruction& instruction, int64_t bytes) {
    held[&instruction] = always + bytes;
  });
  const auto complete = [&](const Instruction& instruction, ProgramRow& row) {
    if (const auto found = held.find(&instruction); found != held.end()) {
      row.held = byte_size(static_cast<uint64_t>(found->second));
    }
    if (const int64_t sent = sent_by(pass, instruction, true).sum(); sent > 0) {
      row.sent = "sends " + byte_size(static_cast<uint64_t>(sent));
    }
  };
  const std::string mesh = formatted("ranks {}, replicate {}, shard {}, stage {}",
                                     plan.request.ranks,
                                     choice.replicate,
                                     choice.shard,
                                     choice.stage);
  return plan.recipe + ": what each rank runs for a microbatch (" + mesh + ")\n" +
         text_of(pass.program, names, complete);
}

}  // namespace tenon
