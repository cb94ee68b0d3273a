// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/weights_folder.hpp"

#include "host/checkpoint/torch_file.hpp"
#include "host/error/error.hpp"

#include <ATen/Functions.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

const std::vector<WeightTensor> kTensors = {{"narrow", at::kBFloat16, {3}},
                                            {"wide", at::kDouble, {2, 2}},
                                            {"empty", at::kFloat, {0, 4}},
                                            {"scalar", at::kFloat, {}},
                                            {"last", at::kLong, {5}}};

at::Tensor value_of(size_t i) {
  const WeightTensor& tensor = kTensors[i];
  int64_t numel = 1;
  for (const int64_t size : tensor.shape) {
    numel *= size;
  }
  return (at::arange(numel) + static_cast<int64_t>(10 * i)).view(tensor.shape).to(tensor.dtype);
}

std::string failure_of(const std::string& path) {
  try {
    const WeightsFolder folder(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a single file of weights is read alone, without what is beside it", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string folder = (scratch.path() / "out").string();
  write_weights_folder(folder, kTensors, value_of, {{"config.json", "{}"}}, 1000);
  const std::string file = folder + "/model.safetensors";
  CHECK(is_weights_folder(folder));
  CHECK(is_weights_folder(file));
  CHECK_FALSE(is_weights_folder(scratch.path().string()));
  CHECK_FALSE(is_weights_folder(folder + "/config.json"));
  CHECK_FALSE(is_weights_folder(folder + "/gone.safetensors"));
  const WeightsFolder alone(file);
  CHECK(alone.path() == file);
  CHECK_FALSE(alone.text("config.json").has_value());
  REQUIRE(alone.tensors().size() == kTensors.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    CHECK(at::equal(alone.source(kTensors[i].name)->whole(), value_of(i)));
  }
}

TEST_CASE("a folder of weights holds what was written, in one file or several", "[checkpoint]") {
  const uint64_t file_bytes = GENERATE(uint64_t{1}, uint64_t{40}, uint64_t{1000});
  CAPTURE(file_bytes);
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "a" / "out").string();
  const WrittenWeights written =
      write_weights_folder(path, kTensors, value_of, {{"config.json", "{}"}}, file_bytes);
  CHECK(written.bytes == 6 + 32 + 0 + 4 + 40);
  CHECK((written.num_files > 1) == (file_bytes < 1000));
  CHECK(names_in(scratch.path() / "a") == std::vector<std::string>{"out"});
  CHECK(names_in(path).size() == written.num_files + (written.num_files > 1 ? 2 : 1));
  const WeightsFolder folder(path);
  REQUIRE(folder.tensors().size() == kTensors.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    CAPTURE(kTensors[i].name);
    CHECK(folder.tensors().at(kTensors[i].name).shape == kTensors[i].shape);
    const at::Tensor whole = folder.source(kTensors[i].name)->whole();
    CHECK(whole.scalar_type() == kTensors[i].dtype);
    CHECK(at::equal(whole, value_of(i)));
  }
  CHECK(folder.text("config.json") == "{}");
  CHECK_FALSE(folder.text("tokenizer.json").has_value());
}

TEST_CASE("a folder of weights is there wholly or not at all", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  const auto fail_late = [](size_t i) {
    if (i == 3) {
      throw Error("storage.io", "the disk is gone");
    }
    return value_of(i);
  };
  CHECK_THROWS_WITH(write_weights_folder(path, kTensors, fail_late, {}, 40),
                    contains_text("the disk is gone"));
  CHECK(names_in(scratch.path()).empty());
  fs::create_directory(path);
  write_weights_folder(path, kTensors, value_of, {}, 1000);
  CHECK(names_in(path) == std::vector<std::string>{"model.safetensors"});
  CHECK_THROWS_WITH(write_weights_folder(path, kTensors, value_of, {}, 1000),
                    contains_text("[weights.exists]"));
}

TEST_CASE("an export removes nothing that it did not write", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  for (const char* const name : {".out.tmp/mine", ".out.partial", "out.pt.tmp", ".out.pt.tmp"}) {
    scratch.write(name, "the user's");
  }
  write_weights_folder(path, kTensors, value_of, {}, 1000);
  write_torch_file(path + ".pt",
                   {{.name = "a", .dtype = at::kFloat, .shape = {2}, .source = 0}},
                   [](size_t) { return at::zeros({2}); });
  for (const char* const name : {".out.tmp/mine", ".out.partial", "out.pt.tmp", ".out.pt.tmp"}) {
    CHECK(fs::exists(scratch.path() / name));
  }
  CHECK(names_in(scratch.path()).size() == 6);  // nothing else is left
}

TEST_CASE("a second export to a place is refused while the first one writes", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  const auto refused_meanwhile = [&](size_t i) {
    CHECK_THROWS_WITH(write_weights_folder(path, kTensors, value_of, {}, 1000),
                      contains_text("[export.in_use] " + path));
    return value_of(i);
  };
  write_weights_folder(path, kTensors, refused_meanwhile, {}, 1000);
  CHECK(names_in(scratch.path()) == std::vector<std::string>{"out"});
}

TEST_CASE("folders of other kinds are named", "[checkpoint]") {
  const ScratchFolder scratch;
  const auto said = [&](const std::string& name, const std::string& file, const std::string& text) {
    scratch.write(name + "/" + file, text);
    return failure_of((scratch.path() / name).string());
  };
  CHECK_THAT(said("pickles", "pytorch_model.bin", "PK"),
             contains_text("[weights.bad_folder]") && contains_text("has its weights as "
                                                                    "pytorch_model.bin, a pickle"));
  CHECK_THAT(said("gguf", "model.gguf", "GGUF"),
             contains_text("model.gguf, which is not supported"));
  CHECK_THAT(said("other", "consolidated.safetensors", ""),
             contains_text("pass the path of the file itself"));
  CHECK_THAT(said("config", "config.json", "{}"), contains_text("complete its download"));
  CHECK_THAT(said("pointer",
                  "model.safetensors",
                  "version https://git-lfs.example/spec/v1\noid sha256:00\nsize 12\n"),
             contains_text("model.safetensors is a pointer of Git LFS"));
}

TEST_CASE("a folder that has no whole weights is refused", "[checkpoint]") {
  const ScratchFolder scratch;
  CHECK_THAT(failure_of(scratch.path().string()),
             contains_text("[weights.bad_folder]") && contains_text("neither model.safetensors"));
  const std::string path = (scratch.path() / "out").string();
  write_weights_folder(path, kTensors, value_of, {}, 40);
  const std::string index = path + "/model.safetensors.index.json";
  std::string text;
  std::getline(std::ifstream(index), text, '\0');

  scratch.write("out/model.safetensors.index.json", "{");
  CHECK_THAT(failure_of(path), contains_text("[weights.bad_folder]") && contains_text("be read"));
  std::string changed = text;
  changed.replace(changed.find("\"narrow\""), 8, "\"harrow\"");
  scratch.write("out/model.safetensors.index.json", changed);
  CHECK_THAT(failure_of(path), contains_text("has the tensor 'narrow'"));
  scratch.write("out/model.safetensors.index.json",
                R"({"weight_map": {"a": "../model.safetensors"}})");
  CHECK_THAT(failure_of(path), contains_text("not in the same folder"));

  scratch.write("out/model.safetensors.index.json", text);
  REQUIRE(failure_of(path).empty());
  std::string one;
  for (const std::string& name : names_in(path)) {
    one = name.ends_with(".safetensors") ? name : one;
  }
  fs::resize_file(path + "/" + one, fs::file_size(path + "/" + one) - 1);
  CHECK_THAT(failure_of(path), contains_text("[checkpoint.damaged]"));
  fs::remove(path + "/" + one);
  CHECK_THAT(failure_of(path), contains_text(one) && contains_text("is missing"));
}

TEST_CASE("what is no regular file in a folder of weights is refused by its kind", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  write_weights_folder(path, kTensors, value_of, {}, 1000);
  const std::string config = path + "/config.json";
  REQUIRE(::mkfifo(config.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(WeightsFolder(path).text("config.json"),
                    contains_text("cannot read " + config + ": it is a FIFO"));
  const std::string index = path + "/model.safetensors.index.json";
  REQUIRE(::mkfifo(index.c_str(), 0600) == 0);
  CHECK_THAT(failure_of(path), contains_text("cannot read " + index + ": it is a FIFO"));
  fs::remove(index);
  const std::string file = path + "/model.safetensors";
  fs::remove(file);
  fs::create_directory(file);
  CHECK_THAT(failure_of(path), contains_text("cannot read " + file + ": it is a folder"));
  fs::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK_THAT(failure_of(path), contains_text("cannot read " + file + ": it is a FIFO"));
  CHECK(is_weights_folder(file));
  CHECK_THAT(failure_of(file), contains_text("cannot read " + file + ": it is a FIFO"));
}

TEST_CASE("texts of a folder of weights have limits", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "out").string();
  write_weights_folder(path, kTensors, value_of, {{"config.json", "{}"}}, 1000);
  fs::resize_file(path + "/config.json", uint64_t{1} << 40);  // sparse
  CHECK_THROWS_WITH(WeightsFolder(path).text("config.json"),
                    contains_text("[weights.bad_folder]") && contains_text("100000000 bytes"));
  scratch.write("out/model.safetensors.index.json", std::string(10'000'000, '['));
  CHECK_THAT(failure_of(path), contains_text("it is nested more than 128 levels deep"));
  scratch.write("out/model.safetensors.index.json",
                R"({"weight_map": {"a": "b.safetensors", "a": "c.safetensors"}})");
  CHECK_THAT(failure_of(path), contains_text("it has the key 'a' twice"));
}

TEST_CASE("a state dict is there wholly or not at all", "[checkpoint]") {
  const ScratchFolder scratch;
  const std::string path = (scratch.path() / "a" / "state.pt").string();
  std::vector<TorchTensor> tensors;
  for (size_t i = 0; i < kTensors.size(); ++i) {
    tensors.push_back({.name = kTensors[i].name,
                       .dtype = kTensors[i].dtype,
                       .shape = kTensors[i].shape,
                       .source = i});
  }
  tensors.push_back({.name = "tied", .dtype = at::kDouble, .shape = {2, 2}, .source = 1});
  const auto fail_late = [](size_t i) {
    if (i == 3) {
      throw Error("storage.io", "the disk is gone");
    }
    return value_of(i);
  };
  CHECK_THROWS_WITH(write_torch_file(path, tensors, fail_late), contains_text("disk is gone"));
  CHECK(names_in(scratch.path() / "a").empty());
  CHECK(write_torch_file(path, tensors, value_of) == 6 + 32 + 0 + 4 + 40);
  CHECK(names_in(scratch.path() / "a") == std::vector<std::string>{"state.pt"});
  CHECK_THROWS_WITH(write_torch_file(path, tensors, value_of), contains_text("[weights.exists]"));
}

}  // namespace tenon
