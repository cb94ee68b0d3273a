// SPDX-License-Identifier: Apache-2.0
//
// Feature transforms: Feature runs instance by instance, FusedFeature runs all instances of a batch
// in one call. <tenon/feature.h> defines the contract.
#ifndef TENON_CPP_FEATURE_HPP
#define TENON_CPP_FEATURE_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/feature.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Static type of a column; see tenon_column_type. */
struct ColumnType {
  /* Dtype of the values; TENON_U8 for text. */
  uint32_t dtype = TENON_I64;
  /* Levels of offsets: 0 for a fixed number of entries per sample, 1 for lists, 2 for lists of
   * lists; one more for text. */
  uint32_t num_levels = 0;
  /* Values are bytes of text. */
  bool is_text = false;
  /* Each entry has a weight. */
  bool has_weights = false;
  /* Without levels: 0 for values [B], n for [B, n], -1 for [B, any]. Otherwise 0. */
  int64_t width = 0;

  /* Number of list levels: the levels of offsets without the one that splits text into strings. */
  uint32_t num_lists() const { return num_levels - (is_text ? 1 : 0); }
};

/* A column of a call, on the CPU; see tenon_column. All tensors are contiguous.
 *
 * Threads  those of the call, and only during it
 * Owner    borrowed until the call returns */
class Column {
 public:
  Column(const Host& host, const tenon_column& column) : host_(host), column_(&column) {}

  /* [entries]; without levels [B] or [B, n]. */
  TensorRef values() const { return {host_, column_->values}; }
  /* Returns the values as one array, whatever their shape.
   *
   * Errors   TENON_INVALID if T is not the dtype of the values */
  template <class T>
  const T* data() const {
    return values().data<T>();
  }
  int64_t num_values() const { return values().numel(); }
  size_t num_levels() const { return column_->num_levels; }
  /* Returns the offsets of a level, i64; TENON_INVALID if there is no such level. */
  TensorRef level(size_t level) const {
    TENON_CHECK(level < column_->num_levels, "the column has no level ", level);
    return {host_, column_->offsets[level]};
  }
  /* Returns the offsets of level l: offsets(l)[i] to offsets(l)[i + 1] are the pieces or values
   * below piece i. */
  const int64_t* offsets(size_t level) const { return this->level(level).data<int64_t>(); }
  /* Returns the number of pieces of level l. */
  int64_t num_pieces(size_t level) const { return this->level(level).numel() - 1; }
  /* False if all weights are 1. */
  bool has_weights() const { return column_->weights != nullptr; }
  /* f32 [entries], or absent. */
  TensorRef weights() const { return {host_, column_->weights}; }
  /* Returns the number of samples, B. */
  int64_t num_samples() const { return column_->num_levels > 0 ? num_pieces(0) : values().size(0); }

 private:
  Host host_;
  const tenon_column* column_;
};

/* Receives one output column: values, offsets of each level, and weights if `infer` declared them.
 *
 * Errors   TENON_INVALID if a part is set twice, or a level does not exist
 * Threads  those of the call, and only during it */
class ColumnOut {
 public:
  ColumnOut(const Host& host, tenon_column_out& out) : host_(host), out_(&out) {}

