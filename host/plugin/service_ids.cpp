// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/service_ids.hpp"

#include <tenon/draft/chat_template.h>
#include <tenon/draft/text_generation.h>
#include <tenon/tenon.h>

#include <algorithm>
#include <array>

namespace tenon {
namespace {

constexpr auto kServiceIds = std::to_array<std::string_view>({
    TENON_STATUS_ID,
    TENON_LOG_ID,
    TENON_MEMORY_ID,
    TENON_OPTIONS_ID,
    TENON_TENSOR_ID,
    TENON_OP_ID,
    TENON_RANDOM_ID,
    TENON_PARALLEL_ID,
    TENON_METRICS_ID,
    TENON_CHAT_TEMPLATE_ID,
    TENON_TEXT_GENERATION_ID,
});

}  // namespace

std::span<const std::string_view> all_service_ids() noexcept {
  return kServiceIds;
}

bool has_service(std::string_view id) noexcept {
  return std::ranges::find(kServiceIds, id) != kServiceIds.end();
}

}  // namespace tenon
