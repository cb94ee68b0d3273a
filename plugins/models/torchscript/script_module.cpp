// SPDX-License-Identifier: Apache-2.0
#include "script_module.hpp"

#include <tenon/cpp/guard.hpp>

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace {

using Held = ScriptModule::Held;

// The first line of an error of libtorch, without the trace of the script.
std::string first_line(const std::string& text) {
  const size_t start = text.find_first_not_of(" \n");
  const size_t at = start == std::string::npos ? 0 : start;
  return text.substr(at, text.find('\n', at) - at);
}

// An error of a script: what the interpreter reports ends with the message of the operator.
std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) {
    text.pop_back();
  }
  return text.substr(text.rfind('\n') + 1);
}

torch::jit::Module load(const std::string& path) {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path, failed)) {
    TENON_FAIL(TENON_NOT_FOUND,
               "torchscript.no_file",
               path,
               " does not exist or is not a file; save the module with torch.jit.save");
  }
  std::string reason;
  try {
    return torch::jit::load(path, at::kCPU);
  } catch (const c10::Error& error) {
    reason = first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    reason = first_line(error.what());
  }
  TENON_FAIL(TENON_INVALID,
             "torchscript.bad_file",
             path,
             " is not a TorchScript module of this libtorch (",
             reason,
             "); write it with torch.jit.save(torch.jit.script(module), file)");
}

bool is_same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() > 0 && a.is_alias_of(b) && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

void add_slot(std::vector<Held>& all,
              const std::string& name,
              const at::Tensor& value,
              Held::Slot slot) {
  const auto same = std::find_if(
      all.begin(), all.end(), [&](const Held& held) { return is_same_memory(held.value, value); });
  if (same != all.end()) {
    same->other_names.push_back(name);
    same->slots.push_back(std::move(slot));
    return;
  }
  all.push_back({name, value.detach(), value.requires_grad(), {}, {std::move(slot)}});
}

void put(const std::vector<Held>& all, const std::vector<at::Tensor>& values) {
  for (size_t i = 0; i < all.size(); ++i) {
    for (const Held::Slot& slot : all[i].slots) {
      slot.owner->setSlot(slot.index, values[i]);
    }
  }
}

std::vector<at::Tensor> tensors_of(const c10::IValue& result, const std::string& path) {
  if (result.isTensor()) {
    return {result.toTensor()};
  }
  if (result.isTensorList()) {
    return result.toTensorVector();
  }
  std::vector<at::Tensor> tensors;
  if (result.isTuple()) {
    for (const c10::IValue& element : result.toTupleRef().elements()) {
      if (!element.isTensor()) {
        TENON_FAIL(TENON_UNSUPPORTED,
                   "torchscript.bad_output",
                   path,
                   ": forward returns a tuple with ",
                   element.tagKind(),
                   " (expected tensors)");
      }
      tensors.push_back(element.toTensor());
    }
    return tensors;
  }
  TENON_FAIL(TENON_UNSUPPORTED,
             "torchscript.bad_output",
             path,
             ": forward returns ",
             result.tagKind(),
             " (expected a tensor, a tuple or a list of tensors); return these from a wrapper");
}

}  // namespace

ScriptModule::ScriptModule(std::string path) : path_(std::move(path)), module_(load(path_)) {
  read_arguments();
  collect();
}

void ScriptModule::read_arguments() {
  const std::optional<torch::jit::Method> forward = module_.find_method("forward");
  if (!forward.has_value()) {
    TENON_FAIL(TENON_INVALID,
               "torchscript.no_forward",
               path_,
               ": the module has no method forward; export a module that has one");
  }
  const auto& all = forward->function().getSchema().arguments();
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].default_value().has_value()) {
      continue;
    }
    if (!all[i].type()->isSubtypeOf(*c10::TensorType::get())) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "torchscript.bad_argument",
                 path_,
                 ": argument ",
                 all[i].name(),
                 " of forward is ",
                 all[i].type()->annotation_str(),
                 " (expected Tensor); export a wrapper that takes tensors only");
    }
    arguments_.push_back(all[i].name());
  }
  max_arguments_ = all.size() - 1;
}

void ScriptModule::collect() {
  for (const auto& item : module_.named_modules()) {
    const torch::jit::ObjectPtr owner = item.value._ivalue();
    const auto type = owner->type();
    for (size_t i = 0; i < type->numAttributes(); ++i) {
      const bool is_parameter = type->is_parameter(i);
      const c10::IValue value = owner->getSlot(i);
      if (!value.isTensor() || (!is_parameter && !type->is_buffer(i))) {
        continue;
      }
      const std::string name = item.name.empty() ? type->getAttributeName(i)
                                                 : item.name + "." + type->getAttributeName(i);
      add_slot(is_parameter ? parameters_ : buffers_, name, value.toTensor(), {owner, i});
    }
  }
  if (parameters_.empty()) {
    TENON_FAIL(TENON_INVALID,
               "torchscript.no_parameters",
               path_,
               ": the module has no parameters; save it without torch.jit.freeze");
  }
}

void ScriptModule::drop_values() {
  for (Held& held : parameters_) {
    held.value.reset();
  }
}

std::vector<at::Tensor> ScriptModule::run(const std::vector<at::Tensor>& parameters,
                                          const std::vector<at::Tensor>& buffers,
                                          const std::vector<at::Tensor>& inputs,
                                          bool is_train) {
  put(parameters_, parameters);
  put(buffers_, buffers);
  if (is_train_ != is_train) {
    module_.train(is_train);  // visits all submodules
    is_train_ = is_train;
  }
  const torch::jit::GraphOptimizerEnabledGuard unoptimized(false);
  c10::IValue result;
  try {
    result = module_.forward({inputs.begin(), inputs.end()});
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    const auto* const of_torch = dynamic_cast<const c10::Error*>(&error);
    TENON_FAIL(TENON_INVALID,
               "torchscript.forward",
               path_,
               ": forward failed: ",
               last_line(of_torch != nullptr ? of_torch->what_without_backtrace() : error.what()));
  }
  return tensors_of(result, path_);
}
