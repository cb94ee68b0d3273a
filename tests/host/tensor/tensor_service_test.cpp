// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/tensor_service.hpp"

#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/ATen.h>
#include <ATen/dlpack.h>

#include <array>
#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

constexpr tenon_device kCpu = {TENON_CPU, -1};
const auto* const kServiceHost = reinterpret_cast<const tenon_host*>(0x40);

TEST_CASE("info describes a tensor without copying it", "[tensor]") {
  const at::Tensor tensor = at::arange(12, at::kInt).reshape({3, 4}).t();
  tenon_tensor_info info = {};
  info.struct_size = sizeof(info);
  REQUIRE(take(tensor_service()->info(borrow(tensor), &info)).ok());
  CHECK(info.dtype == TENON_I32);
  CHECK(info.ndim == 2);
  CHECK(info.device.type == TENON_CPU);
  CHECK(std::vector<int64_t>(info.shape_ref, info.shape_ref + 2) == std::vector<int64_t>{4, 3});
  CHECK(std::vector<int64_t>(info.strides_ref, info.strides_ref + 2) == std::vector<int64_t>{1, 4});
  CHECK(info.numel == 12);
  CHECK(info.data == tensor.data_ptr());
  CHECK(info.is_contiguous == 0);
  CHECK(info.requires_grad == 0);
}

TEST_CASE("info gives no data where there is none", "[tensor]") {
  tenon_tensor_info info = {};
  info.struct_size = sizeof(info);
  const at::Tensor meta = at::empty({2, 2}, at::TensorOptions().device(at::kMeta));
  REQUIRE(take(tensor_service()->info(borrow(meta), &info)).ok());
  CHECK(info.device.type == TENON_META);
  CHECK(info.data == nullptr);
  CHECK(info.numel == 4);
  const at::Tensor empty = at::empty({0, 2}).requires_grad_(true);
  REQUIRE(take(tensor_service()->info(borrow(empty), &info)).ok());
  CHECK(info.data == nullptr);
  CHECK(info.requires_grad == 1);
  CHECK(info.is_contiguous == 1);
}

TEST_CASE("info refuses what it cannot describe", "[tensor]") {
  tenon_tensor_info info = {};
  const at::Tensor tensor = at::ones({1});
  CHECK(take(tensor_service()->info(borrow(tensor), &info)).id == "plugin.bad_struct");
  info.struct_size = sizeof(info);
  info.dtype = 77;
  const at::Tensor complex = at::ones({1}, at::kComplexFloat);
  CHECK(take(tensor_service()->info(borrow(complex), &info)).code == TENON_INVALID);
  const at::Tensor sparse = at::ones({2, 2}).to_sparse();
  CHECK(take(tensor_service()->info(borrow(sparse), &info)).code == TENON_INVALID);
  const at::Tensor undefined;
  CHECK(take(tensor_service()->info(borrow(undefined), &info)).code == TENON_INVALID);
  CHECK(info.dtype == 77);
}

TEST_CASE("new tensors have the shape, dtype and value asked for", "[tensor]") {
  const tenon_tensor_api& api = *tensor_service();
  const std::array<int64_t, 2> shape = {2, 3};
  HandleGuard tensor;
  REQUIRE(take(api.empty(kServiceHost, TENON_BF16, kCpu, 2, shape.data(), tensor.out())).ok());
  CHECK(tensor.tensor().sizes() == at::IntArrayRef({2, 3}));
  CHECK(tensor.tensor().scalar_type() == at::kBFloat16);
  CHECK(tensor.tensor().is_contiguous());

  REQUIRE(
      take(api.full(kServiceHost, TENON_I64, kCpu, 2, shape.data(), -100.0, tensor.out())).ok());
  CHECK(at::equal(tensor.tensor(), at::full({2, 3}, -100, at::kLong)));
  REQUIRE(take(api.full(kServiceHost, TENON_F64, kCpu, 0, nullptr, 0.5, tensor.out())).ok());
  CHECK(tensor.tensor().dim() == 0);
  double value = 0.0;
  CHECK(take(api.item(kServiceHost, tensor.get(), &value)).ok());
  CHECK(value == 0.5);
  REQUIRE(take(api.full(kServiceHost, TENON_BOOL, kCpu, 2, shape.data(), 1.0, tensor.out())).ok());
  CHECK(tensor.tensor().all().item<bool>());
  REQUIRE(take(api.empty(kServiceHost, TENON_F32, {TENON_META, -1}, 2, shape.data(), tensor.out()))
              .ok());
  CHECK(tensor.tensor().is_meta());
}

