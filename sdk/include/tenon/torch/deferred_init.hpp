// SPDX-License-Identifier: Apache-2.0
//
// Builds modules without the memory of their parameters: names, shapes and dtypes of a module of
// any size, in the memory of a small one.
//
//     const tenon::DeferredInit deferred;
//     const torch::nn::Linear linear(8192, 28672);  // its weight is on the device "meta"
//
// A backend fallback for the dispatch key DeferredInit, which libtorch reserves for this purpose,
// changes the device of tensors that are created. The first use in a process registers it, which
// takes about 3 ms; each later use is free.
#ifndef TENON_TORCH_DEFERRED_INIT_HPP
#define TENON_TORCH_DEFERRED_INIT_HPP

#include <tenon/cpp/namespace.hpp>

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

TENON_NAMESPACE_BEGIN

/* While an object exists, tensors of at least kLeastBytes that this thread creates without naming a
 * device have a size and no memory: they are on the device "meta". Smaller tensors, and those
 * created on a named device, have values as usual. Reading values of a tensor without memory throws
 * c10::Error.
 *
 * Threads  the thread that created the object */
class DeferredInit {
 public:
  static constexpr size_t kLeastBytes = size_t{1} << 20;

  DeferredInit() : key_(registered_key()) {}
  DeferredInit(const DeferredInit&) = delete;
  DeferredInit& operator=(const DeferredInit&) = delete;

 private:
  static constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;

  // Each plugin compiles this header. The first one registers the fallback for all of them. It is
  // never removed, as plugins are never unloaded.
  static c10::DispatchKey registered_key() {
    static const torch::Library* const library = registered_library();
    static_cast<void>(library);
    return kKey;
  }
  static const torch::Library* registered_library() {
    if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) {
      return nullptr;
    }
    auto* const library = new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
    return library;
  }

  // True for operators that only read the sizes of their tensor: new_zeros, empty_like.
  static bool is_like_its_tensor(std::string_view name) {
    constexpr std::string_view kLike = "_like";
    return name.find("::new_") != std::string_view::npos ||
           (name.size() > kLike.size() && name.substr(name.size() - kLike.size()) == kLike);
  }

  static void run(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::impl::ExcludeDispatchKeyGuard as_usual(kKey);
    const auto& arguments = op.schema().arguments();
    const size_t first = stack->size() - arguments.size();
    bool has_tensor = false;
    bool has_meta = false;
    std::optional<size_t> device;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const c10::IValue& value = (*stack)[first + i];
      if (value.isTensor() && value.toTensor().defined()) {
        has_tensor = true;
        has_meta = has_meta || value.toTensor().is_meta();
      }
      if (arguments[i].name() == "device" && value.isNone()) {
        device = i;
      }
    }
    const bool creates =
        device.has_value() && !has_meta && (!has_tensor || is_like_its_tensor(op.schema().name()));
    if (creates && created_on_meta(op, *stack, first, *device)) {
      return;
    }
    for (size_t i = 0; i < arguments.size() && has_meta; ++i) {
      move_to_meta(arguments[i], (*stack)[first + i]);
    }
    op.callBoxed(stack);
  }

  // Creates the tensor without memory. Returns false, and changes nothing, if it is small or the
  // operator cannot.
  static bool created_on_meta(const c10::OperatorHandle& op,
                              torch::jit::Stack& stack,
                              size_t first,
                              size_t device) {
    torch::jit::Stack call(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
    call[device] = c10::Device(c10::DeviceType::Meta);
    try {
      op.callBoxed(&call);
    } catch (
        const c10::Error&) {  // no kernel for the device "meta", or an error to report as usual
      return false;
    }
    if (call.size() != 1 || !call[0].isTensor() || call[0].toTensor().nbytes() < kLeastBytes) {
      return false;
    }
    // A null pointer would crash the code that reads or writes values.
    call[0].toTensor().storage().unsafeGetStorageImpl()->set_throw_on_mutable_data_ptr();
    stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
    stack.push_back(std::move(call[0]));
    return true;
  }

  // Operators reject tensors of two devices. One without memory makes the result have none.
  static void move_to_meta(const c10::Argument& argument, c10::IValue& value) {
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (is_written || !value.isTensor()) {
      return;
    }
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && tensor.is_cpu() && tensor.dim() > 0) {
      value = tensor.to(c10::DeviceType::Meta);
    }
  }

  c10::impl::IncludeDispatchKeyGuard key_;
};

TENON_NAMESPACE_END

#endif
