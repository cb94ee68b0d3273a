// SPDX-License-Identifier: Apache-2.0
//
// The programs of planned training passes.
// Threads: any, one at a time.
#pragma once

#include "host/model/program.hpp"
#include "host/train/plan/plan_subject.hpp"

#include <cstdint>
#include <map>

namespace tenon {

// Compiles a program once for all choices that have the same one, such as meshes that differ in the
// number of slices only.
class PlannedPrograms {
 public:
  // `subject` is borrowed, and must not change.
  explicit PlannedPrograms(const PlanSubject& subject);

  const GraphFacts& facts() const { return facts_; }
  // Returns the program of a training pass. The reference stays valid.
  const Program& of(const PlanChoice& choice);

 private:
  Program compile(const PlanChoice& choice) const;
  uint32_t key_of(const PlanChoice& choice) const;

  const PlanSubject& subject_;
  const GraphFacts facts_;
  std::map<uint32_t, Program> programs_;
};

}  // namespace tenon