TEST_CASE("wrong arguments make no tensor", "[tensor]") {
  const tenon_tensor_api& api = *tensor_service();
  const std::array<int64_t, 2> negative = {2, -3};
  const std::array<int64_t, 2> huge = {std::numeric_limits<int64_t>::max() / 2, 4};
  const std::array<int64_t, 1> too_much = {int64_t{1} << 58};
  const std::array<int64_t, 1> one = {1};
  tenon_tensor* out = nullptr;
  const auto code = [](tenon_status* status) { return take(status).code; };
  CHECK(code(api.empty(kServiceHost, TENON_F32, kCpu, 2, negative.data(), &out)) == TENON_INVALID);
  CHECK(code(api.empty(kServiceHost, TENON_F32, kCpu, 2, huge.data(), &out)) == TENON_INVALID);
  CHECK(code(api.empty(kServiceHost, TENON_U8, kCpu, 1, too_much.data(), &out)) ==
        TENON_OUT_OF_MEMORY);
  CHECK(code(api.empty(kServiceHost, 77, kCpu, 1, one.data(), &out)) == TENON_INVALID);
  CHECK(code(api.empty(kServiceHost, TENON_F32, {3, 0}, 1, one.data(), &out)) == TENON_INVALID);
  CHECK(code(api.empty(kServiceHost, TENON_F32, kCpu, 1, nullptr, &out)) == TENON_INVALID);
  CHECK(code(api.empty(kServiceHost, TENON_F32, kCpu, 1, one.data(), nullptr)) == TENON_INVALID);
  CHECK(code(api.full(kServiceHost, TENON_F32, kCpu, 1, nullptr, 1.0, &out)) == TENON_INVALID);
  CHECK(code(api.full(kServiceHost, TENON_U8, kCpu, 1, one.data(), 300.0, &out)) == TENON_INVALID);
  CHECK(out == nullptr);
}

TEST_CASE("a retained handle is the same tensor, with its history", "[tensor]") {
  const tenon_tensor_api& api = *tensor_service();
  const at::Tensor leaf = at::ones({2}).requires_grad_(true);
  const at::Tensor tensor = leaf * 2;
  tenon_tensor* handle = nullptr;
  REQUIRE(take(api.retain(kServiceHost, borrow(tensor), &handle)).ok());
  CHECK(tensor_of(handle).is_same(tensor));
  CHECK(tensor.use_count() == 2);
  api.release(handle);
  CHECK(tensor.use_count() == 1);
  api.release(nullptr);
  CHECK(take(api.retain(kServiceHost, nullptr, &handle)).code == TENON_INVALID);
  CHECK(take(api.retain(kServiceHost, borrow(tensor), nullptr)).code == TENON_INVALID);
}

TEST_CASE("item reads one element of any type", "[tensor]") {
  const tenon_tensor_api& api = *tensor_service();
  double value = 0.0;
  for (const at::ScalarType type : {at::kBool, at::kByte, at::kLong, at::kHalf, at::kDouble}) {
    const at::Tensor one = at::ones({1, 1}, type);
    CHECK(take(api.item(kServiceHost, borrow(one), &value)).ok());
    CHECK(value == 1.0);
  }
  const at::Tensor two = at::ones({2});
  CHECK_THAT(take(api.item(kServiceHost, borrow(two), &value)).message, contains_text("found 2"));
  const at::Tensor meta = at::empty({1}, at::TensorOptions().device(at::kMeta));
  CHECK_FALSE(take(api.item(kServiceHost, borrow(meta), &value)).ok());
  CHECK(take(api.item(kServiceHost, nullptr, &value)).code == TENON_INVALID);
  CHECK(take(api.item(kServiceHost, borrow(two), nullptr)).code == TENON_INVALID);
}

