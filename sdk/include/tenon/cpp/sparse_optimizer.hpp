// SPDX-License-Identifier: Apache-2.0
//
// Optimizers for the rows of embedding tables. The options must include a number "lr"; each update
// receives the scheduled learning rate. Derive from AnySparseOptimizer to run on a GPU, or if
// SparseRow is too slow. <tenon/draft/sparse_optimizer.h> defines the contract.
#ifndef TENON_CPP_SPARSE_OPTIMIZER_HPP
#define TENON_CPP_SPARSE_OPTIMIZER_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/draft/sparse_optimizer.h>
#include <tenon/tensor.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Describes a sparse optimizer; the calls chain. */
class SparseOptimizerInfo {
 public:
  /* Sets the support for values narrower than fp32, TENON_NARROW_*; the default is none. */
  SparseOptimizerInfo& narrow(uint32_t what) {
    narrow_ = what;
    return *this;
  }
  /* Adds a device type, TENON_CPU or TENON_CUDA. The CPU is always included. */
  SparseOptimizerInfo& device(uint32_t type) {
    devices_ |= 1u << type;
    return *this;
  }
  /* Declares a slot with one value per element of the row. Slots are numbered in declaration order,
   * from 0. */
  SparseOptimizerInfo& slot(std::string name, uint32_t dtype = TENON_F32, double init = 0.0) {
    return add(std::move(name), TENON_ROW_SLOT_LIKE_VALUE, dtype, init);
  }
  /* Declares a slot with one value per row. */
  SparseOptimizerInfo& scalar_slot(std::string name,
                                   uint32_t dtype = TENON_F32,
                                   double init = 0.0) {
    return add(std::move(name), TENON_ROW_SLOT_SCALAR, dtype, init);
  }
  uint32_t narrow() const { return narrow_; }
  size_t num_slots() const { return slots_.size(); }
  /* Fills the ABI struct. For the wrapper only. */
  void write(tenon_sparse_optimizer_info& out) const {
    out.narrow = narrow_;
    out.devices = devices_;
    out.slots_ref = slots_.data();
    out.num_slots = slots_.size();
  }

 private:
  SparseOptimizerInfo& add(std::string name, uint32_t shape, uint32_t dtype, double init) {
    names_.push_back(std::move(name));
    slots_.push_back({sizeof(tenon_row_slot_spec), names_.back().c_str(), shape, dtype, init});
    return *this;
  }

  uint32_t narrow_ = TENON_NARROW_REFUSED;
  uint32_t devices_ = 1u << TENON_CPU;
  std::deque<std::string> names_;
  std::vector<tenon_row_slot_spec> slots_;
};

/* Base of all sparse optimizers, called through the ABI table. */
class AnySparseOptimizer : public Component {
 public:
  using Kind = AnySparseOptimizer;
  static constexpr const char* kKind = "sparse_optimizer";
  static constexpr const char* kInterfaceId = TENON_SPARSE_OPTIMIZER_ID;

  /* Describes row state, narrow dtypes and devices.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], once, before any other call */
  virtual void describe(SparseOptimizerInfo& info) = 0;

  /* Applies an update in terms of the ABI. The implementation must check found_inf.
   *
   * Errors   TENON_UNSUPPORTED for a value dtype that it did not declare
   * Threads  [worker]: several calls concurrently, on disjoint rows
   * Owner    all arguments are borrowed until return; on a device, until the queued work is done */
  virtual void call_update(const Exec&, const tenon_sparse_update_args&) = 0;

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_sparse_optimizer calls{
        sizeof(tenon_sparse_optimizer), on_describe, on_update};
    return &calls;
  }

 protected:
  const SparseOptimizerInfo& info() const { return *info_; }

 private:
  static tenon_status* on_describe(void* self, tenon_sparse_optimizer_info* out) noexcept {
    return call_on<AnySparseOptimizer>(self, [&](AnySparseOptimizer& optimizer) {
      TENON_CHECK(out != nullptr, "out is null");
      optimizer.info_ = std::make_unique<SparseOptimizerInfo>();
      optimizer.describe(*optimizer.info_);
      optimizer.info_->write(*out);
    });
  }
  static tenon_status* on_update(void* self,
                                 const tenon_exec* exec,
                                 const tenon_sparse_update_args* args) noexcept {
    return call_on<AnySparseOptimizer>(self, [&](AnySparseOptimizer& optimizer) {
      TENON_CHECK(args != nullptr && args->layout != nullptr, "the arguments of update are null");
      TENON_CHECK(optimizer.info_ != nullptr, "update is called before describe");
      TENON_CHECK(args->layout->num_slots == optimizer.info_->num_slots(),
                  "rows have ",
                  args->layout->num_slots,
                  " slots (expected ",
                  optimizer.info_->num_slots(),
                  ", as declared)");
      optimizer.call_update(Exec(optimizer.host(), exec), *args);
    });
  }

  std::unique_ptr<SparseOptimizerInfo> info_;
};

