// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/op_service.hpp"

#include "host/tensor/handle.hpp"
#include "host/tensor/torch_guard.hpp"
#include "host/text/formatted.hpp"
#include "host/text/joined.hpp"
#include "host/text/nearest_name.hpp"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {
namespace {

// Kind of an argument or a result of a schema.
enum class Takes {
  kTensor,
  kTensors,
  kOptionalTensors,
  kInt,
  kInts,
  kFloat,
  kFloats,
  kBool,
  kBools,
  kString,
  kScalar,
  kScalars,
  kDtype,
  kLayout,
  kMemoryFormat,
  kDevice,
  kOther  // Generator, Storage, Dimname, ...: without a tag; NONE or a default may be valid
};

Takes takes_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return Takes::kTensor;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
      return Takes::kInt;
    case c10::TypeKind::FloatType:
    case c10::TypeKind::SymFloatType:
      return Takes::kFloat;
    case c10::TypeKind::BoolType:
    case c10::TypeKind::SymBoolType:
      return Takes::kBool;
    case c10::TypeKind::StringType:
      return Takes::kString;
    case c10::TypeKind::NumberType:
      return Takes::kScalar;
    case c10::TypeKind::ScalarTypeType:
      return Takes::kDtype;
    case c10::TypeKind::LayoutType:
      return Takes::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return Takes::kMemoryFormat;
    case c10::TypeKind::DeviceObjType:
      return Takes::kDevice;
    case c10::TypeKind::ListType: {
      const c10::Type& element = *type.castRaw<c10::ListType>()->getElementType();
      if (element.kind() == c10::TypeKind::OptionalType) {
        const c10::Type& inner = *element.castRaw<c10::OptionalType>()->getElementType();
        return takes_of(inner) == Takes::kTensor ? Takes::kOptionalTensors : Takes::kOther;
      }
      switch (takes_of(element)) {
        case Takes::kTensor:
          return Takes::kTensors;
        case Takes::kInt:
          return Takes::kInts;
        case Takes::kFloat:
          return Takes::kFloats;
        case Takes::kBool:
          return Takes::kBools;
        case Takes::kScalar:
          return Takes::kScalars;
        default:
          return Takes::kOther;
      }
    }
    default:
      return Takes::kOther;
  }
}

struct ArgumentPlan {
  std::string name;
  Takes takes = Takes::kOther;
  bool is_optional = false;
  std::optional<c10::IValue> default_value;
};

}  // namespace
}  // namespace tenon

struct tenon_op {
  c10::OperatorHandle handle;
  std::string schema;
  std::vector<tenon::ArgumentPlan> arguments;
  std::vector<tenon::Takes> results;
};

namespace tenon {
namespace {

// ---- finding ----

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Returns the overloads of the name if there are any, else up to three similar names.
std::string nearest_ops(const c10::OperatorName& wanted) {
  std::vector<std::string> overloads;
  std::vector<std::pair<size_t, std::string>> near;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name == wanted.name) {
      overloads.push_back(full_name(name));
    } else {
      near.emplace_back(edit_distance(name.name, wanted.name), name.name);
    }
  }
  if (!overloads.empty()) {
    std::ranges::sort(overloads);
    return "its overloads are " + joined(overloads);
  }
  std::ranges::sort(near);
  const auto last = std::unique(near.begin(), near.end());
  std::vector<std::string> nearest;
  for (auto it = near.begin(); it != last && it != near.begin() + 3; ++it) {
    nearest.push_back(it->second);
  }
  return "the nearest names are " + joined(nearest);
}

std::unique_ptr<const tenon_op> plan_op(const c10::OperatorHandle& handle) {
  const c10::FunctionSchema& schema = handle.schema();
  std::vector<ArgumentPlan> arguments;
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::Type* type = argument.real_type().get();
    ArgumentPlan plan{.name = argument.name(), .default_value = argument.default_value()};
    if (const auto* const optional = type->castRaw<c10::OptionalType>()) {
      plan.is_optional = true;
      type = optional->getElementType().get();
    }
    plan.takes = takes_of(*type);
    arguments.push_back(std::move(plan));
  }
  std::vector<Takes> results;
  for (const c10::Argument& result : schema.returns()) {
    results.push_back(takes_of(*result.real_type()));
  }
  return std::unique_ptr<const tenon_op>(
      new tenon_op{handle, c10::toString(schema), std::move(arguments), std::move(results)});
}

// Operators that plugins have requested. Never destroyed: plugins keep pointers into it.
struct OpCache {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const tenon_op>, std::less<>> ops;

  static OpCache& instance() {
    static auto* const cache = new OpCache;
    return *cache;
  }
};

