// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/weights_folder.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/io/checked_size.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/regular_file.hpp"
#include "host/json/bounded_json.hpp"
#include "host/text/formatted.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <span>

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kOnlyFile[] = "model.safetensors";
constexpr char kAdapterFile[] = "adapter_model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kSuffix[] = ".safetensors";
// Bytes per write to a file.
constexpr size_t kFileChunk = size_t{8} << 20;
constexpr uint64_t kMaxText = 100'000'000;  // bytes of the index or config.json

uint64_t bytes_of(const WeightTensor& tensor) {
  const auto bytes = checked_bytes(tensor.shape, c10::elementSize(tensor.dtype));
  TENON_ASSERT(bytes.has_value(), "a tensor in memory has a size that fits");
  return *bytes;
}

// "model-00001-of-00003.safetensors".
std::string file_name(size_t i, size_t count) {
  if (count == 1) {
    return kOnlyFile;
  }
  char text[64];
  std::snprintf(text, sizeof(text), "model-%05zu-of-%05zu.safetensors", i + 1, count);
  return text;
}

// A file of a NewFolder. It does not remove itself after an error; NewFolder removes the folder.
class FolderFile final : public CheckpointFile {
 public:
  explicit FolderFile(const std::string& path) : file_(DurableFile::create(path)) {}
  void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
  void close() override {
    file_.sync();
    file_.close();
  }

 private:
  DurableFile file_;
};

void write_text(CheckpointFile& file, const std::string& text) {
  file.write(std::as_bytes(std::span(text)));
  file.close();
}

void write_tensors(CheckpointFile& file,
                   const std::vector<WeightTensor>& tensors,
                   const std::vector<size_t>& members,
                   const std::function<at::Tensor(size_t i)>& read) {
  std::vector<SafeTensor> headers;
  headers.reserve(members.size());
  for (const size_t i : members) {
    headers.push_back(
        {.name = tensors[i].name, .dtype = tensors[i].dtype, .shape = tensors[i].shape});
  }
  // "pt" (PyTorch): other programs require the name of the framework.
  const std::string header = safetensors_header(headers, {{"format", "pt"}});
  file.write(std::as_bytes(std::span(header)));
  for (const size_t i : members) {
    const at::Tensor tensor = read(i).contiguous();
    if (tensor.scalar_type() != tensors[i].dtype ||
        tensor.sizes() != at::IntArrayRef(tensors[i].shape)) {
      throw Error("host.internal",
                  "'" + tensors[i].name + "' differs from its announced shape or dtype");
    }
    const std::span bytes(static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
    for (size_t at = 0; at < bytes.size(); at += kFileChunk) {
      file.write(bytes.subspan(at, std::min(kFileChunk, bytes.size() - at)));
    }
  }
  file.close();
}

// A tensor in a file that stays open.
class FileSource final : public TensorSource {
 public:
  FileSource(std::shared_ptr<const OpenFile> file, std::string path, const SafeTensor& tensor)
      : TensorSource(tensor.dtype, tensor.shape),
        file_(std::move(file)),
        path_(std::move(path)),
        begin_(tensor.begin) {}

  void read(int64_t first, const at::Tensor& out) const override;

 private:
  std::shared_ptr<const OpenFile> file_;
  std::string path_;
  uint64_t begin_;
};

void read_bytes(const OpenFile& file,
                const std::string& path,
                uint64_t offset,
                std::span<std::byte> out) {
  size_t num_read = 0;
  std::string problem = read_at(file, offset, out, num_read);
  if (problem.empty() && num_read < out.size()) {
    problem = "it ends too early; it was changed while it was read";
  }
  if (!problem.empty()) {
    throw Error("storage.io", "cannot read " + path + ": " + problem);
  }
}

void FileSource::read(int64_t first, const at::Tensor& out) const {
  read_bytes(*file_,
             path_,
             begin_ + static_cast<uint64_t>(first) * c10::elementSize(dtype()),
             {static_cast<std::byte*>(out.mutable_data_ptr()), out.nbytes()});
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  return names.size() > kShown ? formatted("{} and {} more", text, names.size() - kShown) : text;
}

// The start of a file that Git LFS leaves in place of a file that it has not fetched.
constexpr std::string_view kPointerStart = "version https://git-lfs";

void refuse_pointer(const OpenFile& file, uint64_t size, const std::string& path) {
  constexpr uint64_t kMostBytes = 1024;  // of a pointer
  std::string start(kPointerStart.size(), '\0');
  if (size < start.size() || size > kMostBytes) {
    return;
  }
  read_bytes(file, path, 0, std::as_writable_bytes(std::span(start)));
  if (start == kPointerStart) {
    throw Error("weights.bad_folder",
                path + " is a pointer of Git LFS, not the file; fetch it by: git lfs pull");
  }
}

// Creates the folders above a path.
const std::string& with_parent(const std::string& path) {
  const fs::path full = fs::absolute(path).lexically_normal();
  make_folders((full.has_filename() ? full : full.parent_path()).parent_path().string());
  return path;
}

// The file of each tensor, from the text of kIndex in the folder `path`.
std::map<std::string, std::string> index_of_weights(const std::string& text,
                                                    const std::string& path) {
  try {
    return parse_bounded_json(text).at("weight_map").get<std::map<std::string, std::string>>();
  } catch (const json::exception& error) {
    throw Error("weights.bad_folder",
                path + "/" + kIndex + " cannot be read: " + std::string(error.what()));
  } catch (const BadJson& error) {
    throw Error("weights.bad_folder",
                path + "/" + kIndex + " cannot be read: " + std::string(error.what()));
  }
}

}  // namespace

