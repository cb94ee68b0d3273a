// SPDX-License-Identifier: Apache-2.0
//
// Shared by the sparse optimizers: options for gradients and narrow values, the checks of a call,
// and the choice of the kernel: CUDA, or one compiled by tenon/simd/each_machine.hpp, by machine
// and row width.
#pragma once

#include <tenon/cpp/options.hpp>
#include <tenon/cpp/sparse_optimizer.hpp>
#include <tenon/simd/machine.hpp>

#include <cstdint>
#include <vector>

#include "row_settings.hpp"

// Base of an optimizer's options.
struct RowOptions {
  enum class Occurrences { kSum, kMean };
  enum class Narrow { kRandom, kMaster };

  double lr = 1e-2;  // owned by the host, which passes it to each update
  Occurrences occurrences = Occurrences::kSum;
  Narrow narrow = Narrow::kRandom;
};

// Binds `lr`, which comes first.
template <class O>
void bind_row_rate(tenon::OptionBinder<O>& binder) {
  binder.field("lr", &O::lr).min(0).doc("learning rate, multiplied by the schedule");
}

// Binds `weight_decay` as L2 regularization.
template <class O>
void bind_row_l2_decay(tenon::OptionBinder<O>& binder) {
  binder.field("weight_decay", &O::weight_decay)
      .min(0)
      .doc("L2 regularization: adds weight_decay * value to the gradient of updated rows");
}

// Binds `betas` with the description `doc`.
template <class O>
void bind_row_betas(tenon::OptionBinder<O>& binder, const char* doc) {
  binder.field("betas", &O::betas).min(0).exclusive_max(1).min_items(2).max_items(2).doc(doc);
}

// Binds the remaining options, which come last.
template <class O>
void bind_row_options(tenon::OptionBinder<O>& binder) {
  binder
      .choice("occurrences",
              &O::occurrences,
              {{"sum", RowOptions::Occurrences::kSum}, {"mean", RowOptions::Occurrences::kMean}})
      .doc("how gradients of an id that occurs several times in a step are combined");
  binder
      .choice("narrow",
              &O::narrow,
              {{"random", RowOptions::Narrow::kRandom}, {"master", RowOptions::Narrow::kMaster}})
      .doc(
          "rounding of values narrower than fp32: stochastic (random), or with an fp32 master "
          "copy");
}

template <class Settings>
using RowKernel = void (*)(const RowsCall&, const Settings&, float* buffer, uint32_t* words);

// The kernels of one formula, per instruction set.
template <class Settings>
struct RowKernels {
  RowKernel<Settings> basic;
  RowKernel<Settings> avx2;
  RowKernel<Settings> avx512;

  // The widest vectors that rows of `dim` elements fill, so all calls for a table use the same
  // kernel.
  RowKernel<Settings> of(uint32_t dim) const {
    const Machine machine = this_machine();
    if (machine == Machine::kAvx512 && (dim % 16 == 0 || dim > 64)) {
      return avx512;
    }
    if (machine != Machine::kBasic && (dim % 8 == 0 || dim > 16)) {
      return avx2;
    }
    return basic;
  }
};

// RowKernels of a formula; use after tenon/simd/each_machine.hpp.
#if TENON_SIMD_X86
#define ROW_KERNELS(Formula)                                                                    \
  RowKernels<simd_basic::Formula::Settings> {                                                   \
    &simd_basic::update_rows<simd_basic::Formula>, &simd_avx2::update_rows<simd_avx2::Formula>, \
        &simd_avx512::update_rows<simd_avx512::Formula>                                         \
  }
#else
#define ROW_KERNELS(Formula)                                                                      \
  RowKernels<simd_basic::Formula::Settings> {                                                     \
    &simd_basic::update_rows<simd_basic::Formula>, &simd_basic::update_rows<simd_basic::Formula>, \
        &simd_basic::update_rows<simd_basic::Formula>                                             \
  }
#endif

