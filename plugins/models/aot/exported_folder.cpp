// SPDX-License-Identifier: Apache-2.0
#include "exported_folder.hpp"

#include <tenon/cpp/guard.hpp>

#include <nlohmann/json.hpp>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kFormat[] = "tenon.aot/1";
constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kDtypes = {
    {{"F64", at::kDouble},
     {"F32", at::kFloat},
     {"F16", at::kHalf},
     {"BF16", at::kBFloat16},
     {"I64", at::kLong},
     {"I32", at::kInt},
     {"I16", at::kShort},
     {"I8", at::kChar},
     {"U8", at::kByte},
     {"BOOL", at::kBool}}};
constexpr std::array<std::pair<const char*, Role>, 6> kRoles = {{{"parameter", Role::kParameter},
                                                                 {"buffer", Role::kBuffer},
                                                                 {"input", Role::kInput},
                                                                 {"output", Role::kOutput},
                                                                 {"saved", Role::kSaved},
                                                                 {"gradient", Role::kGradient}}};

[[noreturn]] void malformed(const std::string& file, const std::string& what) {
  TENON_FAIL(TENON_INVALID,
             "aot.bad_manifest",
             file,
             ": ",
             what,
             "; export the module again with tenon_aot.py");
}

at::ScalarType dtype_named(const std::string& name) {
  for (const auto& [text, dtype] : kDtypes) {
    if (name == text) {
      return dtype;
    }
  }
  throw std::invalid_argument("unknown dtype " + name);
}

TensorSpec tensor_of(const Json& from) {
  TensorSpec spec;
  spec.name = from.at("name").get<std::string>();
  spec.dtype = dtype_named(from.at("dtype").get<std::string>());
  for (const Json& axis : from.at("axes")) {
    if (axis.is_string()) {
      spec.axes.push_back({axis.get<std::string>(), -1});
    } else {
      spec.axes.push_back({"", axis.get<int64_t>()});
    }
  }
  spec.is_trained = from.value("trained", false);
  spec.is_saved = from.value("saved", false);
  return spec;
}

std::vector<TensorSpec> tensors_of(const Json& from) {
  std::vector<TensorSpec> specs;
  for (const Json& one : from) {
    specs.push_back(tensor_of(one));
  }
  return specs;
}

// "parameter 3".
GraphTensor graph_tensor(const std::string& text) {
  const size_t space = text.find(' ');
  for (const auto& [name, role] : kRoles) {
    if (space != std::string::npos && text.compare(0, space, name) == 0) {
      return {role, std::stoul(text.substr(space + 1))};
    }
  }
  throw std::invalid_argument("unknown tensor " + text);
}

std::vector<GraphTensor> graph_tensors(const Json& from) {
  std::vector<GraphTensor> tensors;
  for (const Json& one : from) {
    tensors.push_back(graph_tensor(one.get<std::string>()));
  }
  return tensors;
}

GraphSpec graph_of(const Json& from, const fs::path& folder) {
  const fs::path file = from.at("file").get<std::string>();
  if (file != file.filename()) {
    throw std::invalid_argument(file.string() + " is outside the folder");
  }
  return {(folder / file).string(),
          graph_tensors(from.at("inputs")),
          graph_tensors(from.at("outputs"))};
}

void check_indices(const ExportedFolder& folder, const GraphSpec& graph) {
  for (const auto* const tensors : {&graph.inputs, &graph.outputs}) {
    for (const GraphTensor& tensor : *tensors) {
      const size_t count = tensor.role == Role::kParameter ? folder.parameters.size()
                           : tensor.role == Role::kBuffer  ? folder.buffers.size()
                           : tensor.role == Role::kInput   ? folder.inputs.size()
                           : tensor.role == Role::kSaved   ? folder.num_saved()
                                                           : folder.outputs.size();
      if (tensor.index >= count) {
        throw std::invalid_argument(graph.file + " has a tensor out of range");
      }
    }
  }
}

// What each graph may receive and return; the plugin relies on it.
void check_roles(const GraphSpec& graph, std::set<Role> inputs, std::set<Role> outputs) {
  const auto check = [&](const std::vector<GraphTensor>& tensors, const std::set<Role>& allowed) {
    for (const GraphTensor& tensor : tensors) {
      if (allowed.count(tensor.role) == 0) {
        throw std::invalid_argument(graph.file + " has a tensor of another graph");
      }
    }
  };
  check(graph.inputs, inputs);
  check(graph.outputs, outputs);
}

