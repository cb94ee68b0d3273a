// SPDX-License-Identifier: Apache-2.0
//
// Parametrizations on at::Tensor: components that compute a parameter from others, such as adapters
// and quantized weights. <tenon/draft/parametrization.h> defines the contract.
#ifndef TENON_TORCH_PARAMETRIZATION_HPP
#define TENON_TORCH_PARAMETRIZATION_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/model.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/draft/parametrization.h>
#include <tenon/draft/parametrization_parts.h>
#include <tenon/torch/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* The parameter to compute, as the model declared it. */
struct EffectiveParameter {
  std::string name;
  std::vector<int64_t> shape;
  uint32_t dtype = TENON_CLASS_PARAM;
  uint32_t flags = 0; /* TENON_PARAM_* */
};

/* Declares the real parameters and buffers of an instance, each numbered from 0 in the order of
 * declaration. Suffixes are appended to the name of the effective parameter, as in ".lora_a". */
class RealSet {
 public:
  /* Declares the real parameter that takes the name and the shape of the effective one, and starts
   * with its value. */
  RealSet& base(const EffectiveParameter& effective,
                uint32_t flags,
                uint32_t dtype = TENON_CLASS_PARAM) {
    return add("", effective.shape, Init::zeros(), flags, dtype);
  }
  /* Declares another real parameter. */
  RealSet& real(const std::string& suffix,
                const std::vector<int64_t>& shape,
                const Init& init,
                uint32_t flags = 0,
                uint32_t dtype = TENON_CLASS_PARAM) {
    return add(suffix, shape, init, flags, dtype);
  }
  /* Says that tensor ranks divide axis `real_axis` of the last real parameter as axis `axis` of the
   * effective one, which has the same size. A real parameter that follows no axis is whole on each
   * rank. */
  RealSet& follows(uint32_t axis, uint32_t real_axis) {
    TENON_CHECK(!reals_.empty(), "no real parameter is declared yet");
    followers_.push_back({reals_.size() - 1, axis, real_axis});
    return *this;
  }
  /* Says that ranks may divide axis `axis` of the effective parameter: from its parts of the reals,
   * a rank computes its part of the effective parameter, or its term of a product. */
  RealSet& divisible(uint32_t axis) {
    divisible_axes_ |= uint32_t{1} << axis;
    return *this;
  }
  /* Declares a buffer that `start` sets. */
  RealSet& buffer(const std::string& suffix, const std::vector<int64_t>& shape, uint32_t dtype) {
    names_.push_back(suffix);
    shapes_.push_back(shape);
    buffers_.push_back({sizeof(tenon_buffer_spec),
                        names_.back().c_str(),
                        shapes_.back().data(),
                        shapes_.back().size(),
                        dtype,
                        TENON_BUFFER_STATE});
    return *this;
  }
  size_t num_reals() const { return reals_.size(); }
  size_t num_buffers() const { return buffers_.size(); }
  /* Fill the ABI structs; the second for an effective parameter of `ndim` axes. For the wrapper
   * only. */
  void write(tenon_parametrization_info& out) const {
    out.reals_ref = reals_.data();
    out.num_reals = reals_.size();
    out.buffers_ref = buffers_.data();
    out.num_buffers = buffers_.size();
  }
  void write(tenon_parametrization_parts_info& out, size_t ndim) {
    real_axes_.assign(reals_.size() * ndim, TENON_NO_INDEX);
    for (const Follower& one : followers_) {
      TENON_CHECK(one.axis < ndim, "the parameter has no axis ", one.axis);
      real_axes_[one.real * ndim + one.axis] = one.real_axis;
    }
    out.real_axes_ref = real_axes_.data();
    out.divisible_axes = divisible_axes_;
  }

 private:
  struct Follower {
    size_t real;
    uint32_t axis; /* of the effective parameter */
    uint32_t real_axis;
  };

