// SPDX-License-Identifier: Apache-2.0
//
// Weights as other programs keep them: a folder with model.safetensors, or with several files and
// model.safetensors.index.json, which says where each tensor is; and text files beside them. What
// the tensors are is not known here. Not for checkpoints: there are no checksums.
// Invariants: a folder that is written is there wholly or not at all; no more than one tensor is in
// memory for it.
// Threads: any; a reader's sources several at once.
#pragma once

#include "host/checkpoint/bundle_storage.hpp"
#include "host/checkpoint/safetensors.hpp"
#include "host/tensor/tensor_source.hpp"

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

// A folder that is being written, beside the place that it will have.
class NewFolder {
 public:
  // Errors  weights.exists if something other than an empty folder is at `path`; storage.io
  explicit NewFolder(const std::string& path);
  // What was not finished is removed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::string file(const std::string& name) const { return temporary_ + "/" + name; }
  // Moves it to its place, durably. Its files must be synced.  Errors  storage.io
  void finish();

 private:
  std::string path_;
  std::string temporary_;
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

// Makes a file of that name, which is closed when it is written.
using NewFile = std::function<std::unique_ptr<BundleFile>(const std::string& name)>;

// Writes tensors, as `read(i)` gives them, into one file, or, where they have more than
// `file_bytes`, into several, none of which is larger unless one tensor is. Then `texts`, by name.
//
// Errors   storage.io; checkpoint.bad_tensor; those of `create` and `read`
WrittenWeights write_weights_files(const NewFile& create,
                                   const std::vector<WeightTensor>& tensors,
                                   const std::function<at::Tensor(size_t i)>& read,
                                   const std::vector<std::pair<std::string, std::string>>& texts,
                                   uint64_t file_bytes);

// The same in a folder of their own.  Errors  weights.exists too
WrittenWeights write_weights_folder(const std::string& path,
                                    const std::vector<WeightTensor>& tensors,
                                    const std::function<at::Tensor(size_t i)>& read,
                                    const std::vector<std::pair<std::string, std::string>>& texts,
                                    uint64_t file_bytes);

// True where WeightsFolder is what to read `path` with: a folder that has one of its files, or a
// file called *.safetensors.
bool is_weights_folder(const std::string& path);

class WeightsFolder {
 public:
  // Reads the headers of all files. `path` may be that of one file, too: then it is as if the
  // folder had no other.
  //
  // Errors   weights.bad_folder: it has no tensors, or its index names what is not there;
  //          checkpoint.damaged for files that are not whole; storage.io
  explicit WeightsFolder(std::string path);

  const std::string& path() const { return path_; }
  // By name.
  const std::map<std::string, WeightTensor>& tensors() const { return tensors_; }
  // Reads from the file as long as it lives.  Errors  storage.io
  std::shared_ptr<const TensorSource> source(const std::string& name) const {
    return sources_.at(name);
  }
  // A text file beside them, if there is one; none beside a single file.  Errors  storage.io
  std::optional<std::string> text(const std::string& name) const;

 private:
  void add_file(const std::string& name, const std::map<std::string, std::string>* index);

  std::string path_;
  bool is_file_ = false;
  std::map<std::string, WeightTensor> tensors_;
  std::map<std::string, std::shared_ptr<const TensorSource>> sources_;
};

}  // namespace tenon