void check_graphs(const ExportedFolder& folder) {
  check_roles(folder.forward,
              {Role::kParameter, Role::kBuffer, Role::kInput},
              {Role::kOutput, Role::kBuffer, Role::kSaved});
  check_roles(
      folder.backward,
      {Role::kParameter, Role::kBuffer, Role::kInput, Role::kOutput, Role::kSaved, Role::kGradient},
      {Role::kParameter, Role::kInput});
  check_indices(folder, folder.forward);
  check_indices(folder, folder.backward);
  if (folder.evaluate.has_value()) {
    check_roles(*folder.evaluate, {Role::kParameter, Role::kBuffer, Role::kInput}, {Role::kOutput});
    check_indices(folder, *folder.evaluate);
  }
  for (const GraphSpec* const graph :
       {&folder.forward, folder.evaluate.has_value() ? &*folder.evaluate : &folder.forward}) {
    std::set<size_t> returned;
    for (const GraphTensor& tensor : graph->outputs) {
      if (tensor.role == Role::kOutput) {
        returned.insert(tensor.index);
      }
    }
    if (returned.size() != folder.outputs.size()) {
      throw std::invalid_argument(graph->file + " does not return all outputs");
    }
  }
  for (const auto* const held : {&folder.parameters, &folder.buffers}) {
    for (const TensorSpec& tensor : *held) {
      for (const TensorSpec::Axis& axis : tensor.axes) {
        if (axis.size < 0) {
          throw std::invalid_argument(tensor.name + " has an axis without a size");
        }
      }
    }
  }
}

// The features of this processor, as /proc/cpuinfo names them.
std::set<std::string> processor_flags() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 5, "flags") == 0) {
      std::istringstream words(line.substr(line.find(':') + 1));
      std::set<std::string> flags;
      for (std::string word; words >> word;) {
        flags.insert(word);
      }
      return flags;
    }
  }
  return {};
}

void check_machine(const Json& manifest, const std::string& file) {
  const auto format = manifest.at("format").get<std::string>();
  if (format != kFormat) {
    TENON_FAIL(TENON_UNSUPPORTED,
               "aot.other_format",
               file,
               " has the format ",
               format,
               " (expected ",
               kFormat,
               "); export the module with the tenon_aot.py of this release");
  }
  const auto torch = manifest.at("torch").get<std::string>();
  const std::string here =
      std::to_string(TORCH_VERSION_MAJOR) + "." + std::to_string(TORCH_VERSION_MINOR);
  if (torch.compare(0, here.size() + 1, here + ".") != 0) {
    TENON_FAIL(TENON_UNSUPPORTED,
               "aot.other_torch",
               file,
               ": the module was compiled with torch ",
               torch,
               " (expected ",
               here,
               ".x); export it again with torch ",
               here);
  }
  const auto device = manifest.at("device").get<std::string>();
  const auto machine = manifest.at("machine").get<std::string>();
#if defined(__x86_64__)
  constexpr char kMachine[] = "x86_64";
#else
  constexpr char kMachine[] = "unknown";
#endif
  if (device != "cpu" || machine != kMachine) {
    TENON_FAIL(TENON_UNSUPPORTED,
               "aot.other_machine",
               file,
               ": the module was compiled for ",
               device,
               " on ",
               machine,
               " (expected cpu on ",
               kMachine,
               "); export it on such a machine");
  }
  const std::set<std::string> flags = processor_flags();
  for (const Json& flag : manifest.at("cpu_flags")) {
    if (flags.count(flag.get<std::string>()) == 0) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "aot.other_cpu",
                 file,
                 ": the module was compiled for processors with ",
                 flag.get<std::string>(),
                 ", which this one lacks; export it with a lower `isa`, such as sse");
    }
  }
}

}  // namespace

std::vector<int64_t> TensorSpec::shape() const {
  std::vector<int64_t> sizes;
  for (const Axis& axis : axes) {
    sizes.push_back(axis.size);
  }
  return sizes;
}

bool ExportedFolder::updates(size_t buffer) const {
  return std::any_of(
      forward.outputs.begin(), forward.outputs.end(), [buffer](const GraphTensor& tensor) {
        return tensor.role == Role::kBuffer && tensor.index == buffer;
      });
}

size_t ExportedFolder::num_saved() const {
  return static_cast<size_t>(
      std::count_if(forward.outputs.begin(), forward.outputs.end(), [](const GraphTensor& tensor) {
        return tensor.role == Role::kSaved;
      }));
}

ExportedFolder read_exported_folder(const std::string& path) {
  const fs::path folder(path);
  const std::string file = (folder / "model.json").string();
  std::ifstream in(file);
  if (!in) {
    TENON_FAIL(TENON_NOT_FOUND,
               "aot.no_manifest",
               file,
               " cannot be read; `path` must name a folder that tenon_aot.py wrote");
  }
  ExportedFolder result;
  result.path = path;
  try {
    const Json manifest = Json::parse(in);
    check_machine(manifest, file);
    result.inputs = tensors_of(manifest.at("inputs"));
    result.outputs = tensors_of(manifest.at("outputs"));
    result.parameters = tensors_of(manifest.at("parameters"));
    result.buffers = tensors_of(manifest.at("buffers"));
    const Json& graphs = manifest.at("graphs");
    result.forward = graph_of(graphs.at("forward"), folder);
    result.backward = graph_of(graphs.at("backward"), folder);
    if (graphs.contains("evaluate")) {
      result.evaluate = graph_of(graphs.at("evaluate"), folder);
    }
    check_graphs(result);
  } catch (const tenon::Error&) {
    throw;
  } catch (const std::exception& error) {
    malformed(file, error.what());
  }
  return result;
}
