// SPDX-License-Identifier: Apache-2.0
//
// Dense optimizers without libtorch. For optimizers on at::Tensor, derive from TorchOptimizer
// (tenon/torch/optimizer.hpp). The options must include a number "lr"; each update receives the
// scheduled learning rate. <tenon/optimizer.h> defines the contract.
#ifndef TENON_CPP_OPTIMIZER_HPP
#define TENON_CPP_OPTIMIZER_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/optimizer.h>
#include <tenon/ports.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Describes an optimizer; the calls chain. */
class OptimizerInfo {
 public:
  /* Sets the granularity of an update, TENON_OPTIMIZER_*; the default is element-wise. */
  OptimizerInfo& needs(uint32_t what) {
    needs_ = what;
    return *this;
  }
  /* Declares a slot with one value per element. `dtype` is a dtype or TENON_CLASS_PARAM; `init` is
   * its initial value. Slots are numbered in declaration order, from 0. */
  OptimizerInfo& slot(std::string name, uint32_t dtype = TENON_CLASS_PARAM, double init = 0.0) {
    return add(std::move(name), TENON_SLOT_LIKE_PARAMETER, dtype, init);
  }
  /* Declares a slot with one value per piece. */
  OptimizerInfo& scalar_slot(std::string name, uint32_t dtype = TENON_F32, double init = 0.0) {
    return add(std::move(name), TENON_SLOT_SCALAR, dtype, init);
  }
  /* Declares a slot with one value per block of elements; see `block`. */
  OptimizerInfo& block_slot(std::string name, uint32_t dtype = TENON_F32, double init = 0.0) {
    return add(std::move(name), TENON_SLOT_BLOCKWISE, dtype, init);
  }
  /* Declare slots of the shape of the parameter without its last axis, and without the one before
   * the last. Only for TENON_OPTIMIZER_MATRIX. */
  OptimizerInfo& row_slot(std::string name, uint32_t dtype = TENON_F32, double init = 0.0) {
    return add(std::move(name), TENON_SLOT_ROWS, dtype, init);
  }
  OptimizerInfo& column_slot(std::string name, uint32_t dtype = TENON_F32, double init = 0.0) {
    return add(std::move(name), TENON_SLOT_COLUMNS, dtype, init);
  }
  /* Sets the number of elements per block: pieces start at multiples of it. */
  OptimizerInfo& block(int64_t elements) {
    block_ = elements;
    return *this;
  }
  /* Sets flags, TENON_OPTIMIZER_OWN_SCHEDULE. */
  OptimizerInfo& flags(uint32_t flags) {
    flags_ |= flags;
    return *this;
  }
  size_t num_slots() const { return slots_.size(); }
  /* Fills the ABI struct. For the wrapper only. */
  void write(tenon_optimizer_info& out) const {
    out.needs = needs_;
    out.flags = flags_;
    out.block = block_;
    out.slots_ref = slots_.data();
    out.num_slots = slots_.size();
  }

 private:
  OptimizerInfo& add(std::string name, uint32_t shape, uint32_t dtype, double init) {
    names_.push_back(std::move(name));
    slots_.push_back({sizeof(tenon_slot_spec), names_.back().c_str(), shape, dtype, init});
    return *this;
  }

  uint32_t needs_ = TENON_OPTIMIZER_ELEMENTWISE;
  uint32_t flags_ = 0;
  int64_t block_ = 0;
  std::deque<std::string> names_;
  std::vector<tenon_slot_spec> slots_;
};

/* Base of all optimizers, called through the ABI table. Derive from Optimizer or TorchOptimizer. */
class AnyOptimizer : public Component {
 public:
  using Kind = AnyOptimizer;
  static constexpr const char* kKind = "optimizer";
  static constexpr const char* kInterfaceId = TENON_OPTIMIZER_ID;

  /* Describes granularity and optimizer state.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], once, before any other call */
  virtual void describe(OptimizerInfo& info) = 0;

  /* Adapter from the ABI struct to `update` of the derived class, which states Errors, Threads and
   * Owner. For the wrapper only. */
  virtual void call_update(const Exec&, const tenon_update_args&) = 0;

