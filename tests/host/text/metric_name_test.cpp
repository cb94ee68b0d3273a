// SPDX-License-Identifier: Apache-2.0
#include "host/text/metric_name.hpp"

#include <string>

#include "tests/support/catch.hpp"

using tenon::is_host_metric;
using tenon::is_legal_metric_name;

TEST_CASE("a metric name has 1 to 100 letters, digits and a few marks", "[text]") {
  for (const char* name : {"a", "z_loss", "lr_monitor/group0.no_decay/lr", "A-1"}) {
    CHECK(is_legal_metric_name(name));
  }
  CHECK(is_legal_metric_name(std::string(100, 'x')));
  for (const std::string& name :
       {std::string(), std::string(101, 'x'), std::string("a b"), std::string("\xff")}) {
    CHECK_FALSE(is_legal_metric_name(name));
  }
}

TEST_CASE("the host's own metrics are known by name or folder", "[text]") {
  for (const char* name : {"loss",
                           "lr",
                           "grad_norm",
                           "loss_scale",
                           "eval",
                           "eval/loss",
                           "aux/z",
                           "loss/ranking",
                           "tables/users/rows",
                           "mfu/exact",
                           "hfu/palm",
                           "flops_per_second",
                           "next/auc",
                           "test/loss"}) {
    CHECK(is_host_metric(name));
  }
  for (const char* name : {"", "loss2", "my/loss", "lr/group0", "evaluate", "auc"}) {
    CHECK_FALSE(is_host_metric(name));
  }
}
