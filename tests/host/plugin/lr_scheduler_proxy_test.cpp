// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/lr_scheduler_proxy.hpp"

#include "tests/host/plugin/fake_component.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

tenon_lr_scheduler lr_scheduler_table() {
  tenon_lr_scheduler table{};
  table.struct_size = sizeof(table);
  table.describe = [](void*, tenon_lr_scheduler_info* out) -> tenon_status* {
    out->needs_total = 1;
    return nullptr;
  };
  table.factor = [](void*, tenon_lr_factor_args* args) -> tenon_status* {
    args->out_factor = static_cast<double>(args->step) / static_cast<double>(args->total);
    return nullptr;
  };
  return table;
}

}  // namespace

TEST_CASE("a schedule gives factors, which are finite", "[plugin]") {
  const tenon_lr_scheduler good = lr_scheduler_table();
  const FakeComponent fake("lr_scheduler", TENON_LR_SCHEDULER_ID, &good);
  const LrSchedulerProxy schedule(fake.make());
  CHECK(schedule.needs_total());
  CHECK(schedule.factor(1, 4) == 0.25);
  CHECK_THROWS_WITH(schedule.factor(3, 0), contains_text("the factor of step 3 is inf"));
}

TEST_CASE("a schedule that lacks a function is refused by the function's name", "[plugin]") {
  tenon_lr_scheduler bad = lr_scheduler_table();
  const FakeComponent fake("lr_scheduler", TENON_LR_SCHEDULER_ID, &bad);
  bad.factor = nullptr;
  CHECK(proxy_error<LrSchedulerProxy>(fake) == missing_function("lr_scheduler", "factor"));
  bad.describe = nullptr;
  CHECK(proxy_error<LrSchedulerProxy>(fake) == missing_function("lr_scheduler", "describe"));
}
