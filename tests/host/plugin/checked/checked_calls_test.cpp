// SPDX-License-Identifier: Apache-2.0
//
// The checking mode lasts for the rest of the process, so these tests are a program of their own.
#include "host/plugin/checked/checked_calls.hpp"

#include "host/plugin/checked/call_frame.hpp"
#include "host/plugin/loss_proxy.hpp"
#include "host/tensor/exec_frame.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Compute = std::function<tenon_status*(const tenon_exec*, tenon_loss_compute_args*)>;

// What the next `compute` does.
Compute next_compute;

const tenon_port kInput = {sizeof(tenon_port), "x", TENON_F32, 0, nullptr, 0};

tenon_status* new_scalar(const tenon_exec* exec, tenon_tensor** out_own) {
  return exec->tensors->full(exec->host, TENON_F32, exec->device, 0, nullptr, 1.0, out_own);
}

const tenon_loss& loss_table() {
  static const tenon_loss table = [] {
    tenon_loss made{};
    made.struct_size = sizeof(made);
    made.describe = [](void*, tenon_loss_info* out) -> tenon_status* {
      out->ports_ref = &kInput;
      out->num_ports = 1;
      return nullptr;
    };
    made.count = [](void*, const tenon_exec* exec, tenon_loss_count_args* args) -> tenon_status* {
      return new_scalar(exec, &args->out_count_own);
    };
    made.compute =
        [](void*, const tenon_exec* exec, tenon_loss_compute_args* args) -> tenon_status* {
      return next_compute(exec, args);
    };
    return made;
  }();
  return table;
}

// A loss with checked calls, and one input.
class CheckedLoss {
 public:
  CheckedLoss()
      : fake_((start_checking_calls(), "loss"), TENON_LOSS_ID, &loss_table()),
        loss_(std::in_place, fake_.make()),
        frame_(loss_->instance().host(), {.tensors = tensor_service(), .ops = op_service()}),
        input_(at::ones({4})) {}

  // Calls compute. Returns the error; "" if there is none.
  std::string compute(Compute body) {
    next_compute = std::move(body);
    const tenon_tensor* const input = borrow(input_);
    try {
      release_handle(loss_->compute(frame_.exec(), &input, 1));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  const LossProxy& loss() const { return *loss_; }
  void destroy() { loss_.reset(); }

 private:
  FakeComponent fake_;
  std::optional<LossProxy> loss_;
  ExecFrame frame_;
  at::Tensor input_;
};

tenon_status* good(const tenon_exec* exec, tenon_loss_compute_args* args) {
  return new_scalar(exec, &args->out_sum_own);
}

const std::string kName = "[plugin.bad_call] " + fake_name("loss") + ": ";

}  // namespace

TEST_CASE("a checked call that keeps the rules succeeds", "[plugin]") {
  CheckedLoss loss;
  CHECK(loss.compute(good).empty());
  CHECK(loss.compute([](const tenon_exec* exec, tenon_loss_compute_args* args) {
              return exec->tensors->retain(exec->host, args->inputs[0], &args->out_sum_own);
            })
            .empty());
}

TEST_CASE("a borrowed handle ends with its call", "[plugin]") {
  CheckedLoss loss;
  const tenon_tensor* kept = nullptr;
  CHECK(loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args* args) {
              kept = args->inputs[0];
              return good(exec, args);
            })
            .empty());
  CHECK(loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args* args) {
    tenon_tensor_info info{};
    info.struct_size = sizeof(info);
    tenon_status* const failed = exec->tensors->info(kept, &info);
    return failed != nullptr ? failed : good(exec, args);
  }) == kName +
            "compute passed to info a handle that it had borrowed until its call returned "
            "(inputs[0] of call 1 of compute of loss \"fake\"); retain a tensor to keep it");
}

