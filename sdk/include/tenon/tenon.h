/* SPDX-License-Identifier: Apache-2.0
 *
 * Includes every header of the ABI except drafts. Start with abi.h, then plugin.h, then the header
 * of the kind you implement. */
#ifndef TENON_TENON_H
#define TENON_TENON_H

#include "abi.h"
#include "component.h"
#include "dataset.h"
#include "exec.h"
#include "feature.h"
#include "hook.h"
#include "host.h"
#include "log.h"
#include "loss.h"
#include "lr_scheduler.h"
#include "manifest.h"
#include "memory.h"
#include "metric.h"
#include "metric_sink.h"
#include "metrics.h"
#include "model.h"
#include "op.h"
#include "optimizer.h"
#include "options.h"
#include "parallel.h"
#include "plugin.h"
#include "ports.h"
#include "random.h"
#include "state.h"
#include "status.h"
#include "tensor.h"
#include "tokenizer.h"

#endif
