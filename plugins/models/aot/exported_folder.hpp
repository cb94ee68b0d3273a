// SPDX-License-Identifier: Apache-2.0
//
// The folder that tenon_aot.py writes: what model.json says, checked. Reads no code.
// Threads: any.
#ifndef TENON_AOT_EXPORTED_FOLDER_HPP
#define TENON_AOT_EXPORTED_FOLDER_HPP

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// What an input or output of a compiled graph is: one of the model's tensors, or one that the
// forward saves for the backward.
enum class Role { kParameter, kBuffer, kInput, kOutput, kSaved, kGradient };
struct GraphTensor {
  Role role = Role::kInput;
  size_t index = 0;
};

struct GraphSpec {
  std::string file;  // with its folder
  std::vector<GraphTensor> inputs;
  std::vector<GraphTensor> outputs;
};

// A tensor of the model. An axis has a size, or a name if its size may change.
struct TensorSpec {
  struct Axis {
    std::string name;
    int64_t size = -1;
  };
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<Axis> axes;
  bool is_trained = false;  // of a parameter
  bool is_saved = false;    // of a buffer: it is in state_dict

  // The sizes of a parameter or buffer, which all have one.
  std::vector<int64_t> shape() const;
};

struct ExportedFolder {
  std::string path;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<TensorSpec> parameters;
  std::vector<TensorSpec> buffers;
  GraphSpec forward;
  GraphSpec backward;
  std::optional<GraphSpec> evaluate;  // absent if `forward` also evaluates

  // Whether a training forward gives a buffer its next value.
  bool updates(size_t buffer) const;
  size_t num_saved() const;
};

// Reads PATH/model.json.
//
// Errors: TENON_NOT_FOUND without the folder or file; TENON_INVALID if it is malformed;
// TENON_UNSUPPORTED if it was compiled for another libtorch, processor or format. The messages
// say what to do.
ExportedFolder read_exported_folder(const std::string& path);

#endif
