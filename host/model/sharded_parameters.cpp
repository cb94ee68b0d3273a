// SPDX-License-Identifier: Apache-2.0
//
// Source: the sharding of stages 1 to 3 follows Rajbhandari et al., ZeRO: Memory Optimizations
// Toward Training Trillion Parameter Models (2020); gathering by unit follows Zhao et al., PyTorch
// FSDP (2023).
#include "host/model/sharded_parameters.hpp"

#include <tenon/model.h>

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/model/divided_graph.hpp"
#include "host/text/formatted.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/irange.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tenon {
namespace {

// Collectives support no bool and no mixed dtypes, so data that is only copied is sent as bytes.
at::Tensor as_bytes(const at::Tensor& tensor) {
  return tensor.view({-1}).view(at::kByte);
}

}  // namespace

FlatSharing sharing_of(const ShardingRules& rules, const RankRole& role) {
  const RankIndex slices = role.index_in(RankSet::kSlices);
  FlatSharing sharing = sharing_of(rules, slices.count);
  sharing.slice = slices.index;
  return sharing;
}

RankGroups::Parameters shared_parameters(const ModelGraph& graph) {
  std::set<uint32_t> copies;
  std::set<std::vector<uint32_t>> holders;
  for (const ModelParameter& parameter : graph.parameters) {
    copies.insert(parameter.num_copies);
    if (parameter.holders.size() > 1) {
      holders.insert(parameter.holders);
    }
  }
  return {.copies = {copies.begin(), copies.end()}, .holders = {holders.begin(), holders.end()}};
}

ShardedParameters::ShardedParameters(ParameterStore& store,
                                     RankGroups& ranks,
                                     const ShardingOptions& options)
    : store_(store), ranks_(ranks), options_(options), states_(store.groups().size()) {
  const GraphFacts facts = facts_of(store);
  const std::vector<GroupFacts> groups = group_facts(store, store.graph());
  std::vector<GroupUse> uses;
  std::vector<size_t> finished;  // groups with gradients, as backward finishes them
  is_replicated_ = ranks.stages().is_alone();
  for (size_t g = 0; g < states_.size(); ++g) {
    uses.push_back(use_of(facts, groups[g].blocks, options.reshard_after_forward));
    order_of_use_.push_back(g);
    if (uses.back().first_back.has_value()) {
      finished.push_back(g);
    }
    const FlatSharing& sharing = store.groups()[g].sharing();
    const bool is_same =
        sharing.num_slices == 1 && sharing.num_copies == ranks.role().tensor().count;
    is_replicated_ = is_replicated_ && (is_same || !store.groups()[g].is_trainable());
  }
  is_idle_ = !moves_groups(groups, has_many_ranks());
  std::ranges::stable_sort(order_of_use_, {}, [&uses](size_t g) { return uses[g].first; });
  std::ranges::stable_sort(
      finished, std::greater(), [&uses](size_t g) { return *uses[g].first_back; });
  lay_out_buckets(finished);
}

// Gradients that each rank keeps whole are summed over ranks in buckets. A bucket is contiguous
// memory of groups that backward finishes one after the other, and that the same ranks have.
void ShardedParameters::lay_out_buckets(std::span<const size_t> order) {
  std::vector<FlatGroup>& groups = store_.groups();
  std::map<std::pair<uint32_t, at::ScalarType>, std::vector<size_t>> by_kind;
  for (const size_t g : order) {
    const FlatSharing& sharing = groups[g].sharing();
    const bool is_whole =
        sharing.num_slices == 1 && sharing.keeps_gradients && !sharing.is_elsewhere;
    if (groups[g].is_trainable() && is_whole && ranks_.whole(sharing.num_copies).size() > 1) {
      by_kind[{sharing.num_copies, groups[g].dtype()}].push_back(g);
    }
  }
  for (const auto& [kind, members] : by_kind) {
    int64_t total = 0;
    for (const size_t g : members) {
      total += groups[g].numel();
    }
    const at::Tensor arena =
        at::zeros({total}, at::TensorOptions().dtype(kind.second).device(store_.device()));
    const auto element_bytes = static_cast<int64_t>(arena.element_size());
    int64_t begin = 0;  // of the bucket
    int64_t end = 0;
    size_t num_groups = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      FlatGroup& group = groups[members[i]];
      group.move_whole_grad(arena.narrow(0, end, group.numel()));
      end += group.numel();
      ++num_groups;
      states_[members[i]].bucket = buckets_.size();
      const bool is_full = (end - begin) * element_bytes >= options_.bucket_bytes;
      if (is_full || i + 1 == members.size()) {
        buckets_.push_back({.memory = arena.narrow(0, begin, end - begin),
                            .what = "gradients of '" + name(members[i + 1 - num_groups]) +
                                    (num_groups > 1 ? "' to '" + name(members[i]) + "'" : "'"),
                            .num_copies = kind.first,
                            .num_groups = num_groups});
        begin = end;
        num_groups = 0;
      }
    }
  }
}