const tenon_op* find_op(std::string_view name) {
  OpCache& cache = OpCache::instance();
  {
    const std::lock_guard lock(cache.mutex);
    if (const auto found = cache.ops.find(name); found != cache.ops.end()) {
      return found->second.get();
    }
  }
  const size_t colons = name.find("::");
  const size_t dot = name.find('.', colons == std::string_view::npos ? 0 : colons);
  const c10::OperatorName wanted(
      std::string(name.substr(0, dot)),
      dot == std::string_view::npos ? "" : std::string(name.substr(dot + 1)));
  const std::optional<c10::OperatorHandle> handle = c10::Dispatcher::singleton().findSchema(wanted);
  if (!handle) {
    throw StatusError(TENON_NOT_FOUND,
                      "tensor.unknown_op",
                      "there is no operator '" + std::string(name) + "'; " + nearest_ops(wanted));
  }
  std::unique_ptr<const tenon_op> op = plan_op(*handle);
  const std::lock_guard lock(cache.mutex);
  return cache.ops.try_emplace(std::string(name), std::move(op)).first->second.get();
}

tenon_status* find(const tenon_host* host, const char* name, const tenon_op** out_ref) {
  return torch_guard(host, "find: ", [&] {
    if (name == nullptr || out_ref == nullptr) {
      throw Error("tensor.bad_argument",
                  name == nullptr ? "argument 'name' is null" : "argument 'out_ref' is null");
    }
    *out_ref = find_op(name);
  });
}

// ---- arguments ----

const char* tag_name(uint32_t tag) {
  static constexpr const char* kNames[] = {"NONE",
                                           "TENSOR",
                                           "TENSORS",
                                           "INT",
                                           "INTS",
                                           "DOUBLE",
                                           "DOUBLES",
                                           "BOOL",
                                           "BOOLS",
                                           "STRING",
                                           "DTYPE",
                                           "DEVICE",
                                           "DEFAULT"};
  return tag < std::size(kNames) ? kNames[tag] : "an unknown tag";
}

// Converts an argument for an operator.
class Converter {
 public:
  Converter(const tenon_op& op, size_t index, const tenon_any& any)
      : op_(op), plan_(op.arguments[index]), index_(index), any_(any) {}

  c10::IValue convert() const {
    if (any_.tag == TENON_ANY_DEFAULT) {
      return default_of(op_, index_);
    }
    if (any_.tag == TENON_ANY_NONE) {
      if (!plan_.is_optional) {
        refuse("takes no NONE");
      }
      return {};
    }
    switch (plan_.takes) {
      case Takes::kTensor:
      case Takes::kTensors:
      case Takes::kOptionalTensors:
        return tensors_argument();
      case Takes::kInts:
      case Takes::kFloats:
      case Takes::kBools:
      case Takes::kScalars:
        return list_argument();
      case Takes::kInt:
      case Takes::kFloat:
      case Takes::kBool:
      case Takes::kScalar:
        return number_argument();
      case Takes::kDtype:
      case Takes::kLayout:
      case Takes::kMemoryFormat:
        return enum_argument();
      case Takes::kString:
        require(TENON_ANY_STRING);
        if (any_.v.s == nullptr) {
          refuse("is a null string");
        }
        return std::string(any_.v.s);
      case Takes::kDevice:
        require(TENON_ANY_DEVICE);
        return to_torch(any_.v.device);
      case Takes::kOther:
        break;
    }
    refuse("takes a value that plugins cannot make; leave it NONE or DEFAULT");
  }

  static c10::IValue default_of(const tenon_op& op, size_t index) {
    const std::optional<c10::IValue>& value = op.arguments[index].default_value;
    if (!value) {
      refuse(op, index, "is missing and has no default");
    }
    return *value;
  }

 private:
  [[noreturn]] static void refuse(const tenon_op& op, size_t index, const std::string& why) {
    throw Error("tensor.bad_argument",
                formatted("argument {} '{}' {}; the operator is {}",
                          index,
                          op.arguments[index].name,
                          why,
                          op.schema));
  }
  [[noreturn]] void refuse(const std::string& why) const { refuse(op_, index_, why); }

  void require(uint32_t tag) const {
    if (any_.tag != tag) {
      refuse(std::string("takes ") + tag_name(tag) + ", not " + tag_name(any_.tag));
    }
  }

  c10::IValue tensors_argument() const {
    if (plan_.takes == Takes::kTensor) {
      require(TENON_ANY_TENSOR);
      if (any_.v.tensor == nullptr) {
        refuse("is a null tensor");
      }
      return tensor_of(any_.v.tensor);
    }
    require(TENON_ANY_TENSORS);
    if (plan_.takes == Takes::kTensors) {
      return tensors();
    }
    return optional_tensors();
  }