/* One row of an update, in CPU memory.
 *
 * Owner    borrowed until `update` returns */
class SparseRow {
 public:
  SparseRow(const Host& host, const tenon_sparse_update_args& args, uint32_t narrow, size_t i)
      : host_(&host), args_(&args), layout_(args.layout), narrow_(narrow), i_(i) {}

  int64_t id() const { return args_->ids[i_]; }
  /* Occurrences of the id in the step, over all ranks. */
  int64_t count() const { return args_->counts[i_]; }
  /* [dim] Sum of the gradients over these occurrences. */
  const float* grad() const { return args_->grads + i_ * layout_->dim; }
  /* Slot `s`, in declaration order: [dim], or one value. T must match its dtype.
   *
   * Errors   TENON_INVALID if there is no such slot */
  template <class T = float>
  T* slot(size_t s) const {
    TENON_CHECK(s < layout_->num_slots,
                "slot index ",
                s,
                " is out of range (a row has ",
                layout_->num_slots,
                " slots)");
    return static_cast<T*>(field(layout_->slot_offsets[s]));
  }

  /* Reads the value of the row, or its fp32 master if there is one.
   *
   * Shapes   out [dim] */
  void read_value(float* out) const {
    const size_t dim = layout_->dim;
    if (layout_->value_dtype == TENON_F32) {
      std::memcpy(out, field(layout_->value_offset), dim * sizeof(float));
    } else if (layout_->master_offset >= 0) {
      std::memcpy(out, field(layout_->master_offset), dim * sizeof(float));
    } else {
      const auto* value = static_cast<const uint16_t*>(field(layout_->value_offset));
      for (size_t j = 0; j < dim; ++j) {
        out[j] = layout_->value_dtype == TENON_BF16 ? of_bf16(value[j]) : of_f16(value[j]);
      }
    }
  }

  /* Writes the value of the row. A narrow value is rounded: to nearest from its master, otherwise
   * stochastically.
   *
   * Shapes   value [dim] */
  void write_value(const float* value) const {
    const size_t dim = layout_->dim;
    if (layout_->value_dtype == TENON_F32) {
      std::memcpy(field(layout_->value_offset), value, dim * sizeof(float));
      return;
    }
    if (layout_->master_offset >= 0) {
      std::memcpy(field(layout_->master_offset), value, dim * sizeof(float));
    }
    auto* out = static_cast<uint16_t*>(field(layout_->value_offset));
    const tenon_random_api& random = host_->random();
    const uint64_t first = static_cast<uint64_t>(*args_->step) * dim;
    for (size_t j = 0; j < dim; ++j) {
      if (narrow_ == TENON_NARROW_MASTER) {
        out[j] = layout_->value_dtype == TENON_BF16 ? to_bf16(value[j]) : to_f16(value[j]);
      } else {
        const auto bits =
            static_cast<uint32_t>(random.bits(args_->seed, static_cast<uint64_t>(id()), first + j));
        out[j] = layout_->value_dtype == TENON_BF16 ? tenon_cut_bf16(word_of(value[j]), bits)
                                                    : tenon_cut_f16(word_of(value[j]), bits);
      }
    }
  }