  RealSet& add(const std::string& suffix,
               const std::vector<int64_t>& shape,
               const Init& init,
               uint32_t flags,
               uint32_t dtype) {
    names_.push_back(suffix);
    shapes_.push_back(shape);
    reals_.push_back({sizeof(tenon_parameter_spec),
                      names_.back().c_str(),
                      shapes_.back().data(),
                      shapes_.back().size(),
                      dtype,
                      flags,
                      init.kind,
                      0,
                      init.a,
                      init.b,
                      nullptr,
                      nullptr});
    return *this;
  }

  std::deque<std::string> names_;  // elements keep their address
  std::deque<std::vector<int64_t>> shapes_;
  std::vector<tenon_parameter_spec> reals_;
  std::vector<tenon_buffer_spec> buffers_;
  std::vector<Follower> followers_;
  std::vector<uint32_t> real_axes_;
  uint32_t divisible_axes_ = 0;
};

/* Real parameters and buffers of a call, in the order of their declaration.
 *
 * Errors   TENON_INVALID for an index out of range
 * Owner    borrowed until the call returns */
class Reals {
 public:
  Reals(const tenon_tensor* const* reals,
        size_t num_reals,
        const tenon_tensor* const* buffers,
        size_t num_buffers)
      : reals_(reals, num_reals), buffers_(buffers, num_buffers) {}
  const at::Tensor& real(size_t i) const { return reals_[i]; }
  const at::Tensor& buffer(size_t i) const { return buffers_[i]; }

 private:
  TorchInputs reals_;
  TorchInputs buffers_;
};

/* The same, of `start`, which changes them in place. All are whole and on the CPU. */
class RealsToStart {
 public:
  RealsToStart(const tenon_parametrization_start_args& args, size_t num_reals, size_t num_buffers)
      : args_(&args), num_reals_(num_reals), num_buffers_(num_buffers) {}
  /* The value that the effective parameter must have. */
  const at::Tensor& value() const { return unwrap(args_->value); }
  at::Tensor& real(size_t i) const {
    TENON_CHECK(i < num_reals_, "real ", i, " of ", num_reals_, " does not exist");
    return unwrap_mutable(args_->reals[i]);
  }
  at::Tensor& buffer(size_t i) const {
    TENON_CHECK(i < num_buffers_, "buffer ", i, " of ", num_buffers_, " does not exist");
    return unwrap_mutable(args_->buffers[i]);
  }

 private:
  const tenon_parametrization_start_args* args_;
  size_t num_reals_;
  size_t num_buffers_;
};

/* A parametrization on at::Tensor. The host creates one instance for each parameter. */
class TorchParametrization : public Component {
 public:
  using Kind = TorchParametrization;
  static constexpr const char* kKind = "parametrization";
  static constexpr const char* kInterfaceId = TENON_PARAMETRIZATION_ID;
  static constexpr bool kHasProduct = false;

  /* Declares the real parameters and buffers.
   *
   * Errors   TENON_UNSUPPORTED, with the reason, for a parameter that it cannot compute
   * Threads  [main], once, before any other call */
  virtual void describe(const EffectiveParameter& effective, RealSet& reals) = 0;

  /* Sets reals and buffers so that the effective parameter equals `reals.value()`. By default, they
   * stay as initialized, which is right if the parameter then equals its base.
   *
   * Errors   any exception ends the run
   * Threads  [main], after initialization, and after a base was loaded without the other reals
   * Owner    borrowed until return */
  virtual void start(const Exec& /*exec*/, const RealsToStart& /*reals*/) {}

  /* Returns the effective parameter. Autograd records the call.
   *
   * Shapes   the declared shape, or that of this rank's part
   * Threads  [step]
   * Owner    borrowed until return */
  virtual at::Tensor effective(const Exec& exec, const Reals& reals) = 0;

