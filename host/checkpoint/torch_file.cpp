// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/torch_file.hpp"

#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/io/export_target.hpp"
#include "host/text/formatted.hpp"

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <ATen/ops/from_blob.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <caffe2/serialize/inline_container.h>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <unistd.h>

namespace tenon {

namespace {

using StandIns = std::map<size_t, at::Tensor>;  // by source

// Creates a tensor without memory for each source. The pickle contains only metadata of tensors and
// storages, so the values are never read.
StandIns stand_ins_of(const std::vector<TorchTensor>& tensors) {
  StandIns stand_ins;
  for (const TorchTensor& tensor : tensors) {
    auto [at, is_new] = stand_ins.try_emplace(tensor.source);
    if (is_new) {
      at->second = at::from_blob(
          reinterpret_cast<void*>(size_t{64}), tensor.shape, [](void*) {}, at::dtype(tensor.dtype));
    }
  }
  return stand_ins;
}

// Returns the state dict as a pickle for torch.load, with the sources as names of storages.
std::string pickled(const std::vector<TorchTensor>& tensors, const StandIns& stand_ins) {
  c10::Dict<std::string, at::Tensor> dict;
  for (const TorchTensor& tensor : tensors) {
    dict.insert(tensor.name, stand_ins.at(tensor.source));
  }
  const auto id_of = [&](const at::Tensor& tensor) {
    for (const auto& [source, stand_in] : stand_ins) {
      if (stand_in.is_alias_of(tensor)) {
        return std::to_string(source);
      }
    }
    throw Error("host.internal", "a tensor of the state dict is none of those in it");
  };
  std::string pickle;
  torch::jit::Pickler pickler([&](const char* text, size_t size) { pickle.append(text, size); },
                              /*tensor_table=*/nullptr,
                              /*type_renamer=*/nullptr,
                              /*memoized_class_types=*/nullptr,
                              id_of,
                              /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(dict);
  pickler.stop();
  return pickle;
}

// Writes an archive to a file with libtorch's writer. The writer's destructor completes the archive
// and must not throw, so errors of the file are stored, and check() throws them.
class Archive {
 public:
  explicit Archive(DurableFile& file)
      : writer_([this, &file](const void* data, size_t size) -> size_t {
          try {
            if (failure_ == nullptr) {
              file.write({static_cast<const std::byte*>(data), size});
            }
          } catch (...) {
            failure_ = std::current_exception();
          }
          return size;
        }) {}

  void write_record(const std::string& name, const void* data, size_t size) {
    writer_.writeRecord(name, data, size);
    check();
  }
  void finish() {
    writer_.writeEndOfFile();
    check();
  }

 private:
  void check() const {
    if (failure_ != nullptr) {
      std::rethrow_exception(failure_);
    }
  }

  std::exception_ptr failure_;  // declared before the writer, whose destructor uses it
  caffe2::serialize::PyTorchStreamWriter writer_;
};

// Returns the bytes of all tensors.
uint64_t write_archive(Archive& archive,
                       const std::vector<TorchTensor>& tensors,
                       const std::function<at::Tensor(size_t source)>& read) {
  const StandIns stand_ins = stand_ins_of(tensors);
  const std::string pickle = pickled(tensors, stand_ins);
  archive.write_record("data.pkl", pickle.data(), pickle.size());
  static constexpr std::string_view kByteOrder = "little";
  archive.write_record("byteorder", kByteOrder.data(), kByteOrder.size());
  uint64_t bytes = 0;
  for (const auto& [source, stand_in] : stand_ins) {
    const at::Tensor values = read(source).contiguous();
    if (values.sizes() != stand_in.sizes() || values.scalar_type() != stand_in.scalar_type()) {
      throw Error("host.internal", "a tensor of the state dict is not what was announced");
    }
    archive.write_record(formatted("data/{}", source), values.const_data_ptr(), values.nbytes());
    bytes += values.nbytes();
  }
  archive.finish();
  return bytes;
}

}  // namespace

uint64_t write_torch_file(const std::string& path,
                          const std::vector<TorchTensor>& tensors,
                          const std::function<at::Tensor(size_t source)>& read) {
  namespace fs = std::filesystem;
  make_folders(fs::absolute(path).lexically_normal().parent_path().string());
  const ExportTarget target(path);
  std::error_code ignored;
  if (fs::exists(target.path(), ignored)) {
    throw Error("weights.exists",
                target.path() + " already exists; pass another path, or remove it");
  }
  DurableFile file = DurableFile::create(target.temporary());
  uint64_t bytes = 0;
  try {
    Archive archive(file);
    bytes = write_archive(archive, tensors, read);
    file.sync();
    file.close();
    target.publish_new_file();
  } catch (...) {
    ::unlink(target.temporary().c_str());
    throw;
  }
  return bytes;
}

}  // namespace tenon
