// SPDX-License-Identifier: Apache-2.0
//
// Which of several kernels computes an operator. An operator asks once per class of shapes. The
// answer is that of the recipe (`kernels`), else one that was measured before, else it is measured
// now: a few milliseconds, before the operator computes anything.
//
// Invariant: within a process, one question has one answer. Kernels differ in their last bits, so
// the answers are part of a run: `saved` and `restore` carry them between processes.
#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace tenon {

// One decision. Sizes are those of the class, not of one call.
struct KernelQuestion {
  std::string_view op;  // "linear.forward"; its first part is the operator's name
  at::ScalarType dtype = at::kFloat;
  std::array<int64_t, 3> sizes = {0, 0, 0};
  std::span<const std::string_view> candidates;  // the default first; lives as long as the process
};

// The class of a size: the next power of two, at most `largest`.
int64_t size_class(int64_t size, int64_t largest);

// How the recipe answers.
struct KernelPolicy {
  // "auto": measure. "plain": only libtorch's operators.
  enum class Mode { kAuto, kPlain };
  Mode mode = Mode::kAuto;
  // Candidates by operator name, for example {"linear", "onednn"}. They win over `mode`.
  std::map<std::string, std::string, std::less<>> forced;
};

// Answers by question, in text: "linear.forward f32 256x512x128 2 threads" and "onednn".
using KernelAnswers = std::map<std::string, std::string>;

// Sets the policy of the process and forgets all answers.
//
// Threads  [main], while no operator runs
void set_kernel_policy(KernelPolicy policy);
const KernelPolicy& kernel_policy();

// Whether `op` ("attention") runs libtorch's operators only, by the policy.
bool is_plain(std::string_view op);

// Returns the index of the candidate that answers `question`. `run(i)` computes candidate i once,
// on data of the question's sizes; it is called only to measure.
//
// Threads  any; concurrent questions are answered one after the other
size_t choose_kernel(const KernelQuestion& question, const std::function<void(size_t)>& run);

// The answers of this process, and answers for it. A restored answer is used if its kernel is a
// candidate; others are kept and saved again. Answers given already stay.
//
// Threads  any
KernelAnswers kernel_answers();
void restore_kernel_answers(const KernelAnswers& answers);

// Called under a lock with each answer that was measured, so that it can be kept. The function may
// return another answer to use instead, for example one that another process kept first.
using KeepKernelAnswer = std::function<std::string(const std::string& question,
                                                   const std::function<std::string()>& measure)>;
// Sets the function; null keeps nothing. Returns the one from before.
//
// Threads  [main], while no operator runs
KeepKernelAnswer set_kernel_answer_keeper(KeepKernelAnswer keeper);

}  // namespace tenon
