// SPDX-License-Identifier: Apache-2.0
#include "tests/support/json_templates.hpp"

TENON_JSON_TEMPLATES()