TEST_CASE("DLPack out and in again shares the data", "[tensor]") {
  const tenon_tensor_api& api = *tensor_service();
  at::Tensor tensor = at::arange(6, at::kFloat).reshape({2, 3}).t();
  tensor.requires_grad_(true);
  DLManagedTensorVersioned* managed = nullptr;
  REQUIRE(take(api.to_dlpack(kServiceHost, nullptr, borrow(tensor), &managed)).ok());
  CHECK(managed->version.major == DLPACK_MAJOR_VERSION);
  CHECK(managed->dl_tensor.data == tensor.data_ptr());
  CHECK(managed->dl_tensor.ndim == 2);
  CHECK(managed->dl_tensor.shape[0] == 3);
  CHECK(managed->dl_tensor.dtype.code == kDLFloat);

  HandleGuard back;
  REQUIRE(take(api.from_dlpack(kServiceHost, nullptr, managed, back.out())).ok());
  CHECK(back.tensor().data_ptr() == tensor.data_ptr());
  CHECK(back.tensor().strides() == tensor.strides());
  CHECK(at::equal(back.tensor(), tensor));
  CHECK_FALSE(back.tensor().requires_grad());
}

// A DLPack tensor of somebody else's.
struct Foreign {
  std::array<double, 6> data = {0, 1, 2, 3, 4, 5};
  std::array<int64_t, 2> shape = {2, 3};
  int deleted = 0;
  DLManagedTensorVersioned managed = {};

  Foreign() {
    managed.version = {DLPACK_MAJOR_VERSION, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deleted;
    };
    managed.dl_tensor.data = data.data();
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = 2;
    managed.dl_tensor.dtype = {kDLFloat, 64, 1};
    managed.dl_tensor.shape = shape.data();
  }
};

TEST_CASE("a foreign DLPack tensor is deleted when its last user is gone", "[tensor]") {
  Foreign foreign;
  HandleGuard tensor;
  REQUIRE(take(tensor_service()->from_dlpack(kServiceHost, nullptr, &foreign.managed, tensor.out()))
              .ok());
  CHECK(tensor.tensor().data_ptr() == foreign.data.data());
  CHECK(at::equal(tensor.tensor(), at::arange(6, at::kDouble).reshape({2, 3})));
  at::Tensor view = tensor.take().slice(0, 1);
  CHECK(foreign.deleted == 0);
  view.reset();
  CHECK(foreign.deleted == 1);
}

TEST_CASE("a DLPack tensor that is refused stays its owner's", "[tensor]") {
  const auto refused = [](auto spoil) {
    Foreign foreign;
    spoil(foreign);
    tenon_tensor* out = nullptr;
    const StatusText text =
        take(tensor_service()->from_dlpack(kServiceHost, nullptr, &foreign.managed, &out));
    return text.code == TENON_INVALID && out == nullptr && foreign.deleted == 0;
  };
  CHECK(refused([](Foreign& f) { f.managed.version.major = DLPACK_MAJOR_VERSION + 1; }));
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.dtype = {kDLFloat, 64, 4}; }));
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.dtype = {kDLComplex, 64, 1}; }));
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.dtype = {kDLFloat, 12, 1}; }));
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.device = {kDLVulkan, 0}; }));
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.data = nullptr; }));
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.shape = nullptr; }));
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.ndim = -1; }));
  CHECK(refused([](Foreign& f) { f.shape[1] = -3; }));
  CHECK(refused([](Foreign& f) { f.shape = {int64_t{1} << 40, int64_t{1} << 40}; }));
  static std::array<int64_t, 2> strides = {-3, 1};
  CHECK(refused([](Foreign& f) { f.managed.dl_tensor.strides = strides.data(); }));
  tenon_tensor* out = nullptr;
  CHECK(take(tensor_service()->from_dlpack(kServiceHost, nullptr, nullptr, &out)).code ==
        TENON_INVALID);
  Foreign foreign;
  CHECK(
      take(tensor_service()->from_dlpack(kServiceHost, nullptr, &foreign.managed, nullptr)).code ==
      TENON_INVALID);
  DLManagedTensorVersioned* managed = nullptr;
  CHECK(take(tensor_service()->to_dlpack(kServiceHost, nullptr, nullptr, &managed)).code ==
        TENON_INVALID);
  const at::Tensor tensor = at::ones({1});
  CHECK(take(tensor_service()->to_dlpack(kServiceHost, nullptr, borrow(tensor), nullptr)).code ==
        TENON_INVALID);
}

}  // namespace
}  // namespace tenon