// ---- parameters ----

Group& ShardedParameters::copies_of(const FlatGroup& group) {
  const FlatSharing& sharing = group.sharing();
  return sharing.num_slices > 1 ? ranks_.replicas(sharing.num_copies)
                                : ranks_.whole(sharing.num_copies);
}

const std::vector<uint32_t>& ShardedParameters::holders_of(const FlatGroup& group) const {
  return store_.graph().parameters[group.entries().front().parameter.id].holders;
}

void ShardedParameters::synchronise() {
  Group& stages = ranks_.stages();
  if (ranks_.whole().size() == 1 && stages.is_alone()) {
    return;
  }
  for (FlatGroup& group : store_.groups()) {
    const bool is_tied = holders_of(group).size() > 1;
    Group& copies = copies_of(group);
    if (group.sharing().is_elsewhere || (copies.is_alone() && !is_tied)) {
      continue;
    }
    at::Tensor values = group.data().to(store_.device());
    at::Tensor bytes = as_bytes(values);
    const std::string what = "parameters of '" + group.name() + "'";
    copies.broadcast(bytes, 0, what)->wait();
    if (is_tied) {
      ranks_.holders(holders_of(group)).broadcast(bytes, 0, what)->wait();
    }
    if (!values.is_same(group.data())) {
      group.data().copy_(values);
    }
  }
  for (size_t b = 0; b < store_.buffers().size(); ++b) {
    if (store_.buffer(b).numel() > 0) {
      at::Tensor bytes = as_bytes(store_.buffer(b));
      const ModelBuffer& buffer = store_.graph().buffers[b];
      const std::string what = "buffer '" + buffer.name + "'";
      ranks_.whole().broadcast(bytes, 0, what)->wait();
      if (!stages.is_alone()) {
        stages.broadcast(bytes, buffer.owner, what)->wait();
      }
    }
  }
  publish();
}

void ShardedParameters::synchronise_buffers() {
  Group& stages = ranks_.stages();
  std::vector<std::vector<uint32_t>> by_owner(stages.size());
  for (const auto b : c10::irange(static_cast<uint32_t>(store_.buffers().size()))) {
    if (store_.is_state(b) && store_.buffer(b).numel() > 0) {
      by_owner[store_.graph().buffers[b].owner].push_back(b);
    }
  }
  share_buffers(ranks_.whole(), 0, by_owner[stages.rank()]);
  for (uint32_t owner = 0; owner < stages.size(); ++owner) {
    share_buffers(stages, owner, by_owner[owner]);
  }
}

void ShardedParameters::share_buffers(Group& ranks,
                                      uint32_t root,
                                      const std::vector<uint32_t>& which) {
  if (ranks.is_alone() || which.empty()) {
    return;
  }
  std::vector<at::Tensor> bytes;
  for (const uint32_t b : which) {
    bytes.push_back(as_bytes(store_.buffer(b).contiguous()));
  }
  at::Tensor all = at::cat(bytes);
  ranks.broadcast(all, root, "buffers of the model")->wait();
  int64_t begin = 0;
  for (size_t i = 0; i < which.size(); ++i) {
    const at::Tensor& buffer = store_.buffer(which[i]);
    const int64_t size = bytes[i].numel();
    const at::Tensor next = at::empty(buffer.sizes(), buffer.options());
    as_bytes(next).copy_(all.narrow(0, begin, size));
    store_.replace_buffer(which[i], next);
    begin += size;
  }
}