class RowOptimizer : public tenon::AnySparseOptimizer {
 protected:
  explicit RowOptimizer(const RowOptions& options) : common_(options) {}

  void describe_rows(tenon::SparseOptimizerInfo& info) const {
    info.narrow(common_.narrow == RowOptions::Narrow::kMaster ? TENON_NARROW_MASTER
                                                              : TENON_NARROW_STOCHASTIC);
#ifdef ROWS_ON_CUDA
    info.device(TENON_CUDA);
#endif
  }

  // Runs one update. `on_cuda` returns an error message or null; the pointer is null without CUDA.
  template <class Settings>
  void run(const tenon::Exec& exec,
           const tenon_sparse_update_args& args,
           const Settings& settings,
           const RowKernels<Settings>& kernels,
           const char* (*on_cuda)(const RowsCall&, const Settings&, void* stream)) const {
    const RowsCall call = call_of(args);
    if (exec.device().type == TENON_CUDA && on_cuda != nullptr) {
      const char* const problem = on_cuda(call, settings, exec.get()->stream);
      TENON_CHECK(problem == nullptr, "CUDA: ", problem);
      return;
    }
    TENON_CHECK(exec.device().type == TENON_CPU, "this build supports row updates on CPUs only");
    if (call.n == 0 || (call.found_inf != nullptr && *call.found_inf == 1.0f)) {
      return;
    }
    std::vector<float> buffer;
    std::vector<uint32_t> words;
    if (call.value != RowValue::kF32 && call.master_offset < 0) {
      buffer.resize(call.dim);
      words.resize(call.dim + 2 * 16);  // kernels draw pairs for up to 16 lanes
    }
    kernels.of(call.dim)(call, settings, buffer.data(), words.data());
  }

 private:
  RowsCall call_of(const tenon_sparse_update_args& args) const {
    const tenon_row_layout& layout = *args.layout;
    RowsCall call;
    switch (layout.value_dtype) {
      case TENON_F32:
        call.value = RowValue::kF32;
        break;
      case TENON_BF16:
        call.value = RowValue::kBf16;
        break;
      case TENON_F16:
        call.value = RowValue::kF16;
        break;
      default:
        TENON_FAIL(TENON_UNSUPPORTED,
                   "value_dtype",
                   "values are ",
                   tenon::dtype_name(layout.value_dtype),
                   "; they must be f32, bf16 or f16");
    }
    TENON_CHECK(layout.num_slots <= kMaxRowSlots, "rows have ", layout.num_slots, " slots");
    call.blocks = layout.blocks;
    call.stride = layout.stride;
    call.shift = layout.shift;
    call.dim = layout.dim;
    call.value_offset = layout.value_offset;
    call.master_offset = call.value == RowValue::kF32 ? -1 : layout.master_offset;
    for (uint32_t s = 0; s < layout.num_slots; ++s) {
      call.slot_offsets[s] = layout.slot_offsets[s];
    }
    call.n = args.n;
    call.rows_R = args.rows;
    call.ids_R = args.ids;
    call.grads_RD = args.grads;
    call.counts_R = common_.occurrences == RowOptions::Occurrences::kMean ? args.counts : nullptr;
    call.step = args.step;
    call.lr = args.lr;
    call.found_inf = args.found_inf;
    call.seed = args.seed;
    return call;
  }

  RowOptions common_;
};

// update_rows_on_cuda of the plugin's .cu file; null if built without CUDA's compiler.
#ifdef ROWS_ON_CUDA
#define ROW_CUDA_KERNEL(Settings)                                                                \
  const char* update_rows_on_cuda(const RowsCall& call, const Settings& settings, void* stream); \
  constexpr auto kRowCudaKernel = &update_rows_on_cuda
#else
#define ROW_CUDA_KERNEL(Settings) \
  constexpr const char* (*kRowCudaKernel)(const RowsCall&, const Settings&, void*) = nullptr
#endif
