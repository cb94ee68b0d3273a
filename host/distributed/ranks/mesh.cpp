// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/mesh.hpp"

#include "host/error/assert.hpp"
#include "host/error/error.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

namespace tenon {
namespace {

// The dimensions of the grid, from the innermost.
constexpr std::array kGrid = {
    MeshDim::kTensor, MeshDim::kContext, MeshDim::kShard, MeshDim::kReplicate, MeshDim::kPipeline};

struct NamedDegree {
  const char* name;
  int64_t MeshDegrees::*degree;
  bool is_always_named;
};

constexpr std::array<NamedDegree, 5> kDegrees = {{{"pipeline", &MeshDegrees::pipeline, false},
                                                  {"replicate", &MeshDegrees::replicate, true},
                                                  {"shard", &MeshDegrees::shard, true},
                                                  {"context", &MeshDegrees::context, false},
                                                  {"tensor", &MeshDegrees::tensor, false}}};

std::string product_text(const MeshDegrees& degrees) {
  std::string text;
  for (const NamedDegree& one : kDegrees) {
    if (one.is_always_named || degrees.*one.degree != 1) {
      text += formatted("{}{} {}", text.empty() ? "" : " x ", one.name, degrees.*one.degree);
    }
  }
  return text;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error("distributed.bad_mesh", what);
}

// Returns the product of all degrees that are not -1, at most the largest int64_t.
int64_t product_of(const MeshDegrees& degrees) {
  int64_t product = 1;
  for (const NamedDegree& one : kDegrees) {
    const int64_t degree = degrees.*one.degree;
    if (degree != -1 && __builtin_mul_overflow(product, degree, &product)) {
      return std::numeric_limits<int64_t>::max();
    }
  }
  return product;
}

void check_expert(const MeshDegrees& degrees) {
  const int64_t ranks = degrees.shard * degrees.context * degrees.tensor;
  if (degrees.expert < 1 || ranks % degrees.expert != 0) {
    refuse(formatted(
        "expert {} does not divide shard x context x tensor, which is {}", degrees.expert, ranks));
  }
}

MeshDegrees resolved(MeshDegrees degrees, int64_t world_size) {
  const std::string asked = product_text(degrees);
  const std::string ranks = counted(world_size, "rank");
  for (const NamedDegree& one : kDegrees) {
    const int64_t degree = degrees.*one.degree;
    if (degree < 1 && (degree != -1 || !one.is_always_named)) {
      refuse(asked + ": a degree must be at least 1, or -1 to derive it from the others");
    }
    if (degree > world_size) {
      refuse(formatted("{}: a degree exceeds the number of ranks, which is {}", asked, world_size));
    }
  }
  if (degrees.replicate == -1 && degrees.shard == -1) {
    refuse(asked + ": at most one degree can be -1");
  }
  const int64_t product = product_of(degrees);
  if (degrees.replicate == -1 || degrees.shard == -1) {
    if (world_size % product != 0) {
      refuse(formatted("{}: {} cannot be divided by {}", asked, ranks, product));
    }
    (degrees.replicate == -1 ? degrees.replicate : degrees.shard) = world_size / product;
  } else if (product != world_size) {
    refuse(formatted(
        "{} = {}, but there {} {}", asked, product, world_size == 1 ? "is" : "are", ranks));
  }
  check_expert(degrees);
  return degrees;
}

}  // namespace

Mesh::Mesh() {
  size_.fill(1);
}

Mesh::Mesh(const MeshDegrees& degrees, uint32_t world_size, uint32_t rank)
    : world_size_(world_size) {
  const MeshDegrees sizes = resolved(degrees, world_size);
  const auto set = [this](MeshDim dim, int64_t size) {
    size_[static_cast<uint32_t>(dim)] = static_cast<uint32_t>(size);
  };
  set(MeshDim::kReplicate, sizes.replicate);
  set(MeshDim::kShard, sizes.shard);
  set(MeshDim::kTensor, sizes.tensor);
  set(MeshDim::kContext, sizes.context);
  set(MeshDim::kPipeline, sizes.pipeline);
  set(MeshDim::kExpert, sizes.expert);
  move_to(rank);
}

void Mesh::move_to(uint32_t rank) {
  TENON_ASSERT(rank < world_size_, "a rank is below the world size");
  rank_ = rank;
  uint32_t rest = rank;
  for (const MeshDim dim : kGrid) {
    coordinate_[static_cast<uint32_t>(dim)] = rest % size(dim);
    rest /= size(dim);
  }
  coordinate_[static_cast<uint32_t>(MeshDim::kExpert)] = rank % size(MeshDim::kExpert);
}

Mesh Mesh::seen_by(uint32_t rank) const {
  Mesh mesh = *this;
  mesh.move_to(rank);
  return mesh;
}

std::vector<uint32_t> Mesh::ranks_along(std::initializer_list<MeshDim> dims) const {
  if (dims.size() == 1 && *dims.begin() == MeshDim::kExpert) {
    std::vector<uint32_t> ranks;
    for (uint32_t i = 0; i < size(MeshDim::kExpert); ++i) {
      ranks.push_back(rank_ - coordinate(MeshDim::kExpert) + i);
    }
    return ranks;
  }
  std::vector<uint32_t> ranks = {0};
  uint32_t stride = 1;  // of the next dimension, in ranks
  for (const MeshDim dim : kGrid) {
    const bool varies = std::ranges::find(dims, dim) != dims.end();
    const std::vector<uint32_t> inner = std::move(ranks);
    ranks.clear();
    for (uint32_t i = 0; i < (varies ? size(dim) : 1); ++i) {
      for (const uint32_t rank : inner) {
        ranks.push_back(rank + (varies ? i : coordinate(dim)) * stride);
      }
    }
    stride *= size(dim);
  }
  return ranks;
}

uint32_t Mesh::index_along(std::initializer_list<MeshDim> dims) const {
  const std::vector<uint32_t> ranks = ranks_along(dims);
  return static_cast<uint32_t>(std::ranges::find(ranks, rank_) - ranks.begin());
}

uint32_t Mesh::size_along(std::initializer_list<MeshDim> dims) const {
  uint32_t product = 1;
  for (const MeshDim dim : dims) {
    product *= size(dim);
  }
  return product;
}

std::string Mesh::text() const {
  const std::string product = product_text({.replicate = size(MeshDim::kReplicate),
                                            .shard = size(MeshDim::kShard),
                                            .tensor = size(MeshDim::kTensor),
                                            .context = size(MeshDim::kContext),
                                            .pipeline = size(MeshDim::kPipeline)});
  const uint32_t experts = size(MeshDim::kExpert);
  return experts == 1 ? product : formatted("{}, expert {}", product, experts);
}

tenon_mesh Mesh::view() const {
  tenon_mesh mesh{};
  mesh.struct_size = sizeof(mesh);
  mesh.rank = rank_;
  mesh.world_size = world_size();
  std::fill(std::begin(mesh.size), std::end(mesh.size), 1U);
  std::ranges::copy(size_, mesh.size);
  std::ranges::copy(coordinate_, mesh.coordinate);
  return mesh;
}

}  // namespace tenon