  c10::IValue list_argument() const {
    switch (plan_.takes) {
      case Takes::kInts:
        require(TENON_ANY_INTS);
        return list_of<int64_t>(any_.v.ints);
      case Takes::kBools:
        require(TENON_ANY_BOOLS);
        return list_of<bool>(any_.v.bools);
      case Takes::kFloats:
        if (any_.tag == TENON_ANY_INTS) {
          return list_of<double>(any_.v.ints);
        }
        require(TENON_ANY_DOUBLES);
        return list_of<double>(any_.v.doubles);
      default:
        if (any_.tag == TENON_ANY_INTS) {
          return list_of<at::Scalar>(any_.v.ints);
        }
        require(TENON_ANY_DOUBLES);
        return list_of<at::Scalar>(any_.v.doubles);
    }
  }

  c10::IValue number_argument() const {
    if (plan_.takes == Takes::kFloat) {
      return number();
    }
    if (plan_.takes != Takes::kScalar) {
      require(plan_.takes == Takes::kInt ? TENON_ANY_INT : TENON_ANY_BOOL);
    }
    return any_.tag == TENON_ANY_INT    ? c10::IValue(any_.v.i)
           : any_.tag == TENON_ANY_BOOL ? c10::IValue(any_.v.b != 0)
                                        : c10::IValue(number());
  }

  c10::IValue enum_argument() const {
    if (plan_.takes != Takes::kDtype || any_.tag != TENON_ANY_DTYPE) {
      require(TENON_ANY_INT);
    }
    const auto count = [](auto end) { return static_cast<int64_t>(end); };
    return number_below(plan_.takes == Takes::kDtype    ? count(at::ScalarType::Undefined)
                        : plan_.takes == Takes::kLayout ? count(at::Layout::NumOptions)
                                                        : count(at::MemoryFormat::NumOptions));
  }

  double number() const {
    if (any_.tag == TENON_ANY_INT) {
      return static_cast<double>(any_.v.i);
    }
    require(TENON_ANY_DOUBLE);
    return any_.v.d;
  }

  // libtorch casts these numbers to its enums without checks.
  int64_t number_below(int64_t limit) const {
    if (any_.v.i < 0 || any_.v.i >= limit) {
      refuse(formatted("has no such value as {}", any_.v.i));
    }
    return any_.v.i;
  }

  void check_data(const void* data) const {
    if (data == nullptr && any_.count > 0) {
      refuse("is a list at a null address");
    }
  }

  template <class To, class From>
  c10::List<To> list_of(const From* data) const {
    check_data(data);
    c10::List<To> list;
    list.reserve(any_.count);
    for (size_t i = 0; i < any_.count; ++i) {
      list.push_back(To(data[i]));
    }
    return list;
  }

  c10::List<at::Tensor> tensors() const {
    check_data(any_.v.tensors);
    c10::List<at::Tensor> list;
    list.reserve(any_.count);
    for (size_t i = 0; i < any_.count; ++i) {
      if (any_.v.tensors[i] == nullptr) {
        refuse("has a null tensor in its list");
      }
      list.push_back(tensor_of(any_.v.tensors[i]));
    }
    return list;
  }

  c10::List<std::optional<at::Tensor>> optional_tensors() const {
    check_data(any_.v.tensors);
    c10::List<std::optional<at::Tensor>> list;
    list.reserve(any_.count);
    for (size_t i = 0; i < any_.count; ++i) {
      const tenon_tensor* const tensor = any_.v.tensors[i];
      list.push_back(tensor != nullptr ? std::optional(tensor_of(tensor)) : std::nullopt);
    }
    return list;
  }

  const tenon_op& op_;
  const ArgumentPlan& plan_;
  size_t index_;
  const tenon_any& any_;
};

// ---- results ----

// Converts results for the plugin. If a result fails, the earlier handles are released.
class Results {
 public:
  explicit Results(const tenon_op& op) : op_(op) {}
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;
  ~Results() {
    for (tenon_tensor* const handle : handles_) {
      release_handle(handle);
    }
  }

