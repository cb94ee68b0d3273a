// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/own_handles.hpp"

#include "host/tensor/handle.hpp"
#include "host/tensor/handle_pool.hpp"

#include <ATen/Functions.h>

#include <functional>
#include <vector>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

// What take() says of slots that a plugin filled so. Afterwards, no handle is left.
std::string error_of(const std::function<void(tenon_tensor** slots)>& fill) {
  const tenon_loss table{};
  const FakeComponent fake("loss", TENON_LOSS_ID, &table);
  const ComponentInstance instance = fake.make();
  const int64_t before = HandlePool::get().num_live();
  std::string message;
  {
    OwnHandles handles(2);
    fill(handles.data());
    try {
      handles.take(instance.identity(), "compute");
    } catch (const Error& error) {
      CHECK(error.id() == "plugin.bad_result");
      message = error.message();
    }
  }
  CHECK(HandlePool::get().num_live() == before);
  return message;
}

tenon_tensor* one() {
  return new_handle(at::ones({1}));
}

}  // namespace

TEST_CASE("handles in slots become tensors, and are released", "[plugin]") {
  CHECK(error_of([](tenon_tensor** slots) { slots[1] = one(); }).empty());
  CHECK(error_of([](tenon_tensor**) {}).empty());
}

TEST_CASE("a pointer in a slot that is no handle is an error of its component", "[plugin]") {
  CHECK_THAT(error_of([](tenon_tensor** slots) {
               slots[0] = one();
               slots[1] = reinterpret_cast<tenon_tensor*>(slots);
             }),
             contains_text(fake_name("loss") +
                           ": compute stored, as tensor 1, a pointer that is not a handle of this "
                           "host"));
  CHECK_THAT(error_of([](tenon_tensor** slots) {
               slots[0] = one();
               release_handle(slots[0]);
             }),
             contains_text("as tensor 0, a pointer that has already been released"));
  CHECK_THAT(error_of([](tenon_tensor** slots) { slots[0] = slots[1] = one(); }),
             contains_text("compute stored one handle twice, the second time as tensor 1"));
  CHECK_THAT(error_of([](tenon_tensor** slots) { slots[2] = one(); }),
             contains_text("compute stored more than 2 tensors"));
}

}  // namespace tenon
