// SPDX-License-Identifier: Apache-2.0
#include "host/metrics/metric_book.hpp"

#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include "tests/support/catch.hpp"

namespace tenon {

TEST_CASE("a record shows sums over weights, and begins anew", "[metrics]") {
  MetricBook book;
  book.add("loss", 6, 2);
  book.add_tensor("loss", at::scalar_tensor(4.0), at::scalar_tensor(3.0));
  book.set("lr", 0.5);
  CHECK(book.mean("loss") == 2);
  const MetricRecord record = book.close(7);
  CHECK(record.step == 7);
  REQUIRE(record.values.size() == 2);
  CHECK(record.values[0] == std::pair<std::string, double>("loss", 2.0));
  CHECK(*record.find("lr") == 0.5);
  CHECK(book.last("loss") == 2.0);
  CHECK(book.close(8).values.empty());
  CHECK(book.last("loss") == 2.0);
  CHECK_FALSE(book.last("unknown").has_value());
}

TEST_CASE("scalars read together give what reading each at once gives", "[metrics]") {
  MetricBook at_once;
  MetricBook together(MetricBook::Reading::kTogether);
  for (MetricBook* book : {&at_once, &together}) {
    book->add_tensor("loss", at::scalar_tensor(0.1, at::kFloat), at::scalar_tensor(3, at::kLong));
    book->add_tensor("loss", at::scalar_tensor(0.7), at::full({1}, 4.0, at::kDouble));
    book->add("loss", 1, 2);
    book->add_tensor("aux", at::scalar_tensor(5.0), at::scalar_tensor(2.0));
    book->add_tensor("late", at::scalar_tensor(5.0), at::scalar_tensor(0.0));
    book->add_tensor("lr", at::scalar_tensor(5.0), at::scalar_tensor(1.0));
    book->set("lr", 0.25);
  }
  CHECK(together.mean("loss") == at_once.mean("loss"));
  CHECK(together.mean("aux") == 2.5);
  CHECK(together.mean("unknown") == 0);
  together.add_tensor("aux", at::scalar_tensor(1.0), at::scalar_tensor(1.0));
  at_once.add_tensor("aux", at::scalar_tensor(1.0), at::scalar_tensor(1.0));
  CHECK(together.close(1).values == at_once.close(1).values);
  CHECK(*together.last("lr") == 0.25);
  CHECK(together.close(2).values.empty());
}

TEST_CASE("a record of some figures leaves the others to gather", "[metrics]") {
  MetricBook book;
  book.add("loss", 1, 1);
  book.set("eval/loss", 3);
  CHECK(book.close(1, "eval/").values.size() == 1);
  book.add("loss", 3, 1);
  CHECK(*book.close(2).find("loss") == 2);
}

TEST_CASE("a figure without weight is left out", "[metrics]") {
  MetricBook book;
  book.add("loss", 0, 0);
  CHECK(book.close(1).values.empty());
}

TEST_CASE("names of figures are held to what files and tools can take", "[metrics]") {
  MetricBook book;
  CHECK_THROWS_AS(book.set("", 1), Error);
  CHECK_THROWS_AS(book.set("a b", 1), Error);
  CHECK_THROWS_AS(book.set(std::string(101, 'a'), 1), Error);
  CHECK_NOTHROW(book.set("router/entropy.0-x_Y", 1));
}

}  // namespace tenon