  void add(const c10::IValue& value, Takes kind) {
    if (value.isTensor()) {
      add_tensor(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) {
        add_tensor(tensor);
      }
    } else if (value.isNone()) {
      add_any(TENON_ANY_NONE);
    } else if (value.isInt() || value.isSymInt()) {
      add_any(kind == Takes::kDtype ? TENON_ANY_DTYPE : TENON_ANY_INT).v.i = value.toInt();
    } else if (value.isDouble() || value.isSymFloat()) {
      add_any(TENON_ANY_DOUBLE).v.d = value.toDouble();
    } else if (value.isBool() || value.isSymBool()) {
      add_any(TENON_ANY_BOOL).v.b = value.toBool() ? 1 : 0;
    } else if (value.isDevice()) {
      add_any(TENON_ANY_DEVICE).v.device = to_abi(value.toDevice());
    } else {
      throw StatusError(TENON_UNSUPPORTED,
                        "tensor.op_failed",
                        "a result is " + value.tagKind() +
                            ", which plugins cannot read; the operator is " + op_.schema);
    }
  }

  size_t size() const { return values_.size(); }

  void hand_out(tenon_any* results) {
    std::ranges::copy(values_, results);
    handles_.clear();
  }

 private:
  tenon_any& add_any(uint32_t tag) {
    tenon_any any = {};
    any.tag = tag;
    return values_.emplace_back(any);
  }

  void add_tensor(const at::Tensor& tensor) {
    if (!tensor.defined()) {
      add_any(TENON_ANY_NONE);
      return;
    }
    handles_.reserve(handles_.size() + 1);
    tenon_any& any = add_any(TENON_ANY_TENSOR);
    any.v.tensor = new_handle(tensor);
    handles_.push_back(any.v.tensor);
  }

  const tenon_op& op_;
  // Nearly all operators have few results, which need no allocation here.
  c10::SmallVector<tenon_any, 4> values_;
  c10::SmallVector<tenon_tensor*, 4> handles_;
};

void check_room(const tenon_op& op, size_t num_results, size_t room) {
  if (num_results > room) {
    throw Error("tensor.bad_argument",
                formatted("there are {} results and room for {}; the operator is {}",
                          num_results,
                          room,
                          op.schema));
  }
}

void run_op(const tenon_op& op,
            const tenon_any* args,
            size_t num_args,
            tenon_any* results,
            size_t* io_num_results) {
  if ((args == nullptr && num_args > 0) || io_num_results == nullptr ||
      (results == nullptr && *io_num_results > 0)) {
    throw Error("tensor.bad_argument", "args, results or io_num_results is null");
  }
  if (num_args > op.arguments.size()) {
    throw Error(
        "tensor.bad_argument",
        formatted(
            "there are {} arguments, which are too many; the operator is {}", num_args, op.schema));
  }
  // Checked before the operator runs, which may change its arguments, as far as the number of
  // results is known. A list may be empty.
  const auto is_list = [](Takes kind) { return kind == Takes::kTensors; };
  check_room(op,
             op.results.size() - static_cast<size_t>(std::ranges::count_if(op.results, is_list)),
             *io_num_results);

  torch::jit::Stack stack;
  stack.reserve(std::max(op.arguments.size(), op.results.size()));
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    stack.push_back(i < num_args ? Converter(op, i, args[i]).convert()
                                 : Converter::default_of(op, i));
  }
  op.handle.callBoxed(stack);

  Results outgoing(op);
  for (size_t i = 0; i < stack.size(); ++i) {
    outgoing.add(stack[i], i < op.results.size() ? op.results[i] : Takes::kOther);
  }
  check_room(op, outgoing.size(), *io_num_results);
  outgoing.hand_out(results);
  *io_num_results = outgoing.size();
}

tenon_status* call(const tenon_host* host,
                   const tenon_op* op,
                   const tenon_any* args,
                   size_t num_args,
                   tenon_any* results,
                   size_t* io_num_results) {
  if (op == nullptr) {
    return make_status(host, TENON_INVALID, "tensor.bad_argument", "argument 'op' is null");
  }
  try {
    run_op(*op, args, num_args, results, io_num_results);
    return nullptr;
  } catch (...) {
    // Build the name only here, and not for each call.
    return guard(host, [&] {
      const std::string name = full_name(op->handle.operator_name());
      return status_of_torch_exception(host, (name + ": ").c_str());
    });
  }
}

const char* schema(const tenon_op* op) {
  return op != nullptr ? op->schema.c_str() : "";
}

constinit std::atomic<const tenon_op_api*> op_replacement = nullptr;  // of the whole table

}  // namespace

void replace_op_service(const tenon_op_api* table) noexcept {
  op_replacement.store(table, std::memory_order_release);
}

const tenon_op_api* op_service() noexcept {
  static constexpr tenon_op_api kApi = {
      .struct_size = sizeof(tenon_op_api),
      .find = find,
      .call = call,
      .schema = schema,
  };
  const tenon_op_api* const other = op_replacement.load(std::memory_order_acquire);
  return other != nullptr ? other : &kApi;
}

}  // namespace tenon
