// SPDX-License-Identifier: Apache-2.0
#include "host/train/run_loader.hpp"

#include "host/error/error.hpp"
#include "host/train/components/run_failure.hpp"

#include <c10/util/Exception.h>

#include <cerrno>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "tests/host/train/loop_rig.hpp"

namespace tenon {
namespace {

// A run with checkpoints of steps 1 to 3.
struct LoaderRig {
  LoaderRig() {
    run.recipe.checkpoint.emplace();
    run.recipe.checkpoint->every.steps = 1;
    loop.emplace(run);
    for (loop->state.step = 1; loop->state.step <= 3; ++loop->state.step) {
      run.set_weight(static_cast<double>(loop->state.step));
      loop->checkpoints.save_if_due(RunBoundary::kStep);
    }
    loop->checkpoints.finish();
  }
  ResumeCandidates saved() {
    std::vector<std::string> newest_first = run.storage->list();
    std::ranges::reverse(newest_first);
    return {run.storage, run.ranks.all(), newest_first};
  }
  RunLoader loader(ResumeCandidates* saved, const StateTree* start_from = nullptr) {
    run.request.start_from = start_from;
    run.data->saved = saved;
    return RunLoader(loop->run, loop->state);
  }

  RunRig run;
  std::optional<LoopRig> loop;
};

}  // namespace

TEST_CASE("the newest checkpoint that can be taken over is resumed from", "[train]") {
  LoaderRig rig;
  ResumeCandidates saved = rig.saved();
  RunLoader loader = rig.loader(&saved);
  REQUIRE(loader.resumes());
  int num_tried = 0;
  loader.resume(
      [&](const StateTree& tree) {
        if (++num_tried == 1) {
          throw Error("checkpoint.damaged", "a checksum differs");
        }
        rig.run.model->parameters.load(tree, "parameters");
        rig.loop->state.step = 2;
      },
      [](const StateTree&) {});
  CHECK(num_tried == 2);
  CHECK(rig.run.weight() == 2);
  CHECK(loader.resumed_boundary() == "step");
  Outcome outcome;
  loader.add_to(outcome);
  CHECK_THAT(outcome.resumed_from, contains_text("step-00000002"));
  CHECK(outcome.resumed_at == 2);
}

TEST_CASE("another error than corruption ends the search, and so does the last one", "[train]") {
  LoaderRig rig;
  ResumeCandidates saved = rig.saved();
  CHECK_THROWS_AS(
      load_first_valid(saved,
                       rig.run.ranks.all(),
                       [](const StateTree&) { throw Error("state.bad_version", "too new"); }),
      Error);
  ResumeCandidates again = rig.saved();
  int num_tried = 0;
  try {
    load_first_valid(again, rig.run.ranks.all(), [&](const StateTree&) {
      ++num_tried;
      throw Error("checkpoint.damaged", "a checksum differs");
    });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.id() == "checkpoint.none_sound");
  }
  CHECK(num_tried == 3);
}

TEST_CASE("whatever failure of a checkpoint leads to the one before it", "[train]") {
  const auto with = [](const std::function<void()>& fail) {
    LoaderRig rig;
    ResumeCandidates saved = rig.saved();
    int num_tried = 0;
    load_first_valid(saved, rig.run.ranks.all(), [&](const StateTree&) {
      if (++num_tried == 1) {
        fail();
      }
    });
    return num_tried;
  };
  CHECK(with([] { throw Error("state.bad_value", "the step is -1"); }) == 2);
  CHECK(with([] { throw Error("state.wrong_shape", "a tensor has 3 dimensions"); }) == 2);
  CHECK(with([] { throw std::length_error("a vector of 2^62 elements"); }) == 2);
  CHECK(with([] { TORCH_CHECK(false, "sizes do not match"); }) == 2);
  CHECK(with([] { throw std::system_error(EISDIR, std::generic_category()); }) == 2);
}

TEST_CASE("a failure that is not the checkpoint's ends the search", "[train]") {
  const auto id_with = [](const std::function<void()>& fail, int num_expected) {
    LoaderRig rig;
    ResumeCandidates saved = rig.saved();
    int num_tried = 0;
    std::string id;
    try {
      load_first_valid(saved, rig.run.ranks.all(), [&](const StateTree&) {
        ++num_tried;
        fail();
      });
    } catch (const std::exception& error) {
      id = run_failure(error).id();
    }
    CHECK(num_tried == num_expected);
    return id;
  };
  CHECK(id_with([] { throw std::bad_alloc(); }, 1) == "run.out_of_memory");
  CHECK(id_with([] { throw std::system_error(EAGAIN, std::generic_category()); }, 1) ==
        "run.out_of_resources");
  CHECK(id_with([] { throw Error("distributed.failed", "a rank is lost"); }, 1) ==
        "distributed.failed");
  CHECK(id_with([] { throw Error("plugin.failed", "a plugin's own error"); }, 1) ==
        "plugin.failed");
  // Each checkpoint fails alike: the first failure is the run's.
  CHECK(id_with([] { throw Error("state.wrong_shape", "another model"); }, 3) ==
        "state.wrong_shape");
}

TEST_CASE("a state in memory is taken as it is", "[train]") {
  LoaderRig rig;
  StateTree tree;
  tree.put_int("x", 7);
  RunLoader loader = rig.loader(nullptr, &tree);
  int64_t taken = 0;
  loader.resume([&](const StateTree& state) { taken = state.get_int("x"); },
                [](const StateTree&) {});
  CHECK(taken == 7);
  CHECK(loader.resumed_boundary().empty());
}

TEST_CASE("without models of others nothing is loaded", "[train]") {
  LoaderRig rig;
  RunLoader loader = rig.loader(nullptr);
  CHECK_FALSE(loader.resumes());
  CHECK_FALSE(loader.load_pretrained([](const StateTree&) {}));
  CHECK_FALSE(loader.reload(ReloadPoint::kStep, 4));
}

TEST_CASE("to evaluate a checkpoint only its model is loaded", "[train]") {
  LoaderRig rig;
  ResumeCandidates saved = rig.saved();
  RunLoader loader = rig.loader(&saved);
  rig.run.set_weight(9);
  const RunState state = loader.load_model(WhichParameters::kAuto);
  CHECK(rig.run.weight() == 3);
  CHECK(state.step == 3);
  CHECK(rig.loop->state.step == 4);  // the loop is where it was
  CHECK_THAT(loader.loaded_text(), contains_text("step 3 of ") && contains_text("step-00000003"));
  ResumeCandidates again = rig.saved();
  RunLoader best = rig.loader(&again);
  try {
    best.load_model(WhichParameters::kBest);
    FAIL("no best evaluation is kept");
  } catch (const Error& error) {
    CHECK(error.id() == "checkpoint.no_best");
  }
}

}  // namespace tenon
