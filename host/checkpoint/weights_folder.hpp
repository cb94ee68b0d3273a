// SPDX-License-Identifier: Apache-2.0
//
// Folders of weights for other programs: model.safetensors, or several files with
// model.safetensors.index.json, which maps tensors to files, or adapter_model.safetensors; and text
// files. The meaning of the
// tensors is unknown here. Not for checkpoints, because there are no checksums.
// Invariants: a folder is written atomically; at most one tensor is in memory at a time.
// Threads: any; several sources of a reader may be used concurrently.
#pragma once

#include "host/checkpoint/checkpoint_store.hpp"
#include "host/checkpoint/safetensors.hpp"
#include "host/io/export_target.hpp"
#include "host/tensor/state/tensor_source.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

// A folder that is written under a temporary name, next to its final path.
class NewFolder {
 public:
  // Errors  weights.exists if something other than an empty folder is at `path`; export.in_use if
  //         another process writes to it; storage.io
  explicit NewFolder(const std::string& path);
  // Removes the folder if finish() did not succeed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::string file(const std::string& name) const { return target_.temporary() + "/" + name; }
  // Moves the folder to its final path, durably. Its files must be synced.
  // Errors  storage.io
  void finish();

 private:
  ExportTarget target_;
  bool is_finished_ = false;
};

struct WeightTensor {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;
};

struct WrittenWeights {
  size_t num_files = 0;
  uint64_t bytes = 0;  // of the tensors
};

// Creates a file of that name; the caller closes it after writing.
using NewFile = std::function<std::unique_ptr<CheckpointFile>(const std::string& name)>;

// Writes tensors into one file; `read(i)` returns tensor i. If they exceed `file_bytes`, writes
// several files, filled in the order of `tensors`. A file exceeds `file_bytes` only for a single
// larger tensor. Then writes `texts`, pairs of name and content.
//
// Errors   storage.io; checkpoint.bad_tensor; those of `create` and `read`
WrittenWeights write_weights_files(const NewFile& create,
                                   const std::vector<WeightTensor>& tensors,
                                   const std::function<at::Tensor(size_t i)>& read,
                                   const std::vector<std::pair<std::string, std::string>>& texts,
                                   uint64_t file_bytes);

// The same, in a new folder. `prefix` is set before the names of the files with tensors.
// Errors  also weights.exists
WrittenWeights write_weights_folder(const std::string& path,
                                    const std::vector<WeightTensor>& tensors,
                                    const std::function<at::Tensor(size_t i)>& read,
                                    const std::vector<std::pair<std::string, std::string>>& texts,
                                    uint64_t file_bytes,
                                    const std::string& prefix = "");

// True if `path` is a folder with model.safetensors, model.safetensors.index.json or
// adapter_model.safetensors, or a file *.safetensors.
bool is_weights_folder(const std::string& path);

// Returns why a folder of another program has no weights that can be read, and what to do: "a has
// its weights as pytorch_model.bin, ..."; "" for other folders.
std::string other_weights_in(const std::string& path);

class WeightsFolder {
 public:
  // Reads the headers of all files. `path` may also be a single file; other files of its folder are
  // then ignored.
  //
  // Errors   weights.bad_folder: files are missing, or its index does not match their tensors;
  //          checkpoint.damaged for incomplete files; storage.io
  explicit WeightsFolder(std::string path);

  const std::string& path() const { return path_; }
  // By name.
  const std::map<std::string, WeightTensor>& tensors() const { return tensors_; }
  // The source reads from the file during its whole life.
  // Errors  storage.io
  std::shared_ptr<const TensorSource> source(const std::string& name) const {
    return sources_.at(name);
  }
  // Content of a text file of the folder; null if it does not exist, or for a single file.
  // Errors  storage.io; weights.bad_folder for more than 100 MB
  std::optional<std::string> text(const std::string& name) const;

 private:
  void add_file(const std::string& name, const std::map<std::string, std::string>* index);

  std::string path_;
  bool is_file_ = false;
  std::map<std::string, WeightTensor> tensors_;
  std::map<std::string, std::shared_ptr<const TensorSource>> sources_;
};

}  // namespace tenon