  /* Allocates values of shape `shape` and returns their memory, to be filled before the call
   * returns. T must match the dtype that `infer` returned.
   *
   * Owner    the memory belongs to the host */
  template <class T>
  T* values(const std::vector<int64_t>& shape) {
    Tensor made = Tensor::empty(host_, DtypeOf<T>::kValue, {TENON_CPU, 0}, shape);
    T* const data = made.ref().template mutable_data<T>();
    put(out_->values_own, std::move(made));
    return data;
  }
  /* Allocates the offsets of a level and returns their memory: num_pieces + 1 elements, to be
   * filled before the call returns. The first is 0, they never decrease, and the last is the number
   * of pieces or values below.
   *
   * Owner    the memory belongs to the host */
  int64_t* offsets(size_t level, int64_t num_pieces) {
    TENON_CHECK(level < out_->num_levels, "the output has no level ", level);
    Tensor made = Tensor::empty(host_, TENON_I64, {TENON_CPU, 0}, {num_pieces + 1});
    auto* const data = made.ref().mutable_data<int64_t>();
    put(out_->offsets_own[level], std::move(made));
    return data;
  }
  /* Allocates the weights, one per entry, and returns their memory, to be filled before the call
   * returns. */
  float* weights(int64_t num_entries) {
    Tensor made = Tensor::empty(host_, TENON_F32, {TENON_CPU, 0}, {num_entries});
    auto* const data = made.ref().mutable_data<float>();
    put(out_->weights_own, std::move(made));
    return data;
  }
  /* Passes on a part of an input, without a copy. */
  void share_values(const Column& from) { share(out_->values_own, from.values()); }
  void share_offsets(size_t level, const Column& from) {
    TENON_CHECK(level < out_->num_levels, "the output has no level ", level);
    share(out_->offsets_own[level], from.level(level));
  }
  void share_weights(const Column& from) {
    if (from.has_weights()) {
      share(out_->weights_own, from.weights());
    }
  }
  /* Passes on all levels of the output, and the weights if there are any. */
  void share_lists(const Column& from) {
    for (size_t level = 0; level < out_->num_levels; ++level) {
      share_offsets(level, from);
    }
    share_weights(from);
  }

 private:
  void share(tenon_tensor*& slot, const TensorRef& from) {
    put(slot, Tensor::retain(host_, from.handle()));
  }
  static void put(tenon_tensor*& slot, Tensor made) {
    TENON_CHECK(slot == nullptr, "a part of an output is set twice");
    slot = made.release();
  }

  Host host_;
  tenon_column_out* out_;
};

/* The input and output columns of one call.
 *
 * Errors   TENON_INVALID for an index out of range
 * Threads  those of the call, and only during it
 * Owner    borrowed until the call returns */
class FeatureColumns {
 public:
  FeatureColumns(const Host& host, const tenon_feature_call& call) : host_(host), call_(&call) {}

  size_t num_inputs() const { return call_->num_inputs; }
  size_t num_outputs() const { return call_->num_outputs; }
  Column input(size_t i) const {
    TENON_CHECK(i < call_->num_inputs, "the call has no input ", i);
    return {host_, element(call_->inputs, i)};
  }
  ColumnOut output(size_t i) const {
    TENON_CHECK(i < call_->num_outputs, "the call has no output ", i);
    return {host_, element(call_->outputs, i)};
  }

  /* Returns element i of an array of structs from the host, which may be longer than the structs in
   * this header. */
  /* Returns the ABI table of class T. */
  template <class T>
  static T& element(T* array, size_t i) {
    using Bytes = std::conditional_t<std::is_const_v<T>, const char, char>;
    return *reinterpret_cast<T*>(reinterpret_cast<Bytes*>(array) + i * array->struct_size);
  }

 private:
  Host host_;
  const tenon_feature_call* call_;
};

/* Base of both classes, called through the ABI table. Derive from Feature or FusedFeature. */
class AnyFeature : public Component {
 public:
  using Kind = AnyFeature;
  static constexpr const char* kKind = "feature";
  static constexpr const char* kInterfaceId = TENON_FEATURE_ID;

  /* Infers the output types from the input types. All inputs and outputs are in recipe order.
   *
   * Errors   TENON_INVALID for inputs that it does not accept, stating what it accepts
   * Threads  [main], once, before `run` */
  virtual std::vector<ColumnType> infer(const std::vector<ColumnType>& inputs) = 0;

