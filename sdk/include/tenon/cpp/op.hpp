// SPDX-License-Identifier: Apache-2.0
//
// Calls any operator of libtorch by name, without libtorch:
//
//     Tensor y = call_op(exec.host(), "aten::matmul", {a, b});
//
// Keep an `Op` to avoid repeated lookups.
#ifndef TENON_CPP_OP_HPP
#define TENON_CPP_OP_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/op.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* One argument of an operator. It borrows the object it is built from until the call returns, which
 * includes temporaries in the call expression. */
class Arg {
 public:
  Arg() : any_{TENON_ANY_NONE, 0, 0, {}} {}
  // NOLINTBEGIN(google-explicit-constructor): an argument list reads as a call
  Arg(std::nullptr_t) : Arg() {}
  Arg(const tenon_tensor* tensor) {
    any_ = {tensor == nullptr ? uint32_t{TENON_ANY_NONE} : uint32_t{TENON_ANY_TENSOR}, 0, 0, {}};
    // Arguments are borrowed; the operator's schema determines whether it writes to one.
    any_.v.tensor = const_cast<tenon_tensor*>(tensor);
  }
  Arg(const TensorRef& tensor) : Arg(tensor.handle()) {}
  Arg(const Tensor& tensor) : Arg(tensor.handle()) {}
  Arg(const char* text) : any_{TENON_ANY_STRING, 0, 0, {}} { any_.v.s = text; }
  Arg(const std::vector<int64_t>& ints) : any_{TENON_ANY_INTS, 0, ints.size(), {}} {
    any_.v.ints = ints.data();
  }
  Arg(const std::vector<double>& doubles) : any_{TENON_ANY_DOUBLES, 0, doubles.size(), {}} {
    any_.v.doubles = doubles.data();
  }
  Arg(const std::vector<tenon_tensor*>& tensors) : any_{TENON_ANY_TENSORS, 0, tensors.size(), {}} {
    any_.v.tensors = tensors.data();
  }
  Arg(tenon_device device) : any_{TENON_ANY_DEVICE, 0, 0, {}} { any_.v.device = device; }
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Arg(T value) {
    any_ = {TENON_ANY_NONE, 0, 0, {}};
    if constexpr (std::is_same_v<T, bool>) {
      any_.tag = TENON_ANY_BOOL;
      any_.v.b = value ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
      any_.tag = TENON_ANY_INT;
      any_.v.i = static_cast<int64_t>(value);
    } else {
      any_.tag = TENON_ANY_DOUBLE;
      any_.v.d = static_cast<double>(value);
    }
  }
  // NOLINTEND(google-explicit-constructor)

  /* An argument of type dtype, TENON_F32 etc. */
  static Arg dtype(uint32_t value) {
    Arg out;
    out.any_.tag = TENON_ANY_DTYPE;
    out.any_.v.i = value;
    return out;
  }
  /* The default of the schema. */
  static Arg by_default() {
    Arg out;
    out.any_.tag = TENON_ANY_DEFAULT;
    return out;
  }

  const tenon_any& any() const { return any_; }

 private:
  tenon_any any_;
};

/* An operator, looked up once. */
class Op {
 public:
  /* Looks up an operator, for example "aten::add.Tensor".
   *
   * Errors   TENON_NOT_FOUND, with the most similar names
   * Threads  [any] */
  Op(const Host& host, const char* name) : host_(host), name_(name) {
    host.check(host.ops().find(host.get(), name, &op_));
  }

  /* Calls the operator and returns its tensor results, in order; a result that is no tensor gives
   * an absent Tensor.
   *
   * Errors   TENON_INVALID for more than `max_results` results, an argument of the wrong type, or
   *          an error of the operator itself
   * Threads  [step], [worker]
   * Owner    arguments are borrowed; the caller owns the results */
  std::vector<Tensor> call(std::initializer_list<Arg> args, size_t max_results = 16) const {
    std::vector<tenon_any> results(max_results);
    results.resize(call_into(args, results.data(), results.size()));
    std::vector<Tensor> out;
    out.reserve(results.size());
    for (const tenon_any& result : results) {
      out.push_back(tensor_of(result));
    }
    return out;
  }

  /* Calls an operator whose only result is a tensor.
   *
   * Errors   TENON_INVALID, also if there is not exactly one tensor result
   * Threads  [step], [worker] */
  Tensor operator()(std::initializer_list<Arg> args) const {
    tenon_any results[4];
    const size_t num = call_into(args, results, 4);
    Tensor out = num > 0 ? tensor_of(results[0]) : Tensor();
    for (size_t i = 1; i < num; ++i) {
      tensor_of(results[i]);  // released here
    }
    TENON_CHECK(num == 1 && out, "operator ", name_, " does not return one tensor");
    return out;
  }

 private:
  /* Returns the number of `results` that were filled. Few arguments need no allocation, which would
   * be measurable in small calls. */
  size_t call_into(std::initializer_list<Arg> args, tenon_any* results, size_t num) const {
    constexpr size_t kFew = 16;
    tenon_any few[kFew];
    std::vector<tenon_any> many;
    tenon_any* in = few;
    if (args.size() > kFew) {
      many.resize(args.size());
      in = many.data();
    }
    size_t num_args = 0;
    for (const Arg& arg : args) {
      in[num_args++] = arg.any();
    }
    host_.check(host_.ops().call(host_.get(), op_, in, num_args, results, &num));
    return num;
  }

  /* The tensor of a result; absent if the result is no tensor. */
  Tensor tensor_of(const tenon_any& result) const {
    return {host_, result.tag == TENON_ANY_TENSOR ? result.v.tensor : nullptr};
  }

  Host host_;
  std::string name_;
  const tenon_op* op_ = nullptr;
};

/* Calls an operator that returns one tensor; see Op. */
inline Tensor call_op(const Host& host, const char* name, std::initializer_list<Arg> args) {
  return Op(host, name)(args);
}

TENON_NAMESPACE_END

#endif
