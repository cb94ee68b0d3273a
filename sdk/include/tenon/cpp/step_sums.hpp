// SPDX-License-Identifier: Apache-2.0
//
// Sums over the microbatches and ranks of a step, as an ability of a model.
// <tenon/draft/step_sums.h> defines the contract. TorchModel and ModuleModel have it: declare sums
// with their graphs.
#ifndef TENON_CPP_STEP_SUMS_HPP
#define TENON_CPP_STEP_SUMS_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/draft/step_sums.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* What a model sums over a step. */
struct StepSumsInfo {
  std::vector<uint32_t> buffers;        /* summed buffers */
  std::vector<uint32_t> balance_blocks; /* of each balance loss */
  std::vector<int64_t> balance_experts; /* of each balance loss */
  bool is_empty() const { return buffers.empty() && balance_blocks.empty(); }
};

/* Whether T has `on_end_step`. */
template <class T, class = void>
struct HasEndStep : std::false_type {};
template <class T>
struct HasEndStep<T,
                  std::void_t<decltype(std::declval<T&>().on_end_step(
                      std::declval<const Exec&>(), std::declval<tenon_end_step_args&>()))>>
    : std::true_type {};

/* The ABI table of class T, which derives from Model and has
 *
 *     const StepSumsInfo& step_sums() const;                          // lives as long as T
 *     void on_end_step(const Exec& exec, tenon_end_step_args& args);  // optional */
template <class T>
struct StepSumsCalls {
  using Kind = typename T::Kind;

  static tenon_status* describe(void* self, tenon_step_sums_info* out) noexcept {
    return call_on<Kind>(self, [&](Kind& kind) {
      TENON_CHECK(out != nullptr, "out is null");
      const StepSumsInfo& info = static_cast<T&>(kind).step_sums();
      out->buffers_ref = info.buffers.data();
      out->num_buffers = info.buffers.size();
      out->balance_blocks_ref = info.balance_blocks.data();
      out->balance_experts_ref = info.balance_experts.data();
      out->num_balances = info.balance_blocks.size();
    });
  }
  static tenon_status* end_step(void* self,
                                const tenon_exec* exec,
                                tenon_end_step_args* args) noexcept {
    return call_on<Kind>(self, [&](Kind& kind) {
      TENON_CHECK(args != nullptr, "the arguments of end_step are null");
      static_cast<T&>(kind).on_end_step(Exec(kind.host(), exec), *args);
    });
  }
  /* Returns the table if `id` is TENON_STEP_SUMS_ID, otherwise null. */
  static const void* find(const char* id) {
    static const tenon_step_sums calls = table();
    return std::strcmp(id, TENON_STEP_SUMS_ID) == 0 ? &calls : nullptr;
  }

 private:
  static tenon_step_sums table() {
    if constexpr (HasEndStep<T>::value) {
      return {sizeof(tenon_step_sums), describe, end_step};
    } else {
      return {sizeof(tenon_step_sums), describe, nullptr};
    }
  }
};

TENON_NAMESPACE_END

#endif
