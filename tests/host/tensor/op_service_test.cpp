// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/op_service.hpp"

#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <array>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

const auto* const kOpHost = reinterpret_cast<const tenon_host*>(0x40);

// ---- values, as a plugin in C would write them ----

template <class Set>
tenon_any any(uint32_t tag, size_t count, Set set) {
  tenon_any value = {};
  value.tag = tag;
  value.count = count;
  set(value);
  return value;
}
tenon_any none() {
  return any(TENON_ANY_NONE, 0, [](auto&) {});
}
tenon_any by_default() {
  return any(TENON_ANY_DEFAULT, 0, [](auto&) {});
}
tenon_any tensor(const at::Tensor& t) {
  return any(
      TENON_ANY_TENSOR, 0, [&](auto& x) { x.v.tensor = const_cast<tenon_tensor*>(borrow(t)); });
}
tenon_any tensors(const std::vector<tenon_tensor*>& list) {
  return any(TENON_ANY_TENSORS, list.size(), [&](auto& x) { x.v.tensors = list.data(); });
}
tenon_any integer(int64_t i) {
  return any(TENON_ANY_INT, 0, [&](auto& x) { x.v.i = i; });
}
tenon_any int_list(const std::vector<int64_t>& list) {
  return any(TENON_ANY_INTS, list.size(), [&](auto& x) { x.v.ints = list.data(); });
}
tenon_any number(double d) {
  return any(TENON_ANY_DOUBLE, 0, [&](auto& x) { x.v.d = d; });
}
tenon_any numbers(const std::vector<double>& list) {
  return any(TENON_ANY_DOUBLES, list.size(), [&](auto& x) { x.v.doubles = list.data(); });
}
tenon_any boolean(bool b) {
  return any(TENON_ANY_BOOL, 0, [&](auto& x) { x.v.b = b; });
}
tenon_any string(const char* s) {
  return any(TENON_ANY_STRING, 0, [&](auto& x) { x.v.s = s; });
}
tenon_any dtype(int64_t type) {
  return any(TENON_ANY_DTYPE, 0, [&](auto& x) { x.v.i = type; });
}
tenon_any device(tenon_device target) {
  return any(TENON_ANY_DEVICE, 0, [&](auto& x) { x.v.device = target; });
}

tenon_tensor* handle(const at::Tensor& t) {
  return const_cast<tenon_tensor*>(borrow(t));
}

const tenon_op* find(const char* name) {
  const tenon_op* op = nullptr;
  const StatusText text = take(op_service()->find(kOpHost, name, &op));
  INFO(text.message);
  REQUIRE(text.ok());
  return op;
}

// The results of a call that must succeed; tensors among them are released at the end.
struct Called {
  std::vector<tenon_any> values;
  std::vector<at::Tensor> tensors;

  explicit Called(const char* name, const std::vector<tenon_any>& args, size_t room = 8) {
    values.resize(room);
    size_t count = room;
    const StatusText text = take(
        op_service()->call(kOpHost, find(name), args.data(), args.size(), values.data(), &count));
    INFO(name << ": " << text.message);
    REQUIRE(text.ok());
    values.resize(count);
    for (const tenon_any& value : values) {
      if (value.tag == TENON_ANY_TENSOR) {
        tensors.push_back(take_handle(value.v.tensor));
      }
    }
  }
};

at::Tensor one(const char* name, const std::vector<tenon_any>& args) {
  const Called called(name, args, 1);
  REQUIRE(called.tensors.size() == 1);
  return called.tensors[0];
}

StatusText failure(const char* name, const std::vector<tenon_any>& args, size_t room = 8) {
  std::vector<tenon_any> values(room);
  size_t count = room;
  const StatusText text = take(
      op_service()->call(kOpHost, find(name), args.data(), args.size(), values.data(), &count));
  CHECK_FALSE(text.ok());
  CHECK(count == room);
  for (const tenon_any& value : values) {
    CHECK(value.v.tensor == nullptr);
  }
  return text;
}