NewFolder::NewFolder(const std::string& path) : target_(with_parent(path)) {
  const fs::path full = target_.path();
  std::error_code failed;
  if (fs::exists(full, failed) && !(fs::is_directory(full, failed) && fs::is_empty(full, failed))) {
    throw Error("weights.exists",
                target_.path() +
                    " already exists and is not an empty folder; pass another path, or remove it");
  }
  make_folders(target_.temporary());
}

NewFolder::~NewFolder() {
  if (!is_finished_) {
    std::error_code ignored;
    fs::remove_all(target_.temporary(), ignored);
  }
}

void NewFolder::finish() {
  sync_folder(target_.temporary());
  rename_path(target_.temporary(), target_.path());
  is_finished_ = true;
  sync_folder(fs::path(target_.path()).parent_path().string());
}

WrittenWeights write_weights_files(const NewFile& create,
                                   const std::vector<WeightTensor>& tensors,
                                   const std::function<at::Tensor(size_t i)>& read,
                                   const std::vector<std::pair<std::string, std::string>>& texts,
                                   uint64_t file_bytes) {
  WrittenWeights written;
  std::vector<std::vector<size_t>> files(1);
  uint64_t in_file = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t bytes = bytes_of(tensors[i]);
    if (!files.back().empty() && in_file + bytes > file_bytes) {
      files.emplace_back();
      in_file = 0;
    }
    files.back().push_back(i);
    in_file += bytes;
    written.bytes += bytes;
  }
  written.num_files = files.size();
  json map = json::object();
  for (size_t f = 0; f < files.size(); ++f) {
    // Largest elements first, so that the offset of each tensor is a multiple of its element size.
    std::ranges::stable_sort(files[f], [&](size_t a, size_t b) {
      return c10::elementSize(tensors[a].dtype) > c10::elementSize(tensors[b].dtype);
    });
    const std::string name = file_name(f, files.size());
    write_tensors(*create(name), tensors, files[f], read);
    for (const size_t i : files[f]) {
      map[tensors[i].name] = name;
    }
  }
  if (files.size() > 1) {
    const json index = {{"metadata", {{"total_size", written.bytes}}}, {"weight_map", map}};
    write_text(*create(kIndex), index.dump(2) + "\n");
  }
  for (const auto& [name, text] : texts) {
    write_text(*create(name), text);
  }
  return written;
}

WrittenWeights write_weights_folder(const std::string& path,
                                    const std::vector<WeightTensor>& tensors,
                                    const std::function<at::Tensor(size_t i)>& read,
                                    const std::vector<std::pair<std::string, std::string>>& texts,
                                    uint64_t file_bytes,
                                    const std::string& prefix) {
  NewFolder folder(path);
  const auto create = [&](const std::string& name) {
    return std::make_unique<FolderFile>(
        folder.file(name.ends_with(kSuffix) ? prefix + name : name));
  };
  const WrittenWeights written = write_weights_files(create, tensors, read, texts, file_bytes);
  folder.finish();
  return written;
}

bool is_weights_folder(const std::string& path) {
  std::error_code ignored;
  return path.ends_with(kSuffix) ? fs::exists(path, ignored) && !fs::is_directory(path, ignored)
                                 : fs::exists(path + "/" + kOnlyFile, ignored) ||
                                       fs::exists(path + "/" + kIndex, ignored) ||
                                       fs::exists(path + "/" + kAdapterFile, ignored);
}

