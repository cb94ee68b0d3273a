// SPDX-License-Identifier: Apache-2.0
//
// Folders of weights whose index is nearly right are read or refused. A case is the text of
// model.safetensors.index.json; the files beside it are valid.
#include "host/checkpoint/weights_folder.hpp"

#include <ATen/Functions.h>

#include <filesystem>
#include <fstream>

#include "tests/fuzz/json_cases.hpp"
#include "tests/fuzz/judge_error.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr char kIndex[] = "model.safetensors.index.json";

// A folder with several files, as the host exports it.
const std::string& seed_folder() {
  static const ScratchFolder scratch;
  static const std::string path = [] {
    std::string made = (scratch.path() / "weights").string();
    const std::vector<WeightTensor> tensors = {
        {"embed", at::kFloat, {4, 2}}, {"head", at::kFloat, {2, 3}}, {"step", at::kLong, {}}};
    write_weights_folder(
        made,
        tensors,
        [&](size_t i) { return at::zeros(tensors[i].shape, tensors[i].dtype); },
        {{"config.json", "{}\n"}},
        30);
    return made;
  }();
  return path;
}

std::string make_index(Mutator& mutator) {
  static const JsonCases cases({read_corpus_file(seed_folder() + "/" + kIndex)});
  return cases.make(mutator);
}

std::string judge_index(const std::string& text) {
  std::ofstream(seed_folder() + "/" + kIndex, std::ios::binary | std::ios::trunc) << text;
  return outcome_of([&] {
    const WeightsFolder folder(seed_folder());
    if (folder.tensors().size() > 3) {
      throw FuzzFinding("more tensors than the files have");
    }
    for (const auto& [name, tensor] : folder.tensors()) {
      const at::Tensor read = folder.source(name)->whole();
      if (read.sizes() != at::IntArrayRef(tensor.shape) || read.scalar_type() != tensor.dtype) {
        throw FuzzFinding("a tensor differs from its description");
      }
    }
  });
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::use_memory_for_scratch();
  return tenon::run_fuzz(
      argc, argv, {.name = "weights_fuzz", .make = tenon::make_index, .judge = tenon::judge_index});
}
