// SPDX-License-Identifier: Apache-2.0
#include "host/text/nearest_name.hpp"

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the edit distance counts insertions, deletions, changes and swaps", "[recipe]") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("steps", "steps") == 0);
  CHECK(edit_distance("stpes", "steps") == 1);  // one swap
  CHECK(edit_distance("step", "steps") == 1);
  CHECK(edit_distance("stteps", "steps") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("ca", "abc") == 3);  // the restricted form; the full one has 2
}

TEST_CASE("a misspelt name finds the right one", "[recipe]") {
  const Names names = {"steps", "epochs", "windows", "steps_per_window", "clip_grad_norm"};
  CHECK(nearest_names("stpes", names) == Names{"steps"});
  CHECK(nearest_names("Epochs", names) == Names{"epochs"});
  CHECK(nearest_names("clip-grad-norm", names) == Names{"clip_grad_norm"});
  CHECK(nearest_names("window", names) == Names{"windows"});
  CHECK(nearest_names("clip_grad", names) == Names{"clip_grad_norm"});
}

TEST_CASE("far names are not offered", "[recipe]") {
  const Names names = {"steps", "epochs", "lr"};
  CHECK(nearest_names("tokenizer", names).empty());
  CHECK(nearest_names("x", names).empty());
  CHECK(nearest_names("", names).empty());
  CHECK(nearest_names("a", Names{"b"}).empty());
  CHECK(nearest_names(std::string(100000, 's'), names).empty());
}

TEST_CASE("at most three names are offered, the nearest first", "[recipe]") {
  const Names names = {"layer5", "layer1", "layer2", "layer3", "layer4", "players"};
  CHECK(nearest_names("layer", names).size() == 3);
  CHECK(nearest_names("layers", Names{"player", "layer"}).front() == "layer");
}

TEST_CASE("the question is put in words", "[recipe]") {
  CHECK(did_you_mean("stpes", Names{"steps"}) == "did you mean \"steps\"?");
  CHECK(did_you_mean("layer", Names{"layer1", "layer2"}) ==
        "did you mean \"layer1\" or \"layer2\"?");
  CHECK(did_you_mean("layer", Names{"layer1", "layer2", "layer3"}) ==
        "did you mean \"layer1\", \"layer2\" or \"layer3\"?");
  CHECK(did_you_mean("zzz", Names{"steps"}).empty());
}

}  // namespace tenon