// ---- finding ----

TEST_CASE("an operator is found by name and overload, and only once", "[tensor]") {
  const tenon_op* const add = find("aten::add.Tensor");
  CHECK(add == find("aten::add.Tensor"));
  CHECK(add != find("aten::add.Scalar"));
  CHECK(std::string(op_service()->schema(add)) ==
        "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  CHECK(std::string(op_service()->schema(find("aten::matmul"))) ==
        "aten::matmul(Tensor self, Tensor other) -> Tensor");
  CHECK(std::string(op_service()->schema(nullptr)).empty());
}

TEST_CASE("many threads find the same operator", "[tensor]") {
  std::array<const tenon_op*, 8> found = {};
  std::vector<std::thread> threads;
  for (const tenon_op*& op : found) {
    threads.emplace_back([&op] { release(op_service()->find(kOpHost, "aten::tanh", &op)); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const tenon_op* const op : found) {
    CHECK(op != nullptr);
    CHECK(op == found[0]);
  }
}

TEST_CASE("a name that is no operator's is answered with the nearest", "[tensor]") {
  const auto text_of = [](const char* name) {
    const tenon_op* op = nullptr;
    const StatusText text = take(op_service()->find(kOpHost, name, &op));
    CHECK(text.code == TENON_NOT_FOUND);
    CHECK(text.id == "tensor.unknown_op");
    CHECK(text.host == kOpHost);
    CHECK(op == nullptr);
    return text.message;
  };
  CHECK_THAT(text_of("aten::matmull"), contains_text("aten::matmul"));
  CHECK_THAT(text_of("aten::add"), contains_text("its overloads are"));
  CHECK_THAT(text_of("aten::add"), contains_text("aten::add.Tensor"));
  CHECK_THAT(text_of("aten::add.tensor"), contains_text("aten::add.Tensor"));
  CHECK_THAT(text_of(""), contains_text("there is no operator ''"));
  const tenon_op* op = nullptr;
  CHECK(take(op_service()->find(kOpHost, nullptr, &op)).code == TENON_INVALID);
  CHECK(take(op_service()->find(kOpHost, "aten::add.Tensor", nullptr)).code == TENON_INVALID);
}

// ---- calls give what libtorch gives ----

TEST_CASE("arithmetic takes tensors and scalars of either kind", "[tensor]") {
  const at::Tensor a = at::randn({3, 4});
  const at::Tensor b = at::randn({3, 4});
  CHECK(at::equal(one("aten::add.Tensor", {tensor(a), tensor(b)}), a + b));
  CHECK(
      at::equal(one("aten::add.Tensor", {tensor(a), tensor(b), number(0.5)}), at::add(a, b, 0.5)));
  CHECK(at::equal(one("aten::add.Tensor", {tensor(a), tensor(b), integer(2)}), at::add(a, b, 2)));
  CHECK(at::equal(one("aten::mul.Scalar", {tensor(a), integer(3)}), a * 3));
  const at::Tensor whole = at::arange(4);
  CHECK(one("aten::mul.Scalar", {tensor(whole), integer(3)}).scalar_type() == at::kLong);
  CHECK(one("aten::mul.Scalar", {tensor(whole), number(3.0)}).scalar_type() == at::kFloat);
  CHECK(one("aten::eq.Scalar", {tensor(whole), boolean(true)}).sum().item<int>() == 1);
  const at::Tensor c = at::randn({4, 5});
  CHECK(at::equal(one("aten::matmul", {tensor(a), tensor(c)}), at::matmul(a, c)));
}

TEST_CASE("reductions take lists, flags and dtypes", "[tensor]") {
  const at::Tensor a = at::randn({2, 3, 4});
  CHECK(at::equal(one("aten::sum.dim_IntList", {tensor(a), int_list({0, 2})}),
                  at::sum(a, at::IntArrayRef({0, 2}))));
  CHECK(at::equal(
      one("aten::sum.dim_IntList", {tensor(a), int_list({1}), boolean(true), dtype(TENON_F64)}),
      at::sum(a, at::IntArrayRef({1}), true, at::kDouble)));
  CHECK(
      at::equal(one("aten::sum.dim_IntList", {tensor(a), none(), by_default(), none()}), a.sum()));
  CHECK(at::equal(one("aten::softmax.int", {tensor(a), integer(-1)}), at::softmax(a, -1)));
  CHECK(at::equal(one("aten::softmax.int", {tensor(a), integer(1), integer(TENON_F64)}),
                  at::softmax(a, 1, at::kDouble)));
}

TEST_CASE("lists of tensors go in and come out", "[tensor]") {
  const at::Tensor a = at::randn({2, 3});
  const at::Tensor b = at::randn({4, 3});
  const at::Tensor both = one("aten::cat", {tensors({handle(a), handle(b)}), integer(0)});
  CHECK(at::equal(both, at::cat({a, b})));

  const Called parts("aten::split.Tensor", {tensor(both), integer(4)});
  REQUIRE(parts.tensors.size() == 2);
  CHECK(at::equal(parts.tensors[0], both.slice(0, 0, 4)));
  CHECK(at::equal(parts.tensors[1], both.slice(0, 4)));

  const Called sizes("aten::split_with_sizes", {tensor(both), int_list({1, 2, 3})});
  CHECK(sizes.tensors.size() == 3);

  const Called sum("aten::_foreach_add.ScalarList",
                   {tensors({handle(a), handle(b)}), numbers({1.0, 2.0})});
  REQUIRE(sum.tensors.size() == 2);
  CHECK(at::equal(sum.tensors[1], b + 2.0));
}

TEST_CASE("layers of a model can be called", "[tensor]") {
  const at::Tensor ids = at::tensor({3, 0, 3});
  const at::Tensor table = at::randn({5, 8});
  CHECK(at::equal(one("aten::embedding", {tensor(table), tensor(ids), integer(-1)}),
                  at::embedding(table, ids)));

  const at::Tensor x = at::randn({2, 8});
  const at::Tensor gain = at::randn({8});
  CHECK(at::equal(one("aten::layer_norm", {tensor(x), int_list({8}), tensor(gain)}),
                  at::layer_norm(x, {8}, gain)));
  CHECK(
      at::equal(one("aten::layer_norm",
                    {tensor(x), int_list({8}), none(), tensor(gain), number(1e-3), boolean(false)}),
                at::layer_norm(x, {8}, {}, gain, 1e-3, false)));

  const at::Tensor q = at::randn({1, 2, 4, 8});
  CHECK(at::equal(one("aten::scaled_dot_product_attention",
                      {tensor(q), tensor(q), tensor(q), none(), integer(0), boolean(true)}),
                  at::scaled_dot_product_attention(q, q, q, {}, 0.0, true)));
}

TEST_CASE("a null entry of a list is an absent tensor", "[tensor]") {
  at::Tensor a = at::zeros({3, 4});
  const at::Tensor column = at::tensor({1, 3});
  const at::Tensor values = at::ones({3, 2});
  const at::Tensor expected = a.index_put({{}, column}, values);
  CHECK(at::equal(
      one("aten::index_put", {tensor(a), tensors({nullptr, handle(column)}), tensor(values)}),
      expected));
  const at::Tensor changed =
      one("aten::index_put_", {tensor(a), tensors({nullptr, handle(column)}), tensor(values)});
  CHECK(changed.is_same(a));
  CHECK(at::equal(a, expected));
}

TEST_CASE("operators draw from the default generator", "[tensor]") {
  const at::Tensor a = at::ones({100});
  auto generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(5);
  const at::Tensor expected = at::dropout(a, 0.5, true);
  generator.set_current_seed(5);
  CHECK(at::equal(one("aten::dropout", {tensor(a), number(0.5), boolean(true)}), expected));
  CHECK(at::equal(one("aten::bernoulli.p", {tensor(a), number(0.0), none()}), at::zeros({100})));
}

TEST_CASE("factories take dtype, layout, device and memory format", "[tensor]") {
  const at::Tensor zeros = one(
      "aten::zeros",
      {int_list({2, 2}), dtype(TENON_I32), integer(0), device({TENON_CPU, -1}), boolean(false)});
  CHECK(at::equal(zeros, at::zeros({2, 2}, at::kInt)));
  const at::Tensor image = at::randn({1, 2, 3, 4});
  const at::Tensor last =
      one("aten::clone",
          {tensor(image), integer(static_cast<int64_t>(at::MemoryFormat::ChannelsLast))});
  CHECK(last.is_contiguous(at::MemoryFormat::ChannelsLast));
  CHECK(one("aten::empty.memory_format", {int_list({2}), none(), none(), device({TENON_META, -1})})
            .is_meta());
}

TEST_CASE("strings, lists of numbers and lists of flags are passed on", "[tensor]") {
  const at::Tensor a = at::tensor({-7.0, 7.0});
  const at::Tensor b = at::tensor({2.0, 2.0});
  CHECK(at::equal(one("aten::div.Tensor_mode", {tensor(a), tensor(b), string("floor")}),
                  at::div(a, b, "floor")));
  CHECK(at::equal(one("aten::div.Tensor_mode", {tensor(a), tensor(b), none()}), a / b));

  const at::Tensor image = at::randn({1, 1, 4, 4});
  CHECK(at::equal(one("aten::upsample_nearest2d.vec", {tensor(image), none(), numbers({2.0, 2.0})}),
                  at::upsample_nearest2d(image, {}, at::ArrayRef<double>({2.0, 2.0}))));
  CHECK(at::equal(one("aten::upsample_nearest2d.vec", {tensor(image), none(), int_list({2, 2})}),
                  at::upsample_nearest2d(image, {}, at::ArrayRef<double>({2.0, 2.0}))));

  // bool[3] output_mask
  const at::Tensor x = at::randn({2, 3});
  const auto [y, mean, rstd] = at::native_layer_norm(x, {3}, {}, {}, 1e-5);
  const std::array<uint32_t, 3> mask = {1, 0, 0};
  const tenon_any flags =
      any(TENON_ANY_BOOLS, mask.size(), [&](auto& value) { value.v.bools = mask.data(); });
  const Called called(
      "aten::native_layer_norm_backward",
      {tensor(y), tensor(x), int_list({3}), tensor(mean), tensor(rstd), none(), none(), flags});
  REQUIRE(called.values.size() == 3);
  CHECK(called.values[0].tag == TENON_ANY_TENSOR);
  CHECK(called.values[1].tag == TENON_ANY_NONE);  // an undefined tensor
  CHECK(called.values[2].tag == TENON_ANY_NONE);
}

TEST_CASE("results that are no tensors keep their kinds", "[tensor]") {
  const at::Tensor a = at::full({1}, 2.5);
  const at::Tensor n = at::tensor({int64_t{7}});
  const at::Tensor yes = at::ones({1}, at::kBool);
  const auto first = [](const char* name, const std::vector<tenon_any>& args) {
    const Called called(name, args, 1);
    REQUIRE(called.values.size() == 1);
    return called.values[0];
  };
  CHECK(first("aten::item", {tensor(a)}).tag == TENON_ANY_DOUBLE);
  CHECK(first("aten::item", {tensor(a)}).v.d == 2.5);
  CHECK(first("aten::item", {tensor(n)}).tag == TENON_ANY_INT);
  CHECK(first("aten::item", {tensor(n)}).v.i == 7);
  CHECK(first("aten::item", {tensor(yes)}).tag == TENON_ANY_BOOL);
  CHECK(first("aten::size.int", {tensor(a), integer(0)}).v.i == 1);
  CHECK(first("aten::equal", {tensor(a), tensor(a)}).v.b);
  const tenon_any type = first("aten::result_type.Tensor", {tensor(a), tensor(n)});
  CHECK(type.tag == TENON_ANY_DTYPE);
  CHECK(type.v.i == TENON_F32);
  const Called two("aten::max.dim", {tensor(a), integer(0)});
  CHECK(two.tensors.size() == 2);
}

TEST_CASE("operators of other libraries are called like libtorch's own", "[tensor]") {
  auto library = torch::Library(torch::Library::FRAGMENT, "tenon_test", std::nullopt, "", 0);
  library.def("twice(Tensor x, Device? at=None, int[] extra=[1, 2]) -> (Tensor, Device)");
  library.impl("twice",
               [](const at::Tensor& x, std::optional<at::Device> target, at::IntArrayRef extra) {
                 return std::tuple(x * 2 + extra.size(), target.value_or(at::Device(at::kCPU)));
               });
  const at::Tensor a = at::ones({2});
  const Called called("tenon_test::twice", {tensor(a)});
  REQUIRE(called.values.size() == 2);
  CHECK(at::equal(called.tensors[0], at::full({2}, 4.0)));
  CHECK(called.values[1].tag == TENON_ANY_DEVICE);
  CHECK(called.values[1].v.device.type == TENON_CPU);
}

// ---- autograd ----

TEST_CASE("calls are recorded by autograd", "[tensor]") {
  const at::Tensor w = at::randn({3, 2}).requires_grad_(true);
  const at::Tensor x = at::randn({4, 3});
  const at::Tensor y = one("aten::matmul", {tensor(x), tensor(w)});
  const at::Tensor loss = one("aten::sum", {tensor(one("aten::tanh", {tensor(y)}))});
  CHECK(loss.requires_grad());
  const auto grads = torch::autograd::grad({loss}, {w});

  const at::Tensor direct = at::tanh(at::matmul(x, w)).sum();
  CHECK(at::equal(grads[0], torch::autograd::grad({direct}, {w})[0]));

  const at::NoGradGuard no_grad;
  CHECK_FALSE(one("aten::matmul", {tensor(x), tensor(w)}).requires_grad());
}

// ---- what is refused ----

TEST_CASE("arguments that a schema does not take are named", "[tensor]") {
  const at::Tensor a = at::ones({2});
  const StatusText text = failure("aten::add.Tensor", {tensor(a), tensor(a), string("x")});
  CHECK(text.code == TENON_INVALID);
  CHECK(text.id == "tensor.bad_argument");
  CHECK(text.host == kOpHost);
  CHECK_THAT(text.message, contains_text("argument 2 'alpha' takes DOUBLE, not STRING"));
  CHECK_THAT(text.message, contains_text("aten::add.Tensor(Tensor self"));

  CHECK_THAT(failure("aten::add.Tensor", {tensor(a)}).message,
             contains_text("argument 1 'other' is missing"));
  CHECK_THAT(failure("aten::add.Tensor", {tensor(a), none()}).message,
             contains_text("'other' takes no NONE"));
  CHECK_THAT(failure("aten::add.Tensor", {tensor(a), by_default()}).message,
             contains_text("has no default"));
  CHECK_THAT(failure("aten::add.Tensor", {tensor(a), integer(1)}).message,
             contains_text("takes TENSOR, not INT"));
  CHECK_THAT(
      failure("aten::add.Tensor", {tensor(a), any(TENON_ANY_TENSOR, 0, [](auto&) {})}).message,
      contains_text("is a null tensor"));
  CHECK_THAT(failure("aten::tanh", {tensor(a), tensor(a)}).message, contains_text("too many"));
  CHECK_THAT(failure("aten::cat", {tensors({nullptr})}).message,
             contains_text("null tensor in its list"));
  CHECK_THAT(failure("aten::cat", {any(TENON_ANY_TENSORS, 2, [](auto&) {})}).message,
             contains_text("list at a null address"));
  CHECK_THAT(failure("aten::softmax.int", {tensor(a), number(0.0)}).message,
             contains_text("takes INT, not DOUBLE"));
  CHECK_THAT(failure("aten::softmax.int", {tensor(a), integer(0), dtype(999)}).message,
             contains_text("has no such value as 999"));
  CHECK_THAT(failure("aten::clone", {tensor(a), integer(-1)}).message,
             contains_text("has no such value as -1"));
  CHECK_THAT(failure("aten::zeros", {int_list({1}), none(), integer(1000)}).message,
             contains_text("has no such value"));
  CHECK_THAT(failure("aten::zeros", {int_list({1}), none(), none(), device({55, 0})}).message,
             contains_text("device type 55"));
  CHECK_THAT(failure("aten::bernoulli.p", {tensor(a), number(0.5), integer(3)}).message,
             contains_text("leave it NONE or DEFAULT"));
  CHECK_THAT(failure("aten::div.Tensor_mode",
                     {tensor(a), tensor(a), any(TENON_ANY_STRING, 0, [](auto&) {})})
                 .message,
             contains_text("is a null string"));
  CHECK_THAT(failure("aten::add.Tensor", {tensor(a), any(99, 0, [](auto&) {})}).message,
             contains_text("not an unknown tag"));
}

TEST_CASE("what an operator throws is a status without a backtrace", "[tensor]") {
  const at::Tensor a = at::ones({2, 3});
  const StatusText text = failure("aten::matmul", {tensor(a), tensor(a)});
  CHECK(text.code == TENON_INVALID);
  CHECK(text.id == "tensor.op_failed");
  CHECK_THAT(text.message, contains_text("aten::matmul: mat1 and mat2 shapes"));
  CHECK(text.message.find("Exception raised") == std::string::npos);
  CHECK(failure("aten::zeros", {int_list({int64_t{1} << 58})}).code == TENON_OUT_OF_MEMORY);
}

TEST_CASE("too little room for results leaves them with nobody", "[tensor]") {
  at::Tensor a = at::zeros({4});
  CHECK_THAT(failure("aten::add_.Scalar", {tensor(a), integer(1)}, 0).message,
             contains_text("1 results and room for 0"));
  CHECK(at::equal(a, at::zeros({4})));  // seen before the operator ran
  CHECK_THAT(failure("aten::split.Tensor", {tensor(a), integer(1)}, 3).message,
             contains_text("4 results and room for 3"));
  CHECK(a.use_count() == 1);
}

TEST_CASE("results that plugins cannot read are unsupported", "[tensor]") {
  auto library = torch::Library(torch::Library::FRAGMENT, "tenon_test", std::nullopt, "", 0);
  library.def("name_of(Tensor x) -> (Tensor, str)");
  library.impl("name_of", [](const at::Tensor& x) { return std::tuple(x, std::string("x")); });
  const at::Tensor a = at::ones({2, 3});
  const StatusText text = failure("tenon_test::name_of", {tensor(a)});
  CHECK(text.code == TENON_UNSUPPORTED);
  CHECK_THAT(text.message, contains_text("a result is String"));
  CHECK(a.use_count() == 1);  // the handle of the first result is gone
}

TEST_CASE("null pointers to an operator call are errors", "[tensor]") {
  const at::Tensor a = at::ones({2});
  const std::array<tenon_any, 1> args = {tensor(a)};
  std::array<tenon_any, 1> results = {};
  size_t count = 1;
  const tenon_op* const tanh = find("aten::tanh");
  const tenon_op_api& api = *op_service();
  const auto is_invalid = [](tenon_status* status) { return take(status).code == TENON_INVALID; };
  CHECK(is_invalid(api.call(kOpHost, nullptr, args.data(), 1, results.data(), &count)));
  CHECK(is_invalid(api.call(kOpHost, tanh, nullptr, 1, results.data(), &count)));
  CHECK(is_invalid(api.call(kOpHost, tanh, args.data(), 1, nullptr, &count)));
  CHECK(is_invalid(api.call(kOpHost, tanh, args.data(), 1, results.data(), nullptr)));
}

}  // namespace
}  // namespace tenon