void ShardedParameters::sum_over_ranks(std::vector<at::Tensor>& tensors, const char* what) {
  Group& ranks = ranks_.whole(1);
  if (ranks.is_alone()) {
    return;
  }
  std::map<at::ScalarType, std::vector<at::Tensor*>> by_dtype;
  for (at::Tensor& tensor : tensors) {
    by_dtype[tensor.scalar_type()].push_back(&tensor);
  }
  for (auto& [dtype, members] : by_dtype) {
    std::vector<at::Tensor> flat;
    for (const at::Tensor* const tensor : members) {
      flat.push_back(tensor->reshape({-1}));
    }
    at::Tensor all = at::cat(flat);
    if (all.numel() == 0) {
      continue;
    }
    ranks.all_reduce(all, what)->wait();
    int64_t begin = 0;
    for (at::Tensor* const tensor : members) {
      tensor->copy_(all.narrow(0, begin, tensor->numel()).view(tensor->sizes()));
      begin += tensor->numel();
    }
  }
}

void ShardedParameters::acquire(size_t g) {
  FlatGroup& group = store_.groups()[g];
  GroupState& state = states_[g];
  ++state.num_users;
  if (group.sharing().keeps_parameters || group.has_whole()) {
    return;
  }
  group.acquire_whole();
  state.gathered_from = group.slice_to_gather();
  state.gather = ranks_.gather().all_gather(
      group.seen(), state.gathered_from, "parameters of '" + name(g) + "'");
}

void ShardedParameters::await(size_t g) {
  GroupState& state = states_[g];
  if (state.gather != nullptr) {
    std::exchange(state.gather, nullptr)->wait();
    state.gathered_from.reset();
    store_.groups()[g].fill_copies();
  }
}

void ShardedParameters::free(size_t g) {
  TENON_ASSERT(states_[g].num_users > 0, "each gather is freed once");
  if (--states_[g].num_users == 0) {
    store_.groups()[g].release_whole();
  }
}

void ShardedParameters::settle_gradients(size_t g) {
  while (std::ranges::any_of(reductions_, [g](const Reduction& r) { return r.group == g; })) {
    finish_reduction();
  }
}

void ShardedParameters::use_gradients(size_t g) {
  if (use_ != nullptr) {
    use_(g);
  }
}

void ShardedParameters::resolve() {
  for (size_t g = 0; g < states_.size(); ++g) {
    await(g);
  }
}

void ShardedParameters::publish() {
  const at::AutoGradMode no_grad(false);
  resolve();
  store_.publish();
  if (is_idle_) {
    return;
  }
  for (const size_t g : order_of_use_) {
    FlatGroup& group = store_.groups()[g];
    const FlatSharing& sharing = group.sharing();
    if (sharing.num_slices > 1 && sharing.keeps_parameters && !sharing.is_elsewhere) {
      states_[g].gathered_from = group.slice_to_gather();
      states_[g].gather = ranks_.gather().all_gather(
          group.seen(), states_[g].gathered_from, "parameters of '" + name(g) + "'");
    }
  }
}

at::Tensor ShardedParameters::gather_slices(const FlatGroup& group,
                                            const at::Tensor& slice,
                                            const char* what) {
  if (group.sharing().num_slices == 1) {
    return slice;
  }
  const at::Tensor here = slice.to(store_.device());
  at::Tensor whole = at::empty({group.numel()}, here.options());
  ranks_.gather().all_gather(whole, here, what + (" of '" + group.name() + "'"))->wait();
  return whole;
}

std::vector<at::Tensor> ShardedParameters::gather_whole(const FlatGroup& group,
                                                        const at::Tensor& slice,
                                                        const char* what) {
  std::vector<at::Tensor> whole(group.entries().size());
  if (!group.sharing().is_elsewhere) {
    whole = gather_parts(group, slice, what);
  }
  if (!ranks_.stages().is_alone()) {
    share_along_pipeline(group, slice.options(), what, whole);
  }
  return whole;
}

