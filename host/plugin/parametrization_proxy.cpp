// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/parametrization_proxy.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/plugin/port_spec.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"

#include <set>
#include <string>
#include <utility>

namespace tenon {
namespace {

constexpr std::size_t kMaxAxes = 64;
constexpr uint32_t kRealFlags =
    TENON_PARAM_NO_DECAY | TENON_PARAM_FROZEN | TENON_PARAM_KEEP_FP32 | TENON_PARAM_LINEAR;

std::vector<int64_t> copy_shape(const int64_t* shape,
                                std::size_t ndim,
                                const std::string& of,
                                const ComponentIdentity& identity) {
  if (ndim > kMaxAxes || (shape == nullptr && ndim > 0)) {
    identity.fail_result(formatted("{} has {} axes{}",
                                   of,
                                   ndim,
                                   shape == nullptr ? " and no shape" : ", more than any tensor"));
  }
  std::vector<int64_t> sizes(shape, shape + ndim);
  for (const int64_t size : sizes) {
    if (size < 0) {
      identity.fail_result(of + " has a negative size");
    }
  }
  return sizes;
}

std::vector<tenon_tensor*> borrow_each_mutable(std::vector<at::Tensor>& tensors) {
  std::vector<tenon_tensor*> handles;
  for (at::Tensor& tensor : tensors) {
    handles.push_back(borrow_mutable(tensor));
  }
  return handles;
}

}  // namespace

ParametrizationProxy::ParametrizationProxy(ComponentInstance instance,
                                           const EffectiveSpec& effective)
    : instance_(std::move(instance)),
      table_(table_of<tenon_parametrization>(instance_, TENON_PARAMETRIZATION_ID)),
      shape_(effective.shape) {
  const ComponentIdentity& identity = instance_.identity();
  TENON_REQUIRE(tenon_parametrization, table_, describe, TENON_PARAMETRIZATION_ID, identity);
  TENON_REQUIRE(tenon_parametrization, table_, start, TENON_PARAMETRIZATION_ID, identity);
  TENON_REQUIRE(tenon_parametrization, table_, effective, TENON_PARAMETRIZATION_ID, identity);
  has_product_ = TENON_HAS(tenon_parametrization, table_, product);
  if (TENON_HAS(tenon_parametrization, table_, backward) ||
      TENON_HAS(tenon_parametrization, table_, after_update)) {
    throw Error("parametrization.unsupported",
                identity.describe() +
                    " has the function backward or after_update, which this host does not call; "
                    "leave both null, so that autograd computes the gradients");
  }
  describe(effective);
}

void ParametrizationProxy::describe(const EffectiveSpec& effective) {
  const ComponentIdentity& identity = instance_.identity();
  tenon_parameter_spec spec{};
  spec.struct_size = sizeof(spec);
  spec.name = effective.name.c_str();
  spec.shape = effective.shape.data();
  spec.ndim = effective.shape.size();
  spec.dtype = effective.dtype;
  spec.flags = effective.flags;
  const auto info = filled_by<tenon_parametrization_info>(
      instance_, "describe", [&](tenon_parametrization_info* out) {
        return table_->describe(instance_.self(), &spec, out);
      });
  if ((info.reals_ref == nullptr && info.num_reals > 0) ||
      (info.buffers_ref == nullptr && info.num_buffers > 0)) {
    identity.fail_result("describe returned reals or buffers at a null pointer");
  }
  std::set<std::string> suffixes;
  const auto add = [&](const std::string& suffix) {
    if (!suffixes.insert(suffix).second) {
      identity.fail_result("\"" + suffix + "\" is declared twice");
    }
  };
  for (std::size_t i = 0; i < info.num_reals; ++i) {
    reals_.push_back(copy_real(element_of(info.reals_ref, i, identity), i));
    add(reals_.back().suffix);
  }
  for (std::size_t i = 0; i < info.num_buffers; ++i) {
    buffers_.push_back(copy_buffer(element_of(info.buffers_ref, i, identity), i));
    add(buffers_.back().suffix);
  }
  describe_parts();
}

void ParametrizationProxy::describe_parts() {
  const ComponentIdentity& identity = instance_.identity();
  const auto* const parts = static_cast<const tenon_parametrization_parts*>(
      instance_.extension(TENON_PARAMETRIZATION_PARTS_ID));
  if (parts == nullptr) {
    return;
  }
  TENON_REQUIRE(
      tenon_parametrization_parts, parts, describe, TENON_PARAMETRIZATION_PARTS_ID, identity);
  const auto info = filled_by<tenon_parametrization_parts_info>(
      instance_, "describe of the parts", [&](tenon_parametrization_parts_info* out) {
        return parts->describe(instance_.self(), out);
      });
  if (info.divisible_axes == 0) {
    return;
  }
  const std::size_t ndim = shape_.size();
  if (ndim < 32 && (info.divisible_axes >> ndim) != 0) {
    identity.fail_result(formatted("divisible_axes has a bit past the {} axes", ndim));
  }
  if (info.real_axes_ref == nullptr && !reals_.empty()) {
    identity.fail_result("divisible_axes is set, but real_axes_ref is null");
  }
  divisible_axes_ = info.divisible_axes;
  for (std::size_t i = 0; i < reals_.size(); ++i) {
    RealSpec& real = reals_[i];
    for (std::size_t a = 0; a < ndim; ++a) {
      const uint32_t axis =
          real.suffix.empty() ? static_cast<uint32_t>(a) : info.real_axes_ref[i * ndim + a];
      const bool follows = axis != TENON_NO_INDEX;
      if (follows && (axis >= real.shape.size() || real.shape[axis] != shape_[a])) {
        identity.fail_result(formatted("axis {} of real \"{}\", {}, cannot follow axis {} of {}",
                                       axis,
                                       real.suffix,
                                       shape_text(real.shape),
                                       a,
                                       shape_text(shape_)));
      }
      real.axes.push_back(axis);
    }
  }
}

void ParametrizationProxy::check_suffix(const char* suffix, const char* what, std::size_t i) const {
  const ComponentIdentity& identity = instance_.identity();
  identity.check_name(suffix, what, i);
  if (*suffix != '.' || suffix[1] == '\0' || std::string(suffix).find('/') != std::string::npos) {
    identity.fail_result(formatted(
        "{} {} has the name \"{}\", expected a dot and a name without '/', as in \".lora_a\"",
        what,
        i,
        suffix));
  }
}

RealSpec ParametrizationProxy::copy_real(const tenon_parameter_spec& spec, std::size_t i) const {
  const ComponentIdentity& identity = instance_.identity();
  const bool is_base = spec.name != nullptr && *spec.name == '\0';
  if (!is_base) {
    check_suffix(spec.name, "real", i);
  }
  const std::string of = is_base ? "the real \"\"" : formatted("real \"{}\"", spec.name);
  RealSpec real{.suffix = spec.name,
                .shape = copy_shape(spec.shape, spec.ndim, of, identity),
                .dtype = spec.dtype,
                .flags = spec.flags,
                .init = spec.init,
                .init_a = spec.init_a,
                .init_b = spec.init_b};
  if (!is_dtype(spec.dtype) && spec.dtype != TENON_CLASS_PARAM) {
    identity.fail_result(
        formatted("{} has dtype {}, expected a dtype or TENON_CLASS_PARAM", of, spec.dtype));
  }
  identity.check_flags(spec.flags, kRealFlags, of);
  if (spec.init > TENON_INIT_TRUNC_NORMAL) {
    identity.fail_result(
        formatted("{} has the initialization {}, which is not supported for reals", of, spec.init));
  }
  if (is_base && real.shape != shape_) {
    identity.fail_result(of + " is " + shape_text(real.shape) +
                         ", but takes the place of a parameter of the shape " + shape_text(shape_));
  }
  return real;
}

RealBufferSpec ParametrizationProxy::copy_buffer(const tenon_buffer_spec& spec,
                                                 std::size_t i) const {
  const ComponentIdentity& identity = instance_.identity();
  check_suffix(spec.name, "buffer", i);
  const std::string of = formatted("buffer \"{}\"", spec.name);
  if (!is_dtype(spec.dtype) && spec.dtype != TENON_CLASS_PARAM) {
    identity.fail_result(
        formatted("{} has dtype {}, expected a dtype or TENON_CLASS_PARAM", of, spec.dtype));
  }
  if (spec.kind != TENON_BUFFER_CONSTANT && spec.kind != TENON_BUFFER_STATE) {
    identity.fail_result(formatted("{} has the unknown kind {}", of, spec.kind));
  }
  return {.suffix = spec.name,
          .shape = copy_shape(spec.shape, spec.ndim, of, identity),
          .dtype = spec.dtype,
          .kind = spec.kind};
}

void ParametrizationProxy::start(const tenon_exec& exec,
                                 const at::Tensor& value,
                                 std::vector<at::Tensor>& reals,
                                 std::vector<at::Tensor>& buffers) const {
  const auto real_handles = borrow_each_mutable(reals);
  const auto buffer_handles = borrow_each_mutable(buffers);
  const tenon_parametrization_start_args args{
      .struct_size = sizeof(tenon_parametrization_start_args),
      .value = borrow(value),
      .reals = real_handles.data(),
      .buffers = buffer_handles.data()};
  instance_.call("start", [&] { return table_->start(instance_.self(), &exec, &args); });
}

at::Tensor ParametrizationProxy::effective(const tenon_exec& exec,
                                           const Handles& reals,
                                           const Handles& buffers,
                                           const std::vector<int64_t>& shape) const {
  OwnHandles result(1);
  tenon_effective_args args{.struct_size = sizeof(tenon_effective_args),
                            .reals = reals.data(),
                            .buffers = buffers.data(),
                            .out_own = nullptr};
  call("effective", result, args.out_own, [&] {
    return table_->effective(instance_.self(), &exec, &args);
  });
  return take(result, "effective", shape);
}

at::Tensor ParametrizationProxy::product(const tenon_exec& exec,
                                         const at::Tensor& x,
                                         const Handles& reals,
                                         const Handles& buffers,
                                         const std::vector<int64_t>& of) const {
  OwnHandles result(1);
  tenon_product_args args{.struct_size = sizeof(tenon_product_args),
                          .x = borrow(x),
                          .reals = reals.data(),
                          .buffers = buffers.data(),
                          .out_own = nullptr};
  call("product", result, args.out_own, [&] {
    return table_->product(instance_.self(), &exec, &args);
  });
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = of.front();
  return take(result, "product", shape);
}

at::Tensor ParametrizationProxy::take(OwnHandles& slot,
                                      const char* function,
                                      const std::vector<int64_t>& shape) const {
  at::Tensor result = std::move(slot.take(instance_.identity(), function)[0]);
  if (!result.defined()) {
    instance_.identity().fail_result(std::string(function) + " returned success and no tensor");
  }
  if (result.sizes() != at::IntArrayRef(shape)) {
    instance_.identity().fail_result(std::string(function) + " returned " +
                                     shape_text(result.sizes()) + ", expected " +
                                     shape_text(shape));
  }
  return result;
}

}  // namespace tenon