  /* A class that overrides it calls it for other ids. */
  const void* extension(const char* id) override {
    static const tenon_parametrization_parts parts{sizeof(tenon_parametrization_parts),
                                                   on_describe_parts};
    return std::strcmp(id, TENON_PARAMETRIZATION_PARTS_ID) == 0 ? &parts : nullptr;
  }

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    static const tenon_parametrization calls{sizeof(tenon_parametrization),
                                             on_describe,
                                             on_start,
                                             on_effective,
                                             nullptr,
                                             nullptr,
                                             product_of<T>()};
    return &calls;
  }

 protected:
  /* Returns x W^T of the effective parameter W. Called only if T has kHasProduct. */
  virtual at::Tensor call_product(const Exec&, const at::Tensor&, const Reals&) { return {}; }

 private:
  using Product = tenon_status* (*)(void*, const tenon_exec*, tenon_product_args*);
  template <class T>
  static constexpr Product product_of() {
    if constexpr (T::kHasProduct) {
      return on_product;
    } else {
      return nullptr;
    }
  }
  static tenon_status* on_describe(void* self,
                                   const tenon_parameter_spec* effective,
                                   tenon_parametrization_info* out) noexcept {
    return call_on<TorchParametrization>(self, [&](TorchParametrization& one) {
      TENON_CHECK(effective != nullptr && out != nullptr, "an argument of describe is null");
      EffectiveParameter parameter{effective->name == nullptr ? "" : effective->name,
                                   {effective->shape, effective->shape + effective->ndim},
                                   effective->dtype,
                                   effective->flags};
      one.reals_ = {};
      one.describe(parameter, one.reals_);
      one.reals_.write(*out);
      one.ndim_ = effective->ndim;
    });
  }
  static tenon_status* on_describe_parts(void* self,
                                         tenon_parametrization_parts_info* out) noexcept {
    return call_on<TorchParametrization>(self, [&](TorchParametrization& one) {
      TENON_CHECK(out != nullptr, "out is null");
      one.reals_.write(*out, one.ndim_);
    });
  }
  static tenon_status* on_start(void* self,
                                const tenon_exec* exec,
                                const tenon_parametrization_start_args* args) noexcept {
    return call_on<TorchParametrization>(self, [&](TorchParametrization& one) {
      TENON_CHECK(args != nullptr, "the arguments of start are null");
      const RealsToStart reals(*args, one.reals_.num_reals(), one.reals_.num_buffers());
      call_torch([&] { one.start(Exec(one.host(), exec), reals); });
    });
  }
  static tenon_status* on_effective(void* self,
                                    const tenon_exec* exec,
                                    tenon_effective_args* args) noexcept {
    return call_on<TorchParametrization>(self, [&](TorchParametrization& one) {
      TENON_CHECK(args != nullptr, "the arguments of effective are null");
      args->out_own = call_torch([&] {
        const Reals reals = one.borrowed(args->reals, args->buffers);
        return wrap(one.host(), one.effective(Exec(one.host(), exec), reals));
      });
    });
  }
  static tenon_status* on_product(void* self,
                                  const tenon_exec* exec,
                                  tenon_product_args* args) noexcept {
    return call_on<TorchParametrization>(self, [&](TorchParametrization& one) {
      TENON_CHECK(args != nullptr, "the arguments of product are null");
      args->out_own = call_torch([&] {
        const Reals reals = one.borrowed(args->reals, args->buffers);
        return wrap(one.host(), one.call_product(Exec(one.host(), exec), unwrap(args->x), reals));
      });
    });
  }
  Reals borrowed(const tenon_tensor* const* reals, const tenon_tensor* const* buffers) const {
    return {reals, reals_.num_reals(), buffers, reals_.num_buffers()};
  }

  RealSet reals_;
  size_t ndim_ = 0;  // of the effective parameter
};

/* A parametrization of matrices that computes products without the effective matrix. */
class TorchLinearParametrization : public TorchParametrization {
 public:
  static constexpr bool kHasProduct = true;

  /* Returns x W^T of the effective parameter W. Autograd records the call.
   *
   * Shapes   x [..., D], W [N, D]; the result is [..., N], of the dtype of x
   * Threads  [step], several times in a forward
   * Owner    borrowed until return */
  virtual at::Tensor product(const Exec& exec, const at::Tensor& x, const Reals& reals) = 0;

 private:
  at::Tensor call_product(const Exec& exec, const at::Tensor& x, const Reals& reals) override {
    return product(exec, x, reals);
  }
};

TENON_NAMESPACE_END

#endif