  /* Conversions between fp32 and the bits of narrow values; to nearest, ties to even. */
  static float of_bf16(uint16_t bits) { return of_word(static_cast<uint32_t>(bits) << 16); }
  static float of_f16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = bits & 0x7FFFu;
    if (magnitude >= 0x7C00u) {  // infinity and NaN
      return of_word(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
    }
    // 2^112 times the fp32 number with these bits, which is correct for subnormal numbers, too.
    const float value = of_word(magnitude << 13) * 5.192296858534828e33f;
    return sign != 0 ? -value : value;
  }
  static uint16_t to_bf16(float x) {
    const uint32_t word = word_of(x);
    if (x != x) {
      return static_cast<uint16_t>(word >> 16 | 0x40u);
    }
    return static_cast<uint16_t>((word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
  }
  static uint16_t to_f16(float x) {
    const uint32_t sign = word_of(x) >> 31 << 15;
    const uint32_t word = word_of(x) & 0x7FFFFFFFu;
    if (word > 0x7F800000u) {
      return static_cast<uint16_t>(sign | 0x7E00u);
    }
    if (word >= 0x477FF000u) {  // 65520, halfway between the largest number and 2^16
      return static_cast<uint16_t>(sign | 0x7C00u);
    }
    if (word < 0x38800000u) {  // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
      return static_cast<uint16_t>(sign | (word_of(of_word(word) + 0.5f) - 0x3F000000u));
    }
    return static_cast<uint16_t>(sign | ((word + 0xFFFu + (word >> 13 & 1u)) - 0x38000000u) >> 13);
  }

 private:
  void* field(int32_t offset) const { return tenon_row_field(layout_, args_->rows[i_], offset); }
  static float of_word(uint32_t word) {
    float x = 0;
    std::memcpy(&x, &word, sizeof x);
    return x;
  }
  static uint32_t word_of(float x) {
    uint32_t word = 0;
    std::memcpy(&word, &x, sizeof word);
    return word;
  }

  const Host* host_;
  const tenon_sparse_update_args* args_;
  const tenon_row_layout* layout_;
  uint32_t narrow_;
  size_t i_;
};

/* One update of rows in CPU memory.
 *
 * Errors   TENON_INVALID for an index out of range
 * Owner    borrowed until `update` returns */
class SparseUpdate {
 public:
  SparseUpdate(const Host& host, const tenon_sparse_update_args& args, uint32_t narrow)
      : host_(&host), args_(&args), narrow_(narrow) {}
  size_t num_rows() const { return args_->n; }
  size_t dim() const { return args_->layout->dim; }
  /* Number of updates of the table, including this one, from 1. */
  int64_t step() const { return *args_->step; }
  /* Scheduled learning rate. */
  double lr() const { return *args_->lr; }
  SparseRow row(size_t i) const {
    TENON_CHECK(
        i < num_rows(), "row index ", i, " is out of range (the update has ", num_rows(), " rows)");
    return {*host_, *args_, narrow_, i};
  }

 private:
  const Host* host_;
  const tenon_sparse_update_args* args_;
  uint32_t narrow_;
};

/* A sparse optimizer that runs on a CPU. */
class SparseOptimizer : public AnySparseOptimizer {
 public:
  /* Applies one update; not called for an update with non-finite gradients.
   *
   * Errors   any exception ends the run
   * Threads  [worker]: several calls concurrently, on disjoint rows
   * Owner    the update is borrowed until return */
  virtual void update(const Exec& exec, const SparseUpdate& update) = 0;

 private:
  void call_update(const Exec& exec, const tenon_sparse_update_args& args) override {
    const uint32_t dtype = args.layout->value_dtype;
    const bool is_narrow = dtype == TENON_BF16 || dtype == TENON_F16;
    if (dtype != TENON_F32 && (!is_narrow || info().narrow() == TENON_NARROW_REFUSED)) {
      TENON_FAIL(TENON_UNSUPPORTED, "value_dtype", "values of dtype ", dtype, " are not declared");
    }
    if (args.found_inf != nullptr && *args.found_inf == 1.0f) {
      return;
    }
    update(exec, SparseUpdate(exec.host(), args, info().narrow()));
  }
};

TENON_NAMESPACE_END

#endif
