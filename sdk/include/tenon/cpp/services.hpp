// SPDX-License-Identifier: Apache-2.0
//
// Services of the host, looked up once and called by name. A missing service is an error only when
// it is used: a plugin that never logs runs on a host without a log.
#ifndef TENON_CPP_SERVICES_HPP
#define TENON_CPP_SERVICES_HPP

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/log.h>
#include <tenon/memory.h>
#include <tenon/metrics.h>
#include <tenon/op.h>
#include <tenon/options.h>
#include <tenon/parallel.h>
#include <tenon/random.h>
#include <tenon/tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

TENON_NAMESPACE_BEGIN

/* The host and its services. It consists of a few pointers and may be copied freely.
 *
 * Threads  [any]; individual services may restrict it
 * Owner    the host is borrowed and lives as long as the process */
class Host {
 public:
  Host() = default;
  explicit Host(const tenon_host* host)
      : host_(host),
        log_(find<tenon_log_api>(TENON_LOG_ID)),
        tensors_(find<tenon_tensor_api>(TENON_TENSOR_ID)),
        ops_(find<tenon_op_api>(TENON_OP_ID)),
        random_(find<tenon_random_api>(TENON_RANDOM_ID)),
        parallel_(find<tenon_parallel_api>(TENON_PARALLEL_ID)),
        metrics_(find<tenon_metrics_api>(TENON_METRICS_ID)),
        memory_(find<tenon_memory_api>(TENON_MEMORY_ID)) {}

  const tenon_host* get() const noexcept { return host_; }

  /* Returns a service by id, or null. Api must be the struct that belongs to the id, which is not
   * checked. */
  template <class Api>
  const Api* find(const char* id) const noexcept {
    if (host_ == nullptr || host_->get_interface == nullptr) {
      return nullptr;
    }
    return static_cast<const Api*>(host_->get_interface(host_, id));
  }

  /* Returns a service by id. Api must be the struct that belongs to the id, which is not checked.
   *
   * Errors   TENON_UNSUPPORTED if the host lacks the service */
  template <class Api>
  const Api& require(const char* id) const {
    return need(find<Api>(id), id);
  }

  /* The standard services.
   *
   * Errors   TENON_UNSUPPORTED if the host lacks the service */
  const tenon_tensor_api& tensors() const { return need(tensors_, TENON_TENSOR_ID); }
  const tenon_op_api& ops() const { return need(ops_, TENON_OP_ID); }
  const tenon_random_api& random() const { return need(random_, TENON_RANDOM_ID); }
  const tenon_parallel_api& parallel() const { return need(parallel_, TENON_PARALLEL_ID); }
  const tenon_metrics_api& metrics() const { return need(metrics_, TENON_METRICS_ID); }
  const tenon_memory_api& memory() const { return need(memory_, TENON_MEMORY_ID); }

  /* Throws if a call to the host failed.
   *
   * Errors   those of the status
   * Owner    takes the status */
  void check(tenon_status* status_own) const { tenon::check(host_, status_own); }

  /* Logs one line, concatenated from the parts. Without a log service, nothing happens. */
  template <class... Parts>
  void log_debug(const Parts&... parts) const {
    log(TENON_LOG_DEBUG, concat(parts...));
  }
  template <class... Parts>
  void log_info(const Parts&... parts) const {
    log(TENON_LOG_INFO, concat(parts...));
  }
  template <class... Parts>
  void log_warn(const Parts&... parts) const {
    log(TENON_LOG_WARN, concat(parts...));
  }
  template <class... Parts>
  void log_error(const Parts&... parts) const {
    log(TENON_LOG_ERROR, concat(parts...));
  }

  /* Adds a metric to the next record: sum / weight over the steps since the last record.
   *
   * Errors   TENON_INVALID for an invalid name (metrics.h)
   * Threads  [step] */
  void add_metric(const std::string& name, double sum, double weight = 1.0) const {
    check(metrics().add(host_, name.c_str(), sum, weight));
  }

 private:
  void log(uint32_t level, const std::string& line) const {
    if (log_ != nullptr) {
      log_->write(host_, level, line.c_str());
    }
  }

  template <class Api>
  const Api& need(const Api* api, const char* id) const {
    if (api == nullptr) {
      TENON_FAIL(TENON_UNSUPPORTED,
                 "service_missing",
                 "this plugin needs the service ",
                 id,
                 ", which the host (",
                 host_ == nullptr ? "none" : host_->version,
                 ") does not have; use a newer host");
    }
    return *api;
  }

  const tenon_host* host_ = nullptr;
  const tenon_log_api* log_ = nullptr;
  const tenon_tensor_api* tensors_ = nullptr;
  const tenon_op_api* ops_ = nullptr;
  const tenon_random_api* random_ = nullptr;
  const tenon_parallel_api* parallel_ = nullptr;
  const tenon_metrics_api* metrics_ = nullptr;
  const tenon_memory_api* memory_ = nullptr;
};

/* Calls body(begin, end) for disjoint ranges of [0, n), of at least `grain` elements, on the host's
 * compute threads. It returns when all calls have returned.
 *
 * Errors   the exception of the failed range with the lowest begin
 * Threads  [step], [worker] */
template <class Body>
void parallel_for(const Host& host, size_t n, size_t grain, Body&& body) {
  struct Call {
    const tenon_host* host;
    std::remove_reference_t<Body>* body;
  } call{host.get(), &body};
  host.check(host.parallel().run(
      host.get(),
      n,
      grain,
      [](void* context, size_t begin, size_t end) -> tenon_status* {
        const auto& c = *static_cast<Call*>(context);
        return guard(c.host, [&] { (*c.body)(begin, end); });
      },
      &call));
}

/* One stream of random numbers: pure functions of seed, name and index.
 *
 * Errors   TENON_UNSUPPORTED in the constructor if the host lacks the service
 * Threads  [any] */
class RandomStream {
 public:
  RandomStream(const Host& host, uint64_t seed, const char* name)
      : host_(host), api_(&host.random()), seed_(seed), stream_(api_->stream_of(name)) {}

  /* 64 uniform bits: number `index` of the stream. */
  uint64_t bits(uint64_t index) const { return api_->bits(seed_, stream_, index); }
  /* Element i of a permutation of [0, n), for i < n. */
  uint64_t permute(uint64_t n, uint64_t i) const { return api_->permute(seed_, stream_, n, i); }
  /* Numbers first to first + n - 1, uniform in [0, 1). */
  void fill_uniform(uint64_t first, size_t n, double* out) const {
    host_.check(api_->fill_uniform(seed_, stream_, first, n, out));
  }
  /* Numbers first to first + n - 1 of the standard normal distribution. */
  void fill_normal(uint64_t first, size_t n, double* out) const {
    host_.check(api_->fill_normal(seed_, stream_, first, n, out));
  }

 private:
  Host host_;
  const tenon_random_api* api_;
  uint64_t seed_;
  uint64_t stream_;
};

TENON_NAMESPACE_END

#endif
