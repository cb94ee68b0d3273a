// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/torch_file.hpp"

#include "host/checkpoint/durable_file.hpp"
#include "host/error/error.hpp"

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

uint64_t write_torch_file(const std::string& path,
                          const std::vector<TorchTensor>& tensors,
                          const std::function<at::Tensor(size_t source)>& read) {
  namespace fs = std::filesystem;
  const fs::path full = fs::absolute(path).lexically_normal();
  std::error_code ignored;
  if (fs::exists(full, ignored)) {
    throw Error("weights.exists",
                full.string() + " is there already; name another place, or remove it");
  }
  const fs::path folder = full.parent_path();
  make_folders(folder.string());
  const std::string temporary = full.string() + ".tmp";
  ::unlink(temporary.c_str());

  // The pickle names tensors and storages by their sizes alone: these have no memory. Nobody reads
  // through them.
  std::map<size_t, at::Tensor> stand_ins;
  c10::Dict<std::string, at::Tensor> dict;
  for (const TorchTensor& tensor : tensors) {
    auto [at, is_new] = stand_ins.try_emplace(tensor.source);
    if (is_new) {
      at->second = at::from_blob(
          reinterpret_cast<void*>(size_t{64}), tensor.shape, [](void*) {}, at::dtype(tensor.dtype));
    }
    dict.insert(tensor.name, at->second);
  }

  DurableFile file = DurableFile::create(temporary);
  // libtorch's writer ends the archive when it is destroyed, and cannot fail there: it is told of
  // no failure.
  std::exception_ptr failure;
  const auto tell_failure = [&] {
    if (failure != nullptr) {
      std::rethrow_exception(failure);
    }
  };
  uint64_t bytes = 0;
  try {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t size) -> size_t {
      try {
        if (failure == nullptr) {
          file.write({static_cast<const std::byte*>(data), size});
        }
      } catch (...) {
        failure = std::current_exception();
      }
      return size;
    });
    std::string pickle;
    const auto id_of = [&](const at::Tensor& tensor) {
      for (const auto& [source, stand_in] : stand_ins) {
        if (stand_in.is_alias_of(tensor)) {
          return std::to_string(source);
        }
      }
      throw Error("host.internal", "a tensor of the state dict is none of those in it");
    };
    torch::jit::Pickler pickler([&](const char* text, size_t size) { pickle.append(text, size); },
                                /*tensor_table=*/nullptr,
                                /*type_renamer=*/nullptr,
                                /*memoized_class_types=*/nullptr,
                                id_of,
                                /*tag_aggregates=*/false);
    pickler.protocol();
    pickler.pushIValue(dict);
    pickler.stop();
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    static constexpr std::string_view kByteOrder = "little";
    writer.writeRecord("byteorder", kByteOrder.data(), kByteOrder.size());
    for (const auto& [source, stand_in] : stand_ins) {
      const at::Tensor values = read(source).contiguous();
      if (values.sizes() != stand_in.sizes() || values.scalar_type() != stand_in.scalar_type()) {
        throw Error("host.internal", "a tensor of the state dict is not what was announced");
      }
      writer.writeRecord(
          "data/" + std::to_string(source), values.const_data_ptr(), values.nbytes());
      bytes += values.nbytes();
      tell_failure();
    }
    writer.writeEndOfFile();
    tell_failure();
    file.sync();
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  file.close();
  rename_path(temporary, full.string());
  sync_folder(folder.string());
  return bytes;
}

}  // namespace tenon