TEST_CASE("a report says where a handle was made, and where it was released", "[plugin]") {
  CheckedLoss loss;
  tenon_tensor* made = nullptr;
  const std::string made_in = "full made it in call 1 of compute of loss \"fake\"";
  CHECK(loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args* args) {
              tenon_status* const failed = new_scalar(exec, &made);
              return failed != nullptr ? failed : good(exec, args);
            })
            .empty());
  const auto release = [&](const tenon_exec* exec, tenon_loss_compute_args* args) {
    exec->tensors->release(made);
    return good(exec, args);
  };
  CHECK(loss.compute(release).empty());
  CHECK(loss.compute(release) == kName +
                                     "compute released a handle twice, first in call 2 of compute "
                                     "of loss \"fake\"; " +
                                     made_in);
  CHECK_THAT(loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args*) -> tenon_status* {
    double value = 0;
    return exec->tensors->item(exec->host, made, &value);
  }),
             contains_text("passed to item a handle that was released in call 2 of compute"));
}

TEST_CASE("results that are not the plugin's are reported", "[plugin]") {
  CheckedLoss loss;
  CHECK_THAT(loss.compute([](const tenon_exec*, tenon_loss_compute_args* args) -> tenon_status* {
    args->out_sum_own = const_cast<tenon_tensor*>(args->inputs[0]);
    return nullptr;
  }),
             contains_text(kName + "compute stored in out_sum_own a handle that it only borrowed"));
  tenon_tensor* sum = nullptr;
  CHECK(loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args* args) {
              tenon_status* const failed = good(exec, args);
              sum = args->out_sum_own;
              return failed;
            })
            .empty());
  CHECK_THAT(loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args* args) {
    exec->tensors->release(sum);
    return good(exec, args);
  }),
             contains_text("released a handle that belongs to the host since call 2 of compute"));
}

TEST_CASE("handles that an instance leaves are reported when it is destroyed", "[plugin]") {
  CheckedLoss loss;
  tenon_tensor* left = nullptr;
  CHECK(loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args* args) {
              tenon_status* const failed = new_scalar(exec, &left);
              return failed != nullptr ? failed : good(exec, args);
            })
            .empty());
  const std::size_t before = reported_problems(CallRule::kHandles).size();
  loss.destroy();
  const std::vector<std::string> problems = reported_problems(CallRule::kHandles);
  REQUIRE(problems.size() == before + 1);
  CHECK(
      problems.back() ==
      "call 1 of destroy of loss \"fake\" left 1 of the instance's tensor handles unreleased; the "
      "first: full made it in call 1 of compute of loss \"fake\"");
  release_handle(left);
}

TEST_CASE("a thread of the plugin may not compute, and its plugin's next call fails", "[plugin]") {
  CheckedLoss loss;
  const std::string error = loss.compute([](const tenon_exec* exec, tenon_loss_compute_args* args) {
    std::jthread([exec] {
      const tenon_op* op = nullptr;
      tenon_tensor* made = nullptr;
      tenon_any result{};
      std::size_t num_results = 1;
      CHECK(exec->ops->find(exec->host, "aten::sum", &op) == nullptr);
      CHECK(new_scalar(exec, &made) == nullptr);
      tenon_any any{};
      any.tag = TENON_ANY_TENSOR;
      any.v.tensor = made;
      CHECK(exec->ops->call(exec->host, op, &any, 1, &result, &num_results) == nullptr);
      exec->tensors->release(result.v.tensor);
      exec->tensors->release(made);
    }).join();
    return good(exec, args);
  });
  // The fake plugin is not among the loaded ones, so no call of it fails.
  CHECK(error.empty());
  CHECK_THAT(reported_problems(CallRule::kRoles).back(),
             contains_text("a thread of the plugin, in no call of the host, called call of "
                           "tenon.op/1, which is [step] or [worker]"));
}

TEST_CASE("two calls of the host that the roles exclude are a bug of the host", "[plugin]") {
  CheckedLoss loss;
  const std::string error =
      loss.compute([&](const tenon_exec* exec, tenon_loss_compute_args* args) {
        std::string inner;
        try {
          loss.loss().instance().call("describe", [] { return nullptr; });
        } catch (const Error& failed) {
          inner = failed.what();
        }
        CHECK_THAT(inner,
                   contains_text("describe was called by the host while compute is running: they "
                                 "are [main] and [step]"));
        return good(exec, args);
      });
  CHECK(error.empty());
}

}  // namespace tenon
