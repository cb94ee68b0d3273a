// SPDX-License-Identifier: Apache-2.0
//
// Floating-point operations of a forward, by block, as the models declare them (`infer` of
// model.h). Runs no block.
// Threads: any, one call at a time.
#pragma once

#include "host/model/graph.hpp"
#include "host/model/model_list.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace tenon {

class DeclaredFlops {
 public:
  // `fields` are the names of the batch's fields: optional inputs that it lacks are absent.
  DeclaredFlops(ModelList models,
                const ModelGraph& graph,
                const ExecBase& base,
                std::set<std::string> fields);

  struct Answer {
    std::vector<double> by_block;
    std::vector<int64_t> widths;  // by block: the last size of its first output; 0 if it has none
  };

  // Returns the operations for a batch whose named axes have these sizes. `lengths` are those of
  // its sequences; if empty, each sample is one. Returns nothing if a model does not declare a
  // block, or a shape is unknown; why_not() then has the reason.
  // Errors  PluginError of `infer`; plugin.bad_result for an impossible answer
  std::optional<Answer> forward(const std::map<std::string, int64_t>& sizes,
                                std::span<const int64_t> lengths = {});
  const std::string& why_not() const { return why_not_; }

  // Returns the sizes of the named axes of a batch's fields that models read. A part of sequences
  // has the T of whole ones.
  std::map<std::string, int64_t> sizes_of(const Batch& batch) const;

 private:
  using Shape = std::vector<int64_t>;

  std::optional<Shape> shape_of(const ModelValue& value,
                                const std::map<std::string, int64_t>& sizes) const;
  bool is_absent(const ModelValue& value) const;
  std::optional<std::vector<const Shape*>> gather(const ModelBlock& block,
                                                  const std::vector<std::optional<Shape>>& shapes);
  bool ask(uint32_t b,
           std::vector<std::optional<Shape>>& shapes,
           std::map<std::string, int64_t>& sizes,
           std::span<const int64_t> lengths,
           Answer& answer);

  const ModelList models_;
  const ModelGraph& graph_;
  const std::vector<uint32_t> order_;  // of the forwards of blocks
  const ExecBase base_;
  const std::set<std::string> fields_;
  std::vector<ExecFrame> frames_;  // by model
  std::string why_not_;
};

}  // namespace tenon
