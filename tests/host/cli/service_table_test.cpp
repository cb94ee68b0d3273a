// SPDX-License-Identifier: Apache-2.0
#include "host/cli/service_table.hpp"

#include <tenon/tenon.h>

#include "host/plugin/service_ids.hpp"

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("every service of the SDK's headers is offered", "[cli]") {
  const ServiceTable services = make_service_table();
  for (const std::string_view id : all_service_ids()) {
    INFO(id);
    const auto found = services.find(std::string(id));
    REQUIRE(found != services.end());
    CHECK(found->second != nullptr);
  }
}

TEST_CASE("the ids that a manifest may require are those of the service table", "[cli]") {
  const ServiceTable services = make_service_table();
  CHECK(all_service_ids().size() == services.size());
  for (const auto& [id, table] : services) {
    INFO(id);
    CHECK(has_service(id));
  }
  CHECK_FALSE(has_service("tenon.op/2"));
  CHECK_FALSE(has_service(TENON_LOSS_ID));
  CHECK_FALSE(has_service(""));
}

}  // namespace tenon
