// SPDX-License-Identifier: Apache-2.0
//
// Folders of compiled modules that are nearly right are read or refused. No compiled code runs. A
// case is the letter m and a model.json, or the letter w and a file of weights.
#include <tenon/cpp/guard.hpp>

#include <ATen/core/Tensor.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "plugins/models/aot/exported_folder.hpp"
#include "plugins/models/aot/safetensors_file.hpp"
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string exported_file(const std::string& name) {
  std::ifstream in(source_dir() / "recipes/data/iris_net" / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string make_aot(Mutator& mutator) {
  static const std::vector<std::string> corpus = {exported_file("model.json"),
                                                  exported_file("weights.safetensors")};
  static const std::vector<std::string> words = {"\"parameter 0\"",
                                                 "\"saved 1\"",
                                                 "\"gradient 0\"",
                                                 "\"output 9\"",
                                                 "\"axes\"",
                                                 "\"B\"",
                                                 "\"F64\"",
                                                 "\"BOOL\"",
                                                 "null",
                                                 "[]",
                                                 "{}",
                                                 "-1",
                                                 "4611686018427387904",
                                                 "\"../x.so\"",
                                                 "\"graphs\"",
                                                 "\"data_offsets\"",
                                                 "1e300"};
  const bool is_manifest = mutator.one_in(2);
  std::string text = corpus[is_manifest ? 0 : 1];
  if (!mutator.one_in(10)) {
    text = mutator.mutated(std::move(text), words, corpus);
  }
  return (is_manifest ? "m" : "w") + text;
}

// Reads each tensor of the right manifest.
void read_weights(const std::string& path) {
  const ExportedFolder folder =
      read_exported_folder((source_dir() / "recipes/data/iris_net").string());
  const SafetensorsFile weights(path);
  for (const TensorSpec& parameter : folder.parameters) {
    if (weights.read(parameter.name, parameter.shape(), parameter.dtype).sizes() !=
        at::IntArrayRef(parameter.shape())) {
      throw FuzzFinding("a tensor has another shape than was asked for");
    }
  }
}

std::string judge_aot(const std::string& input) {
  static const ScratchFolder scratch;
  static const std::set<std::string> known = {"aot.no_manifest",
                                              "aot.bad_manifest",
                                              "aot.other_format",
                                              "aot.other_torch",
                                              "aot.other_machine",
                                              "aot.other_cpu",
                                              "aot.no_weights",
                                              "aot.bad_weights",
                                              "aot.other_weights"};
  const std::string text = input.substr(std::min<size_t>(1, input.size()));
  try {
    if (input.rfind('w', 0) == 0) {
      read_weights(scratch.write("weights.safetensors", text).string());
    } else {
      scratch.write("model.json", text);
      read_exported_folder(scratch.path().string());
    }
  } catch (const Error& error) {
    if (known.count(error.id()) == 0 || std::string(error.what()).empty()) {
      throw FuzzFinding(std::string("an error has the unknown id \"") + error.id() + "\"");
    }
    return error.id();
  }
  return kFuzzAccepted;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc, argv, {.name = "aot_fuzz", .make = tenon::make_aot, .judge = tenon::judge_aot});
}