 protected:
  static tenon_status* on_infer(void* self,
                                const tenon_column_type* inputs,
                                size_t num_inputs,
                                tenon_column_type* outputs,
                                size_t* io_num_outputs) noexcept {
    return call_on<AnyFeature>(self, [&](AnyFeature& feature) {
      TENON_CHECK(
          (inputs != nullptr || num_inputs == 0) && outputs != nullptr && io_num_outputs != nullptr,
          "an argument of infer is null");
      std::vector<ColumnType> given;
      for (size_t i = 0; i < num_inputs; ++i) {
        const tenon_column_type& type = FeatureColumns::element(inputs, i);
        given.push_back(
            {type.dtype, type.num_levels, type.is_text != 0, type.has_weights != 0, type.width});
      }
      const std::vector<ColumnType> made = feature.infer(given);
      TENON_CHECK(made.size() <= *io_num_outputs,
                  "infer returned ",
                  made.size(),
                  " outputs (expected at most ",
                  *io_num_outputs,
                  ")");
      for (size_t i = 0; i < made.size(); ++i) {
        tenon_column_type& type = FeatureColumns::element(outputs, i);
        type.dtype = made[i].dtype;
        type.num_levels = made[i].num_levels;
        type.is_text = made[i].is_text ? 1 : 0;
        type.has_weights = made[i].has_weights ? 1 : 0;
        type.width = made[i].width;
      }
      *io_num_outputs = made.size();
    });
  }

  static AnyFeature& feature_of(const tenon_feature_call& call) {
    return instance<AnyFeature>(call.self);
  }
};

/* A transform that runs instance by instance. */
class Feature : public AnyFeature {
 public:
  /* Fills all outputs that `infer` declared. A pure function of the inputs.
   *
   * Shapes   all columns of a call have the same B, which may be 0
   * Errors   TENON_INVALID for values it cannot process, naming the first one and its sample
   * Threads  [worker]: several calls concurrently, also for one instance
   * Owner    inputs are borrowed; the host releases the outputs */
  virtual void run(const Exec& exec, const FeatureColumns& columns) const = 0;

  template <class T>
  static const void* table() {
    static const tenon_feature calls{sizeof(tenon_feature), on_infer, on_run};
    return &calls;
  }

 private:
  static tenon_status* on_run(const tenon_exec* exec,
                              tenon_feature_call* calls,
                              size_t n) noexcept {
    return guard(exec == nullptr ? PluginHost::get() : exec->host, [&] {
      TENON_CHECK(exec != nullptr && calls != nullptr, "an argument of run is null");
      for (size_t i = 0; i < n; ++i) {
        const tenon_feature_call& call = FeatureColumns::element(calls, i);
        const auto& feature = static_cast<const Feature&>(feature_of(call));
        feature.run(Exec(feature.host(), exec), FeatureColumns(feature.host(), call));
      }
    });
  }
};

/* One call of an instance of T, which derives from FusedFeature<T>. */
template <class T>
struct FusedCall {
  const T& feature;
  FeatureColumns columns;
};

/* A transform that runs all instances in one call. Instead of `run`, T has
 *
 *     static void run_all(const Exec&, const std::vector<FusedCall<T>>&);
 *
 * which fills the outputs of all calls.
 *
 * Errors   TENON_INVALID, as for Feature::run; the host then repeats the calls one by one
 * Threads  [worker]: several calls concurrently, also for one instance */
template <class T>
class FusedFeature : public AnyFeature {
 public:
  template <class Class>
  static const void* table() {
    static const tenon_feature calls{sizeof(tenon_feature), on_infer, on_run};
    return &calls;
  }

 private:
  static tenon_status* on_run(const tenon_exec* exec,
                              tenon_feature_call* calls,
                              size_t n) noexcept {
    return guard(exec == nullptr ? PluginHost::get() : exec->host, [&] {
      TENON_CHECK(exec != nullptr && calls != nullptr && n > 0, "an argument of run is null");
      std::vector<FusedCall<T>> list;
      list.reserve(n);
      for (size_t i = 0; i < n; ++i) {
        const tenon_feature_call& call = FeatureColumns::element(calls, i);
        const auto& feature = static_cast<const T&>(feature_of(call));
        list.push_back({feature, FeatureColumns(feature.host(), call)});
      }
      T::run_all(Exec(list.front().feature.host(), exec), list);
    });
  }
};

TENON_NAMESPACE_END

#endif
