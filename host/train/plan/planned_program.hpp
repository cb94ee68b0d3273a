// SPDX-License-Identifier: Apache-2.0
//
// The programs of planned training passes.
// Threads: any, one at a time.
#pragma once

#include "host/model/program.hpp"
#include "host/train/plan/plan_subject.hpp"
#include "host/train/plan/planned_pass.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace tenon {

// Compiles a program once for all choices that have the same one, such as meshes that differ in the
// number of slices only.
class PlannedPrograms {
 public:
  // `subject` is borrowed, and must not change.
  explicit PlannedPrograms(const PlanSubject& subject);

  const GraphFacts& facts() const { return facts_; }
  // Returns the programs of a training pass by stage: one without a pipeline; null for the stages
  // of other ranks. The pointers stay valid.
  std::vector<const Program*> of(const PlanChoice& choice);
  // Returns a pass with these programs. All arguments are borrowed.
  PlannedPass pass(const PlanChoice& choice, const std::vector<PlannedGroup>& groups) {
    return {.subject = subject_,
            .choice = choice,
            .facts = facts_,
            .programs = of(choice),
            .groups = groups};
  }

 private:
  Program compile(const PlanChoice& choice, uint32_t stage) const;
  uint32_t key_of(const PlanChoice& choice) const;

  const PlanSubject& subject_;
  const GraphFacts facts_;
  std::map<std::pair<uint32_t, uint32_t>, Program> programs_;  // by choice and stage
};

// Returns the values that losses and metrics read.
std::vector<uint32_t> read_values(const PlanSubject& subject);

}  // namespace tenon