std::string other_weights_in(const std::string& path) {
  std::error_code error;
  std::string pickle;
  std::string other;
  bool has_config = false;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::string extension = entry->path().extension().string();
    has_config = has_config || name == "config.json" || name == "adapter_config.json";
    if (extension == ".bin" || extension == ".pt" || extension == ".pth") {
      pickle = pickle.empty() ? name : std::min(pickle, name);
    } else if (extension == ".gguf" || extension == kSuffix) {
      other = other.empty() ? name : std::min(other, name);
    }
  }
  if (other.ends_with(kSuffix)) {
    return path + " has " + other + ", but neither " + kOnlyFile + " nor " + kIndex +
           "; pass the path of the file itself, or add the index";
  }
  if (!other.empty()) {
    return path + " has its weights as " + other +
           ", which is not supported; pass a folder with safetensors files";
  }
  if (!pickle.empty()) {
    return path + " has its weights as " + pickle +
           ", a pickle that could run code and is not read; write safetensors with " +
           (pickle.starts_with("adapter_model")
                ? "PEFT: AutoPeftModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW)"
                : "transformers: "
                  "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW)");
  }
  return has_config ? path + " has a configuration, and no weights: neither " + kOnlyFile +
                          " nor " + kIndex + "; complete its download"
                    : "";
}

WeightsFolder::WeightsFolder(std::string path) : path_(std::move(path)) {
  std::error_code ignored;
  if (path_.ends_with(kSuffix) && !fs::is_directory(path_, ignored)) {
    is_file_ = true;
    const fs::path file = fs::absolute(path_);
    path_ = file.parent_path().string();
    add_file(file.filename().string(), nullptr);
    path_ = file.string();
    return;
  }
  const auto index_text = text(kIndex);
  if (!index_text.has_value()) {
    const bool is_adapter = !fs::exists(path_ + "/" + kOnlyFile, ignored) &&
                            fs::exists(path_ + "/" + kAdapterFile, ignored);
    add_file(is_adapter ? kAdapterFile : kOnlyFile, nullptr);
    return;
  }
  const std::map<std::string, std::string> index = index_of_weights(*index_text, path_);
  std::set<std::string> files;
  for (const auto& [tensor, file] : index) {
    if (file.find('/') != std::string::npos) {
      throw Error(
          "weights.bad_folder",
          path_ + "/" + kIndex + " names the file '" + file + "', which is not in the same folder");
    }
    files.insert(file);
  }
  for (const std::string& file : files) {
    add_file(file, &index);
  }
  std::vector<std::string> missing;
  for (const auto& [tensor, file] : index) {
    if (!tensors_.contains(tensor)) {
      missing.push_back(tensor);
    }
  }
  if (!missing.empty()) {
    throw Error(
        "weights.bad_folder",
        path_ + ": " + kIndex + " names tensors that its files do not have: " + list_of(missing));
  }
}

void WeightsFolder::add_file(const std::string& name,
                             const std::map<std::string, std::string>* index) {
  const std::string path = path_ + "/" + name;
  RegularFile opened = open_regular_file(path);
  if (opened.is_missing) {
    const std::string other = index == nullptr ? other_weights_in(path_) : "";
    throw Error("weights.bad_folder",
                index != nullptr
                    ? path_ + ": the file " + name + ", which " + kIndex + " names, is missing"
                : !other.empty() ? other
                                 : path_ + " has neither " + kOnlyFile + " nor " + kIndex +
                                       "; pass a folder with safetensors files");
  }
  if (!opened.file.is_open()) {
    throw Error("storage.io", "cannot read " + path + ": " + opened.problem);
  }
  const auto file = std::make_shared<const OpenFile>(std::move(opened.file));
  refuse_pointer(*file, opened.size, path);
  const SafetensorsContent content = read_safetensors_header(
      opened.size,
      [&](uint64_t offset, std::span<std::byte> out) { read_bytes(*file, path, offset, out); },
      path);
  for (const SafeTensor& tensor : content.tensors) {
    if (index != nullptr) {
      const auto found = index->find(tensor.name);
      if (found == index->end() || found->second != name) {
        throw Error(
            "weights.bad_folder",
            path + " has the tensor '" + tensor.name + "', which " + kIndex + " does not list");
      }
    }
    tensors_[tensor.name] = {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape};
    sources_[tensor.name] = std::make_shared<FileSource>(file, path, tensor);
  }
}

std::optional<std::string> WeightsFolder::text(const std::string& name) const {
  if (is_file_) {
    return std::nullopt;
  }
  const std::string path = path_ + "/" + name;
  FileText file = read_file_text(path, kMaxText);
  if (file.is_missing) {
    return std::nullopt;
  }
  if (!file.problem.empty()) {
    throw Error("storage.io", "cannot read " + path + ": " + file.problem);
  }
  if (file.is_too_large) {
    throw Error("weights.bad_folder", formatted("{} has more than {} bytes", path, kMaxText));
  }
  return std::move(file.text);
}

}  // namespace tenon
