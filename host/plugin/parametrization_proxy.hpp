// SPDX-License-Identifier: Apache-2.0
//
// The host's proxy for a parametrization (contract: draft/parametrization.h). An instance replaces
// one parameter.

#pragma once

#include <tenon/draft/parametrization.h>
#include <tenon/draft/parametrization_parts.h>

#include "host/plugin/instance.hpp"
#include "host/plugin/own_handles.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// A real parameter as the plugin declares it.
struct RealSpec {
  std::string suffix;  // of the effective parameter's name; "" takes that name
  std::vector<int64_t> shape;
  uint32_t dtype = TENON_CLASS_PARAM;
  uint32_t flags = 0;  // TENON_PARAM_*
  uint32_t init = TENON_INIT_ZEROS;
  double init_a = 0;
  double init_b = 0;
  // By axis of the effective parameter: the axis that tensor ranks divide with it, or
  // TENON_NO_INDEX. Empty if ranks cannot divide the effective parameter.
  std::vector<uint32_t> axes = {};
};

struct RealBufferSpec {
  std::string suffix;
  std::vector<int64_t> shape;
  uint32_t dtype = TENON_CLASS_PARAM;
  uint32_t kind = TENON_BUFFER_CONSTANT;
};

// The parameter to replace.
struct EffectiveSpec {
  const std::string& name;
  const std::vector<int64_t>& shape;
  uint32_t dtype = TENON_CLASS_PARAM;
  uint32_t flags = 0;
};

class ParametrizationProxy {
 public:
  // Calls `describe` for one parameter.
  //
  // Errors   plugin.missing_interface, plugin.bad_result; PluginError of `describe`;
  //          parametrization.unsupported for functions that this host does not call
  // Threads  [main]
  ParametrizationProxy(ComponentInstance instance, const EffectiveSpec& effective);

  const ComponentInstance& instance() const noexcept { return instance_; }
  const std::vector<RealSpec>& reals() const noexcept { return reals_; }
  const std::vector<RealBufferSpec>& buffers() const noexcept { return buffers_; }
  bool has_product() const noexcept { return has_product_; }
  // Returns whether ranks may divide this axis of the effective parameter.
  bool is_divisible(uint32_t axis) const noexcept {
    return axis < shape_.size() && axis < 32 && (divisible_axes_ >> axis & 1U) != 0;
  }

  using Handles = std::vector<const tenon_tensor*>;

  // Sets reals and buffers, which are whole and on the CPU, so that the effective parameter equals
  // `value`.
  //
  // Errors   PluginError
  // Threads  [main]
  void start(const tenon_exec& exec,
             const at::Tensor& value,
             std::vector<at::Tensor>& reals,
             std::vector<at::Tensor>& buffers) const;

  // Returns the effective parameter, or the part of it that these reals compute.
  //
  // Shapes   the result is `shape`; without it, the declared shape
  // Errors   PluginError; plugin.bad_result for no result, or one of another shape
  // Threads  [step]
  at::Tensor effective(const tenon_exec& exec,
                       const Handles& reals,
                       const Handles& buffers,
                       const std::vector<int64_t>& shape) const;
  at::Tensor effective(const tenon_exec& exec, const Handles& reals, const Handles& buffers) const {
    return effective(exec, reals, buffers, shape_);
  }

  // Returns x W^T for W of `shape`. Requires has_product(). Errors and threads as effective().
  at::Tensor product(const tenon_exec& exec,
                     const at::Tensor& x,
                     const Handles& reals,
                     const Handles& buffers,
                     const std::vector<int64_t>& shape) const;
  at::Tensor product(const tenon_exec& exec,
                     const at::Tensor& x,
                     const Handles& reals,
                     const Handles& buffers) const {
    return product(exec, x, reals, buffers, shape_);
  }

 private:
  void describe(const EffectiveSpec& effective);
  RealSpec copy_real(const tenon_parameter_spec& spec, std::size_t i) const;
  RealBufferSpec copy_buffer(const tenon_buffer_spec& spec, std::size_t i) const;
  // Reads how ranks may divide the reals, if the plugin says so.
  void describe_parts();
  void check_suffix(const char* suffix, const char* what, std::size_t i) const;
  // Calls `function`, which stores a handle in `out_own`, and moves the handle to `slot`, also if
  // the call fails.
  template <class Body>
  void call(const char* function, OwnHandles& slot, tenon_tensor*& out_own, Body&& body) const {
    try {
      instance_.call(function, std::forward<Body>(body));
    } catch (const Error&) {
      slot.data()[0] = out_own;
      throw;
    }
    slot.data()[0] = out_own;
  }
  at::Tensor take(OwnHandles& slot, const char* function, const std::vector<int64_t>& shape) const;

  ComponentInstance instance_;
  const tenon_parametrization* table_;
  std::vector<int64_t> shape_;
  std::vector<RealSpec> reals_;
  std::vector<RealBufferSpec> buffers_;
  uint32_t divisible_axes_ = 0;
  bool has_product_;
};

}  // namespace tenon