  /* Replaces the values of training by those to evaluate and to export; see tenon_optimizer. A
   * class that does not override it has one kind of values.
   *
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return */
  virtual void evaluation_values(const Exec&, const tenon_evaluation_values_args&) {}

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    constexpr bool kHasValues = !std::is_same_v<decltype(&T::evaluation_values),
                                                decltype(&AnyOptimizer::evaluation_values)>;
    static const tenon_optimizer calls{sizeof(tenon_optimizer),
                                       on_describe,
                                       on_update,
                                       kHasValues ? on_evaluation_values : nullptr};
    return &calls;
  }

 protected:
  size_t num_slots() const { return info_ == nullptr ? 0 : info_->num_slots(); }

 private:
  static tenon_status* on_describe(void* self, tenon_optimizer_info* out) noexcept {
    return call_on<AnyOptimizer>(self, [&](AnyOptimizer& optimizer) {
      TENON_CHECK(out != nullptr, "out is null");
      optimizer.info_ = std::make_unique<OptimizerInfo>();
      optimizer.describe(*optimizer.info_);
      optimizer.info_->write(*out);
    });
  }
  static tenon_status* on_update(void* self,
                                 const tenon_exec* exec,
                                 const tenon_update_args* args) noexcept {
    return call_on<AnyOptimizer>(self, [&](AnyOptimizer& optimizer) {
      TENON_CHECK(args != nullptr, "the arguments of update are null");
      optimizer.call_update(Exec(optimizer.host(), exec), *args);
    });
  }

  static tenon_status* on_evaluation_values(void* self,
                                            const tenon_exec* exec,
                                            const tenon_evaluation_values_args* args) noexcept {
    return call_on<AnyOptimizer>(self, [&](AnyOptimizer& optimizer) {
      TENON_CHECK(args != nullptr, "the arguments of evaluation_values are null");
      optimizer.evaluation_values(Exec(optimizer.host(), exec), *args);
    });
  }

  std::unique_ptr<OptimizerInfo> info_;
};

/* One update of several pieces of parameters. All tensors of a piece have one shape. `parameter`
 * and `slot` are updated in place (`mutable_data`).
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of the call, and only during it
 * Owner    borrowed until `update` returns */
class Update {
 public:
  Update(const Host& host, const tenon_update_args* args, size_t num_slots)
      : host_(&host), args_(args), num_slots_(num_slots) {}
  size_t num_pieces() const { return args_->num_pieces; }
  TensorRef parameter(size_t i) const { return ref(args_->parameters, i, num_pieces()); }
  /* Gradient of piece i, normalized and clipped. */
  TensorRef grad(size_t i) const { return ref(args_->grads, i, num_pieces()); }
  /* Slot `s`, in declaration order, of piece `i`. */
  TensorRef slot(size_t s, size_t i) const {
    return ref(args_->slots, s * num_pieces() + i, num_slots_ * num_pieces());
  }
  /* Number of updates of the piece, including this one, from 1: f32 scalar. */
  TensorRef step(size_t i) const { return ref(args_->steps, i, num_pieces()); }
  /* Scheduled learning rate: f64 scalar. */
  TensorRef lr() const { return {*host_, args_->lr}; }
  /* f32 scalar, or absent. If it is 1, change nothing, including slots. */
  TensorRef found_inf() const { return {*host_, args_->found_inf}; }

 private:
  template <class Handles>
  TensorRef ref(Handles handles, size_t i, size_t n) const {
    TENON_CHECK(
        i < n, "tensor index ", i, " is out of range (the update has ", n, " such tensors)");
    return {*host_, handles[i]};
  }

  const Host* host_;
  const tenon_update_args* args_;
  size_t num_slots_;
};

/* An optimizer without libtorch. */
class Optimizer : public AnyOptimizer {
 public:
  /* Applies one update. Autograd does not record it.
   *
   * Shapes   as in Update, on exec's device
   * Errors   any exception ends the run
   * Threads  [step]
   * Owner    all tensors are borrowed until return */
  virtual void update(const Exec& exec, const Update& update) = 0;

 private:
  void call_update(const Exec& exec, const tenon_update_args& args) override {
    update(exec, Update(exec.host(), &args, num_slots()));
  }
};

TENON_NAMESPACE_END

#endif