void ShardedParameters::share_along_pipeline(const FlatGroup& group,
                                             const at::TensorOptions& options,
                                             const char* what,
                                             std::vector<at::Tensor>& whole) {
  Group& stages = ranks_.stages();
  const uint32_t owner = holders_of(group).front();
  for (size_t e = 0; e < whole.size(); ++e) {
    const FlatParameter& parameter = group.entries()[e].parameter;
    at::Tensor& one = whole[e];
    one = group.sharing().is_elsewhere ? at::empty(parameter.shape, options.device(store_.device()))
                                       : one.to(store_.device());
    if (one.numel() > 0) {
      at::Tensor bytes = as_bytes(one);
      stages.broadcast(bytes, owner, what + (" of '" + parameter.name + "'"))->wait();
    }
  }
}

// Tensor ranks with different parts of an entry's parameter send them to each other.
std::vector<at::Tensor> ShardedParameters::gather_parts(const FlatGroup& group,
                                                        const at::Tensor& slice,
                                                        const char* what) {
  const at::Tensor here = gather_slices(group, slice, what);
  const auto is_part = [](const FlatEntry& entry) { return entry.parameter.box.has_value(); };
  const bool has_parts = std::ranges::any_of(group.entries(), is_part);
  std::vector<at::Tensor> by_rank = {here};
  if (has_parts) {
    const at::Tensor mine = here.to(store_.device());
    const uint32_t num_ranks = ranks_.tensor().size();
    at::Tensor all = at::empty({num_ranks * group.numel()}, mine.options());
    ranks_.tensor().all_gather(all, mine, what + (" of '" + group.name() + "'"))->wait();
    by_rank = all.chunk(num_ranks);
  }
  std::vector<at::Tensor> whole;
  for (const FlatEntry& entry : group.entries()) {
    const FlatParameter& parameter = entry.parameter;
    if (!is_part(entry)) {
      whole.push_back(here.narrow(0, entry.offset, entry.numel).view(parameter.shape));
      continue;
    }
    const ModelSplit& split = *store_.graph().parameters[parameter.id].split;
    whole.push_back(at::empty(parameter.shape, by_rank.front().options()));
    for (uint32_t rank = 0; rank < by_rank.size(); ++rank) {
      const Box box =
          divided_part(split, parameter.shape, {rank, ranks_.tensor().size()}, parameter.name);
      put_part(
          whole.back(), box, by_rank[rank].narrow(0, entry.offset, entry.numel).view(box.size));
    }
  }
  return whole;
}

std::vector<at::Tensor> ShardedParameters::gather_stored(FlatGroup& group) {
  return gather_whole(group, group.data(), "stored parameters");
}

std::vector<at::Tensor> ShardedParameters::gather_gradient(FlatGroup& group) {
  return gather_whole(group, group.grad(), "final gradients");
}

void ShardedParameters::check_replicas() {
  std::set<uint32_t> numbers = {ranks_.role().tensor().count};
  for (const FlatGroup& group : store_.groups()) {
    numbers.insert(group.sharing().num_copies);
  }
  for (const uint32_t num_copies : numbers) {
    const std::vector<std::string> hashes =
        ranks_.all().gather_texts(store_.hash_of_slices(num_copies), "hash of parameters");
    for (uint32_t rank = 0; rank < hashes.size(); ++rank) {
      const uint32_t first = ranks_.role().first_copy_of(rank, num_copies);
      if (hashes[rank] != hashes[first]) {
        throw Error("distributed.replicas_differ",
                    formatted("ranks {} and {} keep the same parameters, and they differ: {} and "
                              "{}. A hook that changes parameters on one rank alone does that, "
                              "and so does memory that fails",
                              first,
                              rank,
                              hashes[first],
                              hashes[rank]));
      }
    }
  }
}

// ---- gradients ----

at::Tensor ShardedParameters::on_wire(const at::Tensor& gradient) const {
  const bool is_narrowed = options_.wire_dtype.has_value() && gradient.scalar_type() == at::kFloat;
  return is_narrowed ? gradient.to(*options_.wire_dtype) : gradient;
}

