// SPDX-License-Identifier: Apache-2.0
//
// Lets the host continue a text with a model, one step at a time, with caches of earlier positions.
// A model derives from Generation in addition to its kind, and returns GenerationCalls<T>::find(id)
// from `extension`. Models on libtorch derive from GeneratingModel (tenon/torch/generation.hpp).
// <tenon/draft/generation.h> defines the contract.
#ifndef TENON_CPP_GENERATION_HPP
#define TENON_CPP_GENERATION_HPP

#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/model.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/draft/generation.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* What a model declares about its generation. */
struct GenerationInfo {
  std::string ids = "input_ids"; /* name of the value that holds token ids, i64 [B, T] */
  std::string logits = "logits"; /* name of the value that holds logits, [B, T, V] */
  int64_t max_positions = 0;     /* largest number of positions of a sequence */
  /* Block of each cache. A block receives its caches in this order. */
  std::vector<uint32_t> cache_blocks = {};
};

/* Base class of models that generate; derive from it in addition to a kind. */
class Generation {
 public:
  virtual ~Generation() = default;
  /* Describes values and caches.
   *
   * Errors   TENON_UNSUPPORTED, with the reason, if options of the model exclude it
   * Threads  [main], after `on_describe` */
  virtual GenerationInfo describe_generation() = 0;
  /* Runs one block on new positions and stores new handles in args.outputs_own and
   * args.next_caches_own. The result equals the forward on the whole sequence, at these positions.
   *
   * Errors   TENON_INVALID for shapes it cannot process or too many positions
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the results */
  virtual void on_step(const Exec& exec, tenon_generation_args& args) = 0;

 private:
  template <class T>
  friend struct GenerationCalls;

  GenerationInfo info_; /* strings and array of the last description */
};

/* The ABI table of a class. `self` is that of the kind's tables. */
template <class T>
struct GenerationCalls {
  static T& of(void* self) {
    TENON_CHECK(self != nullptr, "self is null");
    return *static_cast<T*>(static_cast<typename T::Kind*>(self));
  }
  static const tenon_host* host(void* self) noexcept {
    return self == nullptr ? PluginHost::get() : static_cast<typename T::Kind*>(self)->host().get();
  }
  static tenon_status* describe(void* self, tenon_generation_info* out) noexcept {
    return guard(host(self), [&] {
      TENON_CHECK(out != nullptr, "out is null");
      Generation& generation = of(self);
      generation.info_ = generation.describe_generation();
      const GenerationInfo& info = generation.info_;
      out->ids_ref = info.ids.c_str();
      out->logits_ref = info.logits.c_str();
      out->max_positions = info.max_positions;
      out->cache_blocks_ref = info.cache_blocks.data();
      out->num_caches = info.cache_blocks.size();
    });
  }
  static tenon_status* step(void* self,
                            const tenon_exec* exec,
                            tenon_generation_args* args) noexcept {
    return guard(host(self), [&] {
      T& instance = of(self);
      TENON_CHECK(args != nullptr, "the arguments of step are null");
      instance.on_step(Exec(instance.host(), exec), *args);
    });
  }
  /* Returns the table if `id` is TENON_GENERATION_ID, otherwise null. */
  static const void* find(const char* id) {
    static const tenon_generation calls{sizeof(tenon_generation), describe, step};
    return std::strcmp(id, TENON_GENERATION_ID) == 0 ? &calls : nullptr;
  }
};

TENON_NAMESPACE_END

#endif
