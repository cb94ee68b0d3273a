// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/manifest.hpp"

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
  CHECK(file.manifest.abi == kHostAbi);
  CHECK(file.manifest.services.empty());
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

TEST_CASE("a key of a later SDK is passed over, and kept where a host must know it", "[plugin]") {
  std::string problem;
  CHECK(parse_manifest(kGood + "needs=gpu\n", problem).unknown_key.empty());
  CHECK(problem.empty());
  CHECK(parse_manifest(kGood + "!gpu=1\n!tpu=1\n", problem).unknown_key == "!gpu");
  CHECK(problem.empty());
  CHECK(parse_manifest(kGood + "!!id=com.example.b\n", problem).unknown_key == "!!id");
  CHECK(parse_manifest(kGood + "!=\n", problem).unknown_key == "!");
}

TEST_CASE("a known key means the same with an exclamation mark", "[plugin]") {
  std::string problem;
  const Manifest manifest = parse_manifest(
      "!id=com.example.focal\n!version=1.2.0\n!abi=0.1\n!lane=torch\n!torch=version=2\n"
      "!component=loss:focal\n!requires=tenon.op/1\n",
      problem);
  CHECK(problem.empty());
  CHECK(manifest.unknown_key.empty());
  CHECK(manifest.id == "com.example.focal");
  CHECK(manifest.version == "1.2.0");
  CHECK(manifest.abi.text() == "0.1");
  CHECK(manifest.lane == "torch");
  CHECK(manifest.torch == "version=2");
  CHECK(manifest.components == std::vector<ComponentName>{{"loss", "focal"}});
  CHECK(manifest.services == std::vector<std::string>{"tenon.op/1"});
  CHECK_THAT(problem_of(kGood + "!id=com.example.b\n"), contains_text("\"id\" twice"));
  CHECK_THAT(problem_of(with("abi=0.1", "!abi=1")), contains_text("MAJOR.MINOR"));
}

TEST_CASE("the ABI of a manifest is a version, or a range of them", "[plugin]") {
  const auto range_of = [](const std::string& text) {
    std::string problem;
    const Manifest manifest = parse_manifest(with("abi=0.1", "abi=" + text), problem);
    INFO(text << ": " << problem);
    CHECK(problem.empty());
    return manifest.abi;
  };
  CHECK(range_of("0.4") == AbiRange{.major = 0, .min_minor = 4, .max_minor = 4});
  CHECK(range_of("0.4..0.4") == range_of("0.4"));
  CHECK(range_of("1.0..1.13") == AbiRange{.major = 1, .min_minor = 0, .max_minor = 13});
  CHECK(range_of("0.4").text() == "0.4");
  CHECK(range_of("1.0..1.13").text() == "1.0..1.13");
  CHECK(range_of("1.0..1.13").text(" to ") == "1.0 to 1.13");
  for (const char* const text : {"0.4..",
                                 "..0.4",
                                 "..",
                                 "1",
                                 "0.5..0.4",
                                 "0.4..1.0",
                                 "0..4",
                                 "0.4...0.5",
                                 "0.4..0.5..0.6",
                                 "0.4-0.5",
                                 "0.4..5",
                                 "0.4 .. 0.5",
                                 "0.-1..0.4",
                                 "0.4..0.9999999999"}) {
    INFO(text);
    const std::string problem = problem_of(with("abi=0.1", "abi=" + std::string(text)));
    CHECK(problem == "its abi is \"" + std::string(text) +
                         "\", expected MAJOR.MINOR, or MIN..MAX of one major version (1.0..1.3)");
  }
}

TEST_CASE("ranges of ABI versions meet where one minor version is in both", "[plugin]") {
  const AbiRange middle{.major = 1, .min_minor = 3, .max_minor = 5};
  CHECK(middle.intersects(middle));
  CHECK(middle.intersects({.major = 1, .min_minor = 5, .max_minor = 9}));
  CHECK(middle.intersects({.major = 1, .min_minor = 0, .max_minor = 3}));
  CHECK(middle.intersects({.major = 1, .min_minor = 4, .max_minor = 4}));
  CHECK_FALSE(middle.intersects({.major = 1, .min_minor = 6, .max_minor = 9}));
  CHECK_FALSE(middle.intersects({.major = 1, .min_minor = 0, .max_minor = 2}));
  CHECK_FALSE(middle.intersects({.major = 0, .min_minor = 3, .max_minor = 5}));
  CHECK_FALSE(kHostAbi.intersects(AbiRange{}));
  CHECK(AbiRange{}.is_empty());
  CHECK(AbiRange{}.text().empty());
  CHECK(kHostAbi.contains(TENON_ABI_MINOR));
  CHECK_FALSE(kHostAbi.contains(TENON_ABI_MINOR + 1));
}

TEST_CASE("a manifest lists the services that its plugin requires", "[plugin]") {
  std::string problem;
  CHECK(
      parse_manifest(kGood + "requires=tenon.op/1\nrequires=com.example.my-service_2/12\n", problem)
          .services == std::vector<std::string>{"tenon.op/1", "com.example.my-service_2/12"});
  CHECK(problem.empty());
  for (const char* const text : {"",
                                 "tenon.op",
                                 "tenon.op/",
                                 "tenon.op/0",
                                 "tenon.op/01",
                                 "tenon.op/1.0",
                                 "tenon.op/1/2",
                                 "tenon.op/1234567890",
                                 "tenon/1",
                                 "/1",
                                 "Tenon.op/1",
                                 "tenon..op/1",
                                 "tenon.op 1"}) {
    INFO(text);
    CHECK_THAT(problem_of(kGood + "requires=" + text + "\n"),
               contains_text("its requires is \"" + std::string(text) + "\", expected a service"));
  }
}

TEST_CASE("tenon_add_plugin() writes the range and the services", "[plugin]") {
  ZooFolder zoo;
  const ManifestFile file = read_manifest(zoo.add("good_range"));
  REQUIRE(file.reading == ManifestReading::kOk);
  CHECK(file.manifest.abi ==
        AbiRange{.major = 0, .min_minor = 4, .max_minor = TENON_ABI_MINOR});  // MIN_ABI is 0.4
  CHECK(file.manifest.services == std::vector<std::string>{"tenon.op/1", "tenon.tensor/1"});
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
  const ManifestFile text = read_manifest(zoo.write("notes.so", "text"));
  CHECK(text.reading == ManifestReading::kNotElf);
  CHECK(text.problem == "it is not a shared library");
  const ManifestFile library = read_manifest(zoo.add("no_manifest"));
  CHECK(library.reading == ManifestReading::kNoManifest);
  CHECK_THAT(library.problem, contains_text("it has no manifest"));
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
