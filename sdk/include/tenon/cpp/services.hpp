// SPDX-License-Identifier: Apache-2.0
//
// The services of the host, found once and called by name. A service that this host lacks is an
// error when it is used, not before: a plugin that never logs runs on a host without a log.
#ifndef TENON_CPP_SERVICES_HPP
#define TENON_CPP_SERVICES_HPP

#include <tenon/cpp/guard.hpp>
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

namespace tenon {

/* A borrowed host and its services. A value of a few pointers: copy it freely.
 * Threads [any], but for what a service itself asks for */
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

  /* A service by id, or null. */
  template <class Api>
  const Api* find(const char* id) const noexcept {
    if (host_ == nullptr || host_->get_interface == nullptr) {
      return nullptr;
    }
    return static_cast<const Api*>(host_->get_interface(host_, id));
  }

  /* A service by id.  Errors TENON_UNSUPPORTED if the host does not have it */
  template <class Api>
  const Api& require(const char* id) const {
    return need(find<Api>(id), id);
  }

  const tenon_tensor_api& tensors() const { return need(tensors_, TENON_TENSOR_ID); }
  const tenon_op_api& ops() const { return need(ops_, TENON_OP_ID); }
  const tenon_random_api& random() const { return need(random_, TENON_RANDOM_ID); }
  const tenon_parallel_api& parallel() const { return need(parallel_, TENON_PARALLEL_ID); }
  const tenon_metrics_api& metrics() const { return need(metrics_, TENON_METRICS_ID); }
  const tenon_memory_api& memory() const { return need(memory_, TENON_MEMORY_ID); }

  /* Throws what a call of the host returned.  Owner takes the status */
  void check(tenon_status* status_own) const { tenon::check(host_, status_own); }

  /* One line for people, put together from the parts. Without a log service it goes nowhere. */
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

  /* A figure of the next record: sum / weight over the steps since the last one.  Threads [step] */
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

/* Calls body(begin, end) for disjoint pieces of [0, n) on the host's compute threads. What a body
 * throws arrives here, that of the lowest piece if several do. Threads  [step], [worker] */
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
 * Threads [any] */
class RandomStream {
 public:
  RandomStream(const Host& host, uint64_t seed, const char* name)
      : host_(host), api_(&host.random()), seed_(seed), stream_(api_->stream_of(name)) {}

  uint64_t bits(uint64_t index) const { return api_->bits(seed_, stream_, index); }
  /* Element i of a permutation of [0, n). */
  uint64_t permute(uint64_t n, uint64_t i) const { return api_->permute(seed_, stream_, n, i); }
  /* Numbers first ... first + n - 1, uniform in [0, 1). */
  void fill_uniform(uint64_t first, size_t n, double* out) const {
    host_.check(api_->fill_uniform(seed_, stream_, first, n, out));
  }
  /* The same, standard normal. */
  void fill_normal(uint64_t first, size_t n, double* out) const {
    host_.check(api_->fill_normal(seed_, stream_, first, n, out));
  }

 private:
  Host host_;
  const tenon_random_api* api_;
  uint64_t seed_;
  uint64_t stream_;
};

}  // namespace tenon

#endif
