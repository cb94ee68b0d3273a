// SPDX-License-Identifier: Apache-2.0
//
// Chat templates as a service for plugins.
#pragma once

#include <tenon/draft/chat_template.h>

namespace tenon {

// Returns the function table of TENON_CHAT_TEMPLATE_ID.
const tenon_chat_template_api* chat_template_service() noexcept;

}  // namespace tenon
