// SPDX-License-Identifier: Apache-2.0
//
// Operators by name through the C++ wrapper, against a host that is a table of functions: what
// arrives there, and that every tensor that it hands out is given back.
#include <tenon/cpp/op.hpp>

#include <string>
#include <vector>

#include "tests/support/catch.hpp"

struct tenon_tensor {
  int64_t number;
};
struct tenon_op {
  std::string name;
};

namespace tenon {
namespace {

int num_tensors = 0;  // alive
std::vector<tenon_any> seen;
size_t room = 0;

tenon_tensor* make_tensor(int64_t number) {
  ++num_tensors;
  return new tenon_tensor{number};
}

void release(tenon_tensor* tensor) {
  num_tensors -= tensor != nullptr ? 1 : 0;
  delete tensor;
}

tenon_status* find(const tenon_host*, const char* name, const tenon_op** out) {
  static tenon_op op;
  op.name = name;
  *out = &op;
  return nullptr;
}

// "N": N tensors; "i": an integer.
tenon_status* call(const tenon_host*,
                   const tenon_op* op,
                   const tenon_any* args,
                   size_t num_args,
                   tenon_any* results,
                   size_t* io_num_results) {
  seen.assign(args, args + num_args);
  room = *io_num_results;
  if (op->name == "i") {
    results[0] = {TENON_ANY_INT, 0, 0, {}};
    *io_num_results = 1;
    return nullptr;
  }
  *io_num_results = std::stoul(op->name);
  for (size_t i = 0; i < *io_num_results; ++i) {
    results[i] = {TENON_ANY_TENSOR, 0, 0, {}};
    results[i].v.tensor = make_tensor(static_cast<int64_t>(i));
  }
  return nullptr;
}

const void* get_interface(const tenon_host*, const char* id) {
  static const tenon_op_api ops{sizeof(tenon_op_api), find, call, nullptr};
  static const tenon_tensor_api tensors{sizeof(tenon_tensor_api),
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        release,
                                        nullptr,
                                        nullptr,
                                        nullptr};
  if (id == std::string(TENON_OP_ID)) {
    return &ops;
  }
  return id == std::string(TENON_TENSOR_ID) ? &tensors : nullptr;
}

const tenon_host fake_host{sizeof(tenon_host), 0, 1, "0.1.0", nullptr, get_interface};

}  // namespace

TEST_CASE("an operator gets its arguments in order, and its tensor is owned", "[sdk]") {
  const Host host(&fake_host);
  {
    const Tensor a(host, make_tensor(9));
    const Tensor result = call_op(host, "1", {a, 2, 0.5, true, nullptr, "text"});
    CHECK(result.handle()->number == 0);
    CHECK(num_tensors == 2);
    REQUIRE(seen.size() == 6);
    CHECK(seen[0].v.tensor == a.handle());
    CHECK(seen[1].v.i == 2);
    CHECK(seen[2].v.d == 0.5);
    CHECK(seen[3].tag == TENON_ANY_BOOL);
    CHECK(seen[3].v.b == 1);
    CHECK(seen[4].tag == TENON_ANY_NONE);
    CHECK(seen[5].v.s == std::string("text"));
  }
  CHECK(num_tensors == 0);
}

TEST_CASE("an operator may have many arguments", "[sdk]") {
  const Host host(&fake_host);
  const Op op(host, "1");
  op({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19});
  REQUIRE(seen.size() == 20);
  for (size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i].v.i == static_cast<int64_t>(i));
  }
  op({});
  CHECK(seen.empty());
  CHECK(num_tensors == 0);
}

TEST_CASE("all tensors of an operator are handed out, up to the room that is asked for", "[sdk]") {
  const Host host(&fake_host);
  {
    const std::vector<Tensor> results = Op(host, "3").call({}, 5);
    CHECK(room == 5);
    REQUIRE(results.size() == 3);
    CHECK(results[2].handle()->number == 2);
    CHECK(num_tensors == 3);
  }
  CHECK(num_tensors == 0);
  const std::vector<Tensor> number = Op(host, "i").call({});
  REQUIRE(number.size() == 1);
  CHECK_FALSE(number[0]);
}

TEST_CASE("where one tensor is wanted, other results are an error and are released", "[sdk]") {
  const Host host(&fake_host);
  for (const char* name : {"0", "2", "3", "i"}) {
    INFO(name);
    CHECK_THROWS_WITH(call_op(host, name, {}), contains_text("does not return one tensor"));
    CHECK(num_tensors == 0);
  }
}

}  // namespace tenon