void ShardedParameters::reduce(size_t g, bool ends_step) {
  const at::AutoGradMode no_grad(false);
  FlatGroup& group = store_.groups()[g];
  group.resolve_grads();
  group.expect_sums();
  if (states_[g].bucket.has_value()) {
    Bucket& bucket = buckets_[*states_[g].bucket];
    if (++bucket.num_ready == bucket.num_groups) {
      bucket.num_ready = 0;
      start_sum(ranks_.whole(bucket.num_copies), bucket.memory, bucket.what);
    }
    return;
  }
  const bool is_kept = group.sharing().keeps_gradients;
  if (is_kept && group.sharing().num_slices == 1) {
    return;  // one rank has the whole gradient
  }
  // Gradients that are not kept are freed early: at most two such reductions are pending.
  while (!reductions_.empty() &&
         (reductions_.front().work->is_done() || (!is_kept && reductions_.size() > 1))) {
    finish_reduction();
  }
  Reduction reduction;
  reduction.group = g;
  reduction.ends_step = ends_step;
  reduction.sent = on_wire(group.whole_grad());
  reduction.part =
      is_kept ? group.grad() : at::empty({group.slice_numel()}, group.whole_grad().options());
  reduction.work = ranks_.reduce().reduce_scatter(
      reduction.part, reduction.sent, "gradients of '" + group.name() + "'");
  reductions_.push_back(std::move(reduction));
}

void ShardedParameters::finish_reduction() {
  Reduction reduction = std::move(reductions_.front());
  reductions_.pop_front();
  reduction.work->wait();
  FlatGroup& group = store_.groups()[reduction.group];
  group.release_grads();
  const std::string what = "gradients of slices of '" + group.name() + "'";
  Group& replicas = ranks_.replicas(group.sharing().num_copies);
  const bool has_replicas = !replicas.is_alone();
  if (group.sharing().keeps_gradients) {
    if (has_replicas) {
      start_sum(replicas, group.grad(), what);
    }
    return;
  }
  const bool is_at_home = group.grad().device() == store_.device();
  if (has_replicas && !is_at_home) {  // for each microbatch, while the part is on the device
    start_sum(replicas, reduction.part, what);
    finish_sums();
  }
  group.add_to_slice(reduction.part);
  if (has_replicas && is_at_home && reduction.ends_step) {
    start_sum(replicas, group.grad(), what);
  }
}

void ShardedParameters::start_sum(Group& among, const at::Tensor& target, const std::string& what) {
  Sum sum;
  sum.target = target;
  sum.sent = on_wire(target);
  sum.work = among.all_reduce(sum.sent, what);
  sums_.push_back(std::move(sum));
}

void ShardedParameters::finish_sums() {
  for (; !sums_.empty(); sums_.pop_front()) {
    Sum& sum = sums_.front();
    sum.work->wait();
    if (!sum.sent.is_same(sum.target)) {
      sum.target.copy_(sum.sent);
    }
  }
}

void ShardedParameters::finish_gradients() {
  const at::AutoGradMode no_grad(false);
  while (!reductions_.empty()) {
    finish_reduction();
  }
  finish_sums();
  for (FlatGroup& group : store_.groups()) {
    if (is_idle_) {
      if (!group.sharing().frees_gradients) {
        group.resolve_grads();
      }
    } else {
      group.resolve_slice();
    }
  }
  sum_over_holders();
}

// The gradient of a parameter that stages share is the sum of those of its holders. All of them
// have the same bits.
void ShardedParameters::sum_over_holders() {
  for (FlatGroup& group : store_.groups()) {
    const bool is_tied = holders_of(group).size() > 1;
    if (!is_tied || !group.is_trainable() || group.sharing().is_elsewhere) {
      continue;
    }
    at::Tensor gradient = group.grad().to(store_.device());
    start_sum(ranks_.holders(holders_of(group)),
              gradient,
              "gradients of '" + group.name() + "', which stages share");
    finish_sums();
    if (!gradient.is_same(group.grad())) {
      group.grad().copy_(gradient);
    }
  }
}

std::vector<uint8_t> ShardedParameters::has_grad() const {
  std::vector<uint8_t> has_grad;
  for (const FlatGroup& group : store_.groups()) {
    for (const FlatEntry& entry : group.entries()) {
      has_grad.push_back(entry.has_grad ? 1 : 0);
    }
  }
  return has_grad;
}

void ShardedParameters::set_has_grad(const std::vector<uint8_t>& has_grad) {
  size_t i = 0;
  for (FlatGroup& group : store_.groups()) {
    for (FlatEntry& entry : group.entries()) {
      entry.has_grad = has_grad[i++] != 0;
    }
  }
}

}  // namespace tenon
