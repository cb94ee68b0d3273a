// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/start_agreement.hpp"

#include "host/error/error.hpp"

#include <functional>
#include <string>
#include <vector>

#include "tests/support/thread_ranks.hpp"

namespace tenon {
namespace {

struct Thrown {
  std::string id;
  std::string message;
  ExitCode code = ExitCode::kDone;
};

// What each rank was thrown by `body`.
std::vector<Thrown> thrown_by(uint32_t size, const std::function<void(Group&)>& body) {
  std::vector<Thrown> thrown(size);
  run_ranks(size, [&](RankGroups& ranks) {
    Group& control = ranks.all();
    try {
      body(control);
    } catch (const Error& error) {
      thrown[control.rank()] = {error.id(), error.message(), error.exit_code()};
    }
  });
  return thrown;
}

}  // namespace

TEST_CASE("ranks with different facts refuse to start, with the key and who has what",
          "[distributed]") {
  const auto metadata = [](uint32_t rank) -> std::vector<Fact> {
    const std::string steps = rank == 2 ? "4" : "3";
    return {{"recipe", R"({"seed": 1, "train": {"steps": )" + steps + "}}"},
            {"libtorch", rank == 0 ? "2.11.0" : "2.10.0"},
            {"plugin org.tenon.mlp", rank == 3 ? "" : "0.1.0 (5d)"},
            {"host", "0.1.0"}};
  };
  for (const Thrown& thrown : thrown_by(
           4, [&](Group& control) { agree_on_metadata(control, metadata(control.rank())); })) {
    CHECK(thrown.id == "distributed.differs");
    CHECK(thrown.code == ExitCode::kRecipe);
    CHECK(thrown.message ==
          "the ranks were started differently: libtorch: 2.11.0 on rank 0, 2.10.0 on ranks 1 to 3; "
          "plugin org.tenon.mlp: 0.1.0 (5d) on ranks 0 to 2, none on rank 3; "
          "recipe /train/steps: 3 on ranks 0, 1 and 3, 4 on rank 2; start all ranks with the same "
          "recipe, plugins and program");
  }
}

TEST_CASE("equal facts, and those of one rank alone, cost no word", "[distributed]") {
  const std::vector<Fact> metadata = {{"recipe", "{}"}, {"host", "0.1.0"}};
  for (const Thrown& none :
       thrown_by(3, [&](Group& control) { agree_on_metadata(control, metadata); })) {
    CHECK(none.id.empty());
  }
  LocalGroup alone;
  CHECK_NOTHROW(agree_on_metadata(alone, metadata));
}

TEST_CASE("of many differences three are told, and long values by their beginning",
          "[distributed]") {
  const auto thrown = thrown_by(2, [](Group& control) {
    const std::string digit = std::to_string(control.rank());
    agree_on_metadata(control,
                      std::vector<Fact>{{"a", std::string(150, digit[0])},
                                        {"b", digit},
                                        {"c", digit},
                                        {"d", digit},
                                        {"e", digit}});
  });
  CHECK_THAT(thrown[0].message, contains_text("a: " + std::string(100, '0') + "... on rank 0"));
  CHECK_THAT(thrown[0].message, contains_text("c: 0 on rank 0, 1 on rank 1; and 2 more; start"));
}

}  // namespace tenon
