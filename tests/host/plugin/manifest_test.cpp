// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/manifest.hpp"

#include <tenon/abi.h>

#include <random>

#include "tests/host/plugin/zoo_folder.hpp"
#include "tests/support/catch.hpp"

using namespace tenon;

namespace {

const std::string kGood =
    "id=com.example.focal\nversion=1.2.0\nabi=0.1\nlane=stable\ncomponent=loss:focal\n";

// kGood with one piece of it replaced.
std::string with(const std::string& old, const std::string& fresh) {
  std::string text = kGood;
  return text.replace(text.find(old), old.size(), fresh);
}

std::string problem_of(const std::string& text) {
  std::string problem;
  parse_manifest(text, problem);
  return problem;
}

}  // namespace

TEST_CASE("a manifest says who a plugin is and what it offers", "[plugin]") {
  ZooFolder zoo;
  const ManifestFile file = read_manifest(zoo.add("good_c"));
  REQUIRE(file.reading == ManifestReading::kOk);
  CHECK(file.manifest.id == "org.tenon.zoo.good_c");
  CHECK(file.manifest.version == "1.0.0");
  CHECK(file.manifest.abi == TENON_ABI_STRING);
  CHECK(file.manifest.lane == "stable");
  CHECK(file.manifest.torch.empty());
  CHECK(file.manifest.components ==
        std::vector<ComponentName>{{"loss", "half_square"}, {"hook", "step_counter"}});
}

TEST_CASE("a manifest of the torch lane names a libtorch", "[plugin]") {
  std::string problem;
  const std::string text = with("lane=stable", "lane=torch\ntorch=version=2.11.0;git=abc");
  CHECK(parse_manifest(text, problem).torch == "version=2.11.0;git=abc");
  CHECK(problem.empty());
  CHECK_THAT(problem_of(with("lane=stable", "lane=torch")), contains_text("\"torch\""));
}

TEST_CASE("a key of a later SDK is passed over", "[plugin]") {
  CHECK(problem_of(kGood + "needs=gpu\n").empty());
}

TEST_CASE("a wrong manifest is refused with what is wrong", "[plugin]") {
  CHECK(problem_of(kGood).empty());
  CHECK_THAT(problem_of(""), contains_text("no \"id\""));
  CHECK_THAT(problem_of(with("id=com.example.focal\n", "")), contains_text("no \"id\""));
  CHECK_THAT(problem_of(with("version=1.2.0\n", "")), contains_text("no \"version\""));
  CHECK_THAT(problem_of(with("abi=0.1\n", "")), contains_text("no \"abi\""));
  CHECK_THAT(problem_of(with("lane=stable\n", "")), contains_text("no \"lane\""));
  CHECK_THAT(problem_of(with("component=loss:focal\n", "")), contains_text("no \"component\""));
  CHECK_THAT(problem_of(with("com.example.focal", "Focal")), contains_text("reverse domain"));
  CHECK_THAT(problem_of(with("com.example.focal", "com..focal")), contains_text("reverse domain"));
  CHECK_THAT(problem_of(with("1.2.0", "1.2")), contains_text("MAJOR.MINOR.PATCH"));
  CHECK_THAT(problem_of(with("1.2.0", "1.2.99999999999")), contains_text("MAJOR.MINOR.PATCH"));
  CHECK_THAT(problem_of(with("abi=0.1", "abi=1")), contains_text("MAJOR.MINOR"));
  CHECK_THAT(problem_of(with("abi=0.1", "abi=")), contains_text("empty"));
  CHECK_THAT(problem_of(kGood + "abi=0.1\n"), contains_text("twice"));
  CHECK_THAT(problem_of(kGood + "component=loss:focal\n"), contains_text("twice"));
  CHECK_THAT(problem_of(with("loss:focal", "focal")), contains_text("kind:type"));
  CHECK_THAT(problem_of(with("loss:focal", "loss:Focal")), contains_text("kind:type"));
  CHECK_THAT(problem_of(kGood + "just text\n"), contains_text("key=value"));
  CHECK_THAT(problem_of(with("focal\n", "fo\x1b[31mcal\n")), contains_text("key=value"));
}

TEST_CASE("parsing a manifest ends well whatever the text is", "[plugin]") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 5000; ++i) {
    std::string text = kGood;
    for (int change = 0; change < 3; ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    text.resize(random() % (text.size() + 1));
    std::string problem;
    const Manifest manifest = parse_manifest(text, problem);
    CHECK((!problem.empty() || !manifest.components.empty()));
  }
}

TEST_CASE("a file without a manifest is told from one with a wrong one", "[plugin]") {
  ZooFolder zoo;
  CHECK(read_manifest(zoo.write("notes.so", "text")).reading == ManifestReading::kNotElf);
  CHECK(read_manifest(zoo.add("no_manifest")).reading == ManifestReading::kNoManifest);
  CHECK(read_manifest(zoo.path_of("missing")).reading == ManifestReading::kUnreadable);

  const ManifestFile wrong = read_manifest(zoo.add("wrong_manifest"));
  CHECK(wrong.reading == ManifestReading::kBad);
  CHECK_THAT(wrong.problem, contains_text("its id is \"zoo\""));

  const std::string good = read_text(zoo.add("good_c"));
  const ManifestFile cut = read_manifest(zoo.write("cut.so", good.substr(0, good.size() - 100)));
  CHECK(cut.reading == ManifestReading::kBad);
  CHECK(cut.manifest.id == "org.tenon.zoo.good_c");
}

TEST_CASE("a type is of lower case, digits and underscores", "[plugin]") {
  CHECK(is_type_name("mlp"));
  CHECK(is_type_name("adam_w2"));
  CHECK_FALSE(is_type_name(""));
  CHECK_FALSE(is_type_name("2d"));
  CHECK_FALSE(is_type_name("Mlp"));
  CHECK_FALSE(is_type_name("a/b"));
  CHECK_FALSE(is_type_name(std::string(65, 'a')));
}
