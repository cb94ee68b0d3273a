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
#include <vector>

TENON_NAMESPACE_BEGIN

/* What a model sums over a step. */
struct StepSumsInfo {
  std::vector<uint32_t> buffers;        /* summed buffers */
  std::vector<uint32_t> balance_blocks; /* of each balance loss */
  std::vector<int64_t> balance_experts; /* of each balance loss */
  bool is_empty() const { return buffers.empty() && balance_blocks.empty(); }
};

/* The ABI table of class T, which derives from Model and has
 *
 *     const StepSumsInfo& step_sums() const;                          // lives as long as T
 *     void on_end_step(const Exec& exec, tenon_end_step_args& args); */
template <class T>
struct StepSumsCalls {
  static tenon_status* describe(void* self, tenon_step_sums_info* out) noexcept {
    return guard(host_of<typename T::Kind>(self), [&] {
      TENON_CHECK(out != nullptr, "out is null");
      const StepSumsInfo& info = of(self).step_sums();
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
    return guard(host_of<typename T::Kind>(self), [&] {
      TENON_CHECK(args != nullptr, "the arguments of end_step are null");
      T& model = of(self);
      model.on_end_step(Exec(model.host(), exec), *args);
    });
  }
  /* Returns the table if `id` is TENON_STEP_SUMS_ID, otherwise null. */
  static const void* find(const char* id) {
    static const tenon_step_sums calls{sizeof(tenon_step_sums), describe, end_step};
    return std::strcmp(id, TENON_STEP_SUMS_ID) == 0 ? &calls : nullptr;
  }

 private:
  static T& of(void* self) { return static_cast<T&>(instance<typename T::Kind>(self)); }
};

TENON_NAMESPACE_END

#endif
