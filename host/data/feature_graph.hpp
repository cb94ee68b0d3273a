// SPDX-License-Identifier: Apache-2.0
//
// The features of a recipe over the columns of one dataset: which steps run, in which order, and
// the resulting schema. Equal steps on equal columns are computed once. One call runs all ready
// steps of a type. If possible, a type is called when no more of its steps can become ready.
// Reading is in feature_source.hpp; plugins implement the steps.
// Invariants: the schema is the dataset's fields, then the features' fields in their order; the
// result of run() depends only on the batch.
// Threads: made by one thread; run() by any, several at once.

#pragma once

#include "host/data/data_source.hpp"
#include "host/plugin/feature_proxy.hpp"
#include "host/tensor/column.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tenon {

struct FeatureDefinition {
  struct Step {
    std::string type;      // for messages: "hash"
    std::string identity;  // plugin, type and options; equal steps are interchangeable
  };
  std::string name;
  std::vector<std::string> from;  // columns of the batch, or earlier features
  std::vector<Step> steps;        // the first reads `from`, each other step its predecessor
};

class FeatureGraph {
 public:
  using MakeFeature = std::function<FeatureProxy(std::size_t definition, std::size_t step)>;

  // `make` is called once for each step that is computed. `dataset` is its name, for messages.
  //
  // Errors   data.bad_feature, naming feature and dataset, for a missing column, a name that
  //          exists, or columns that a step does not accept; data.bad_column; what `make` throws;
  //          plugin.bad_result of `infer`
  // Threads  [main]
  FeatureGraph(const std::vector<FeatureDefinition>& definitions,
               const std::vector<FieldInfo>& fields,
               std::string dataset,
               const ExecBase& exec,
               const MakeFeature& make);
  FeatureGraph(const FeatureGraph&) = delete;
  FeatureGraph& operator=(const FeatureGraph&) = delete;

  const BatchSchema& schema() const { return schema_; }
  std::size_t num_steps() const { return nodes_.size(); }   // computed for each batch
  std::size_t num_calls() const { return groups_.size(); }  // of plugins, for each batch
  // Returns an instance of each type in use.
  std::vector<const ComponentInstance*> types() const;

  // Returns the fields of the features for a batch that has samples, in the order of the schema.
  //
  // Errors   data.bad_batch for invalid offsets of a column; errors of a step; both name the
  //          dataset, the feature or column and, if known, the sample
  // Threads  [worker]
  std::vector<at::Tensor> run(const Batch& batch) const;

 private:
  struct Given {  // a column of the batch
    std::string name;
    ColumnFields fields;
    std::size_t slot = 0;
  };
  struct Node {
    FeatureProxy feature;
    std::string label;                // `feature "user", step 2 (mod)`
    std::vector<std::size_t> inputs;  // slots
    std::size_t first_output = 0;     // slot
  };
  struct Group {
    std::vector<std::size_t> nodes;
    ExecFrame frame;
  };
  using Slots = std::vector<std::size_t>;

  [[noreturn]] void fail(const std::string& label, const std::string& problem) const;
  Slots slots_named(const FeatureDefinition& definition,
                    const std::string& name,
                    const std::vector<FieldInfo>& fields);
  Slots add_step(const FeatureDefinition& definition,
                 std::size_t step,
                 const Slots& inputs,
                 const std::function<FeatureProxy()>& make);
  void name_outputs(const FeatureDefinition& definition, const Slots& outputs);
  void schedule(const ExecBase& exec);
  void run_group(const Group& group, std::vector<Column>& slots, int64_t samples) const;
  [[noreturn]] void blame(const Group& group,
                          std::vector<FeatureCall>& calls,
                          int64_t samples,
                          const Error& error) const;

  std::string dataset_;
  BatchSchema schema_;
  std::vector<Given> given_;
  std::vector<Node> nodes_;
  std::vector<ColumnType> types_;                         // of slots
  std::map<std::pair<std::string, Slots>, Slots> known_;  // from identity and inputs to outputs
  std::vector<std::pair<std::string, std::size_t>> features_;  // columns by name, in their order
  std::vector<std::string> names_;                             // of definitions so far
  std::vector<Group> groups_;
};

}  // namespace tenon
