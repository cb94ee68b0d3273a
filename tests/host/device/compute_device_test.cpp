// SPDX-License-Identifier: Apache-2.0

#include "host/device/compute_device.hpp"

#include "host/device/gpu_driver.hpp"
#include "host/error/error.hpp"

#include <cstdlib>
#include <fstream>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

fs::path fake_gpu() {
  return build_dir() / "tests/fake_gpu";
}

GpuFiles fake_files() {
  return {.module = fake_gpu() / "lib/tenon_cuda.so",
          .driver = (fake_gpu() / "driver/libcuda.so.1").string()};
}

// A variable of the environment for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// What the error says with which `name` is refused; "" where it is not.
std::string refusal(const std::string& name, const GpuFiles& files) {
  try {
    static_cast<void>(open_device(name, files));
  } catch (const Error& error) {
    CHECK(error.id() == "device.unavailable");
    return error.what();
  }
  return "";
}

TEST_CASE("the CPU is always there, and needs no driver", "[device]") {
  const ComputeDevice device = open_device("cpu", {.module = "/none", .driver = "/none"});
  CHECK(device.torch == at::Device(at::kCPU));
  CHECK(device.gpu == nullptr);
  CHECK(device.warning.empty());
}

TEST_CASE("names of no device are refused", "[device]") {
  for (const char* const name : {"", "tpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:999"}) {
    CHECK_THAT(refusal(name, fake_files()), contains_text("is not a device"));
  }
}

TEST_CASE("a machine without a driver has no GPU, and auto takes its CPU", "[device]") {
  const GpuFiles files{.module = fake_files().module, .driver = "libnodriver.so.1"};
  CHECK_THAT(refusal("cuda", files), contains_text("no NVIDIA driver found"));
  CHECK_THAT(refusal("cuda:1", files), contains_text("pass --device cpu"));
  const ComputeDevice device = open_device("auto", files);
  CHECK(device.gpu == nullptr);
  CHECK(device.torch == at::Device(at::kCPU));
  CHECK(device.warning.empty());
}

TEST_CASE("a library that is no driver is told from one", "[device]") {
  const GpuDriver driver = ask_gpu_driver("libm.so.6");
  CHECK_FALSE(driver.is_there);
  CHECK(driver.num_gpus == 0);
  CHECK_THAT(driver.problem, contains_text("is not a CUDA driver"));
}

TEST_CASE("a driver that fails or detects no GPU says so", "[device]") {
  {
    const Variable broken("FAKE_CUDA_INIT", "999");
    CHECK_THAT(refusal("cuda", fake_files()), contains_text("the fake driver is out of order"));
    CHECK(open_device("auto", fake_files()).gpu == nullptr);
  }
  {
    const Variable hidden("FAKE_CUDA_INIT", "100");
    CHECK_THAT(refusal("cuda", fake_files()), contains_text("CUDA_VISIBLE_DEVICES"));
  }
  const Variable none("FAKE_CUDA_GPUS", "0");
  CHECK_THAT(refusal("cuda", fake_files()), contains_text("detects no GPU"));
}

TEST_CASE("a GPU beyond the last is refused by number", "[device]") {
  const Variable two("FAKE_CUDA_GPUS", "2");
  CHECK_THAT(refusal("cuda:2", fake_files()),
             contains_text("the last GPU of this machine is cuda:1"));
  CHECK(refusal("cuda:1", fake_files()).empty());
}

TEST_CASE("a GPU is opened through the module", "[device]") {
  for (const char* const name : {"cuda", "cuda:0", "auto"}) {
    const ComputeDevice device = open_device(name, fake_files());
    REQUIRE(device.gpu != nullptr);
    CHECK(device.torch == device.gpu->device());
    CHECK(device.warning.empty());
    CHECK_THAT(describe_device(device), contains_text("Fake GPU, 1 GiB, "));
  }
}

TEST_CASE("without a module a GPU is refused, and auto says why it is left unused", "[device]") {
  GpuFiles files = fake_files();
  files.module = "/none/tenon_cuda.so";
  CHECK_THAT(refusal("cuda", files), contains_text("this build has no CUDA module"));
  const ComputeDevice device = open_device("auto", files);
  CHECK(device.gpu == nullptr);
  CHECK_THAT(device.warning, contains_text("a GPU exists, but the run uses the CPU"));
}

TEST_CASE("a module that cannot be loaded, or is of another build, is refused", "[device]") {
  const ScratchFolder folder;
  GpuFiles files = fake_files();
  files.module = folder.write("tenon_cuda.so", "no library");
  CHECK_THAT(refusal("cuda", files), contains_text("cannot be loaded"));
  files.module = fake_gpu() / "lib/foreign.so";
  CHECK_THAT(refusal("cuda", files), contains_text("belongs to another build: it has 0.0.7"));
  files.module = fake_gpu() / "driver/libcuda.so.1";
  CHECK_THAT(refusal("cuda", files), contains_text("it has no build id"));
}

TEST_CASE("what keeps the module from opening a GPU is told", "[device]") {
  const Variable failure("FAKE_GPU_OPEN", "it is on fire");
  CHECK_THAT(refusal("cuda", fake_files()), contains_text("GPU 0 cannot be used: it is on fire"));
}

TEST_CASE("a program finds its module in its build tree, or where both were installed",
          "[device]") {
  const ScratchFolder folder;
  fs::create_directories(folder.path() / "bin");
  const fs::path program = folder.path() / "bin/tenon";
  const fs::path built = folder.path() / "lib/tenon_cuda.so";
  CHECK(gpu_files_of(program).module == built);
  CHECK(gpu_files_of(program).driver == "libcuda.so.1");
  const fs::path installed =
      (program.parent_path() / TENON_INSTALLED_GPU_MODULE).lexically_normal();
  fs::create_directories(installed.parent_path());
  std::ofstream(installed) << "module";
  CHECK(gpu_files_of(program).module == installed);
  fs::create_directories(built.parent_path());
  std::ofstream(built) << "module";
  CHECK(gpu_files_of(program).module == built);
}

}  // namespace
}  // namespace tenon
