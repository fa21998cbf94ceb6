// The DeviceApi over the CUDA runtime and cuBLAS: all of libskep-cuda.so but its kernels.
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/device_api.h"
#include "kernels/cuda/runtime/arithmetic.h"
#include "kernels/cuda/runtime/launch.h"
#include "kernels/cuda/runtime/library.h"

namespace skep::kernels::cuda {
namespace {

constexpr std::size_t kBlasWorkspace = std::size_t{32} << 20U;

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Products round as the field expects of float, whatever the environment says.
Status CheckEnvironment() {
  const char* override_tf32 = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (override_tf32 == nullptr || std::strcmp(override_tf32, "0") == 0) return Ok();
  return Error{7201, "NVIDIA_TF32_OVERRIDE is set: products would lose half of their digits",
               "unset it"};
}

class CudaDevice final : public DeviceApi {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}
  ~CudaDevice() override;
  // Once, before all else.
  [[nodiscard]] Status Open();

  [[nodiscard]] Result<DeviceInfo> Info() override;
  [[nodiscard]] Result<std::uint64_t> Allocate(std::size_t bytes) override;
  void Free(std::uint64_t address) override;
  [[nodiscard]] Result<StreamId> MakeStream() override;
  void FreeStream(StreamId stream) override;
  [[nodiscard]] Status Synchronise(StreamId stream) override;
  [[nodiscard]] Status CopyIn(StreamId stream, std::uint64_t to, const void* from,
                              std::size_t bytes) override;
  [[nodiscard]] Status CopyOut(StreamId stream, void* to, std::uint64_t from,
                               std::size_t bytes) override;
  [[nodiscard]] Status CopyWithin(StreamId stream, std::uint64_t to, std::uint64_t from,
                                  std::size_t bytes) override;
  [[nodiscard]] Status Clear(StreamId stream, std::uint64_t at, std::size_t bytes) override;
  [[nodiscard]] Status Launch(StreamId stream, const KernelCall& call) override;
  [[nodiscard]] Status Multiply(StreamId stream, const Gemm& gemm) override;
  [[nodiscard]] Result<EventId> MakeEvent() override;
  void FreeEvent(EventId event) override;
  [[nodiscard]] Status Record(EventId event, StreamId stream) override;
  [[nodiscard]] Status Wait(StreamId waiter, EventId event) override;
  [[nodiscard]] Status BeginCapture(StreamId stream) override;
  [[nodiscard]] Result<GraphId> EndCapture(StreamId stream) override;
  [[nodiscard]] Status LaunchGraph(StreamId stream, GraphId graph) override;
  void FreeGraph(GraphId graph) override;

 private:
  static cudaStream_t StreamOf(StreamId stream) {
    return reinterpret_cast<cudaStream_t>(stream.id);
  }
  static cudaEvent_t EventOf(EventId event) { return reinterpret_cast<cudaEvent_t>(event.id); }
  static cudaGraphExec_t GraphOf(GraphId graph) {
    return reinterpret_cast<cudaGraphExec_t>(graph.id);
  }
  static void* AddressOf(std::uint64_t address) { return reinterpret_cast<void*>(address); }

  // The error of a call, or what made the device unusable before.
  [[nodiscard]] Status Check(cudaError_t error, const std::string& call);
  [[nodiscard]] Status Fail(const std::string& text);
  // The runtime keeps the current device for each thread, and any thread may call.
  void Enter() const { static_cast<void>(cudaSetDevice(ordinal_)); }
  [[nodiscard]] cublasStatus_t UseStream(StreamId stream);

  int ordinal_;
  cublasHandle_t blas_ = nullptr;
  std::uint64_t blas_stream_ = 0;  // the last that products went to
  std::map<std::uint64_t, void*>
      workspaces_;    // of products, one a stream: they may overlap in time
  std::string lost_;  // why; empty while the device works
};

Status CudaDevice::Fail(const std::string& text) {
  if (lost_.empty()) lost_ = text;
  return Error{7203, "device call failed: " + lost_, "see the driver's log (dmesg)"};
}

Status CudaDevice::Check(cudaError_t error, const std::string& call) {
  if (error == cudaSuccess && lost_.empty()) return Ok();
  return Fail(call + ": " + cudaGetErrorString(error));
}

Status CudaDevice::Open() {
  if (Status sound = CheckEnvironment(); !sound) return sound;
  int count = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  if (counted != cudaSuccess || ordinal_ >= count) {
    std::string why = "there are " + std::to_string(count) + " devices";
    if (counted != cudaSuccess) why = cudaGetErrorString(counted);
    if (counted == cudaErrorInsufficientDriver) {
      why = "there is no driver for CUDA " + VersionText(CUDART_VERSION) + " or later";
    }
    return Error{7201, "cannot use cuda:" + std::to_string(ordinal_) + ": " + why, ""};
  }
  if (Status set = Check(cudaSetDevice(ordinal_), "cudaSetDevice"); !set) return set;
  if (const cudaError_t error = LoadKernels(); error != cudaSuccess) {
    return Error{7201,
                 "cannot use cuda:" + std::to_string(ordinal_) +
                     ": the kernels do not load: " + cudaGetErrorString(error),
                 ""};
  }
  const bool made =
      cublasCreate(&blas_) == CUBLAS_STATUS_SUCCESS &&
      cublasSetMathMode(blas_, ProductArithmetic()) == CUBLAS_STATUS_SUCCESS &&
      cublasSetAtomicsMode(blas_, CUBLAS_ATOMICS_NOT_ALLOWED) == CUBLAS_STATUS_SUCCESS;
  if (!made) return Fail("cublasCreate");
  return Ok();
}

CudaDevice::~CudaDevice() {
  Enter();
  if (blas_ != nullptr) cublasDestroy(blas_);
  for (const auto& [stream, workspace] : workspaces_) cudaFree(workspace);
}

Result<DeviceInfo> CudaDevice::Info() {
  Enter();
  cudaDeviceProp properties{};
  if (Status got = Check(cudaGetDeviceProperties(&properties, ordinal_), "cudaGetDeviceProperties");
      !got) {
    return std::move(got).error();
  }
  int driver = 0;
  int runtime = 0;
  int blas = 0;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (Status got = Check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"); !got) {
    return std::move(got).error();
  }
  if (Status got = Check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion"); !got) {
    return std::move(got).error();
  }
  if (Status got = Check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"); !got) {
    return std::move(got).error();
  }
  if (cublasGetVersion(blas_, &blas) != CUBLAS_STATUS_SUCCESS) {
    return std::move(Fail("cublasGetVersion")).error();
  }
  return DeviceInfo{.name = properties.name,
                    .compute_capability =
                        std::to_string(properties.major) + "." + std::to_string(properties.minor),
                    .driver = VersionText(driver),
                    .toolkit = VersionText(runtime),
                    .blas = "cuBLAS " + std::to_string(blas),
                    .total_bytes = total_bytes,
                    .free_bytes = free_bytes};
}

Result<std::uint64_t> CudaDevice::Allocate(std::size_t bytes) {
  Enter();
  void* address = nullptr;
  const cudaError_t error = cudaMalloc(&address, bytes == 0 ? 1 : bytes);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // it is no fault of the device
    return Error{7202, "the device has no room for " + std::to_string(bytes) + " bytes",
                 "fewer lanes, a smaller batch, or another device"};
  }
  if (Status allocated = Check(error, "cudaMalloc"); !allocated) {
    return std::move(allocated).error();
  }
  return reinterpret_cast<std::uint64_t>(address);
}

void CudaDevice::Free(std::uint64_t address) {
  Enter();
  static_cast<void>(Check(cudaFree(AddressOf(address)), "cudaFree"));
}

Result<StreamId> CudaDevice::MakeStream() {
  Enter();
  Result<std::uint64_t> workspace = Allocate(kBlasWorkspace);
  if (!workspace) return std::move(workspace).error();
  cudaStream_t stream = nullptr;
  if (Status made =
          Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
      !made) {
    Free(*workspace);
    return std::move(made).error();
  }
  const auto id = reinterpret_cast<std::uint64_t>(stream);
  workspaces_[id] = AddressOf(*workspace);
  return StreamId{id};
}

void CudaDevice::FreeStream(StreamId stream) {
  Enter();
  // Products still waiting use the workspace.
  static_cast<void>(Check(cudaStreamSynchronize(StreamOf(stream)), "cudaStreamSynchronize"));
  static_cast<void>(Check(cudaStreamDestroy(StreamOf(stream)), "cudaStreamDestroy"));
  const auto found = workspaces_.find(stream.id);
  if (found == workspaces_.end()) return;
  static_cast<void>(Check(cudaFree(found->second), "cudaFree"));
  workspaces_.erase(found);
  if (blas_stream_ == stream.id) blas_stream_ = 0;
}

Status CudaDevice::Synchronise(StreamId stream) {
  Enter();
  return Check(cudaStreamSynchronize(StreamOf(stream)), "cudaStreamSynchronize");
}

Status CudaDevice::CopyIn(StreamId stream, std::uint64_t to, const void* from, std::size_t bytes) {
  Enter();
  return Check(
      cudaMemcpyAsync(AddressOf(to), from, bytes, cudaMemcpyHostToDevice, StreamOf(stream)),
      "cudaMemcpyAsync to the device, " + std::to_string(bytes) + " bytes");
}

Status CudaDevice::CopyOut(StreamId stream, void* to, std::uint64_t from, std::size_t bytes) {
  Enter();
  return Check(
      cudaMemcpyAsync(to, AddressOf(from), bytes, cudaMemcpyDeviceToHost, StreamOf(stream)),
      "cudaMemcpyAsync to the host, " + std::to_string(bytes) + " bytes");
}

Status CudaDevice::CopyWithin(StreamId stream, std::uint64_t to, std::uint64_t from,
                              std::size_t bytes) {
  Enter();
  return Check(cudaMemcpyAsync(AddressOf(to), AddressOf(from), bytes, cudaMemcpyDeviceToDevice,
                               StreamOf(stream)),
               "cudaMemcpyAsync on the device, " + std::to_string(bytes) + " bytes");
}

Status CudaDevice::Clear(StreamId stream, std::uint64_t at, std::size_t bytes) {
  Enter();
  return Check(cudaMemsetAsync(AddressOf(at), 0, bytes, StreamOf(stream)),
               "cudaMemsetAsync, " + std::to_string(bytes) + " bytes");
}

Status CudaDevice::Launch(StreamId stream, const KernelCall& call) {
  if (call.kernel >= KernelCount() || call.args_bytes != KernelArgsBytes(call.kernel)) {
    return Fail("kernel " + std::to_string(call.kernel) + " is not in this library");
  }
  Enter();
  return Check(LaunchOnDevice(StreamOf(stream), call),
               std::string(KernelName(call.kernel)) + ", " + std::to_string(call.grid.x) + " x " +
                   std::to_string(call.grid.y) + " blocks of " +
                   std::to_string(call.grid.block_threads) + " threads");
}

cublasStatus_t CudaDevice::UseStream(StreamId stream) {
  if (blas_stream_ == stream.id) return CUBLAS_STATUS_SUCCESS;
  blas_stream_ = 0;
  const auto workspace = workspaces_.find(stream.id);
  if (workspace == workspaces_.end()) return CUBLAS_STATUS_INVALID_VALUE;
  cublasStatus_t status = cublasSetStream(blas_, StreamOf(stream));
  // Setting a stream takes the workspace away; without one of its own a capture would allocate.
  if (status == CUBLAS_STATUS_SUCCESS) {
    status = cublasSetWorkspace(blas_, workspace->second, kBlasWorkspace);
  }
  if (status == CUBLAS_STATUS_SUCCESS) blas_stream_ = stream.id;
  return status;
}

Status CudaDevice::Multiply(StreamId stream, const Gemm& g) {
  if (!lost_.empty()) return Fail(lost_);
  Enter();
  const auto status_of = [&] {
    const cublasStatus_t status = UseStream(stream);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const auto side = [](std::uint32_t n) { return static_cast<int>(n); };
    const auto far = [](std::uint64_t n) { return static_cast<long long>(n); };
    return cublasSgemmStridedBatched(
        blas_, g.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, g.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
        side(g.m), side(g.n), side(g.k), &g.alpha, reinterpret_cast<const float*>(g.a.address),
        side(g.lda), far(g.a_stride), reinterpret_cast<const float*>(g.b.address), side(g.ldb),
        far(g.b_stride), &g.beta, reinterpret_cast<float*>(g.c.address), side(g.ldc),
        far(g.c_stride), side(g.batch));
  };
  const cublasStatus_t status = status_of();
  if (status == CUBLAS_STATUS_SUCCESS) return Ok();
  return Fail("product " + std::to_string(g.m) + " x " + std::to_string(g.n) + " x " +
              std::to_string(g.k) + ", batch " + std::to_string(g.batch) + ": " +
              cublasGetStatusString(status));
}

Result<EventId> CudaDevice::MakeEvent() {
  Enter();
  cudaEvent_t event = nullptr;
  if (Status made =
          Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
      !made) {
    return std::move(made).error();
  }
  return EventId{reinterpret_cast<std::uint64_t>(event)};
}

void CudaDevice::FreeEvent(EventId event) {
  Enter();
  static_cast<void>(Check(cudaEventDestroy(EventOf(event)), "cudaEventDestroy"));
}

Status CudaDevice::Record(EventId event, StreamId stream) {
  Enter();
  return Check(cudaEventRecord(EventOf(event), StreamOf(stream)), "cudaEventRecord");
}

Status CudaDevice::Wait(StreamId waiter, EventId event) {
  Enter();
  return Check(cudaStreamWaitEvent(StreamOf(waiter), EventOf(event), 0), "cudaStreamWaitEvent");
}

Status CudaDevice::BeginCapture(StreamId stream) {
  Enter();
  // Relaxed: a product may load its code at its first use, which the other modes forbid. That
  // nothing of ours allocates meanwhile is what the fake device of the tests sees to.
  return Check(cudaStreamBeginCapture(StreamOf(stream), cudaStreamCaptureModeRelaxed),
               "cudaStreamBeginCapture");
}

Result<GraphId> CudaDevice::EndCapture(StreamId stream) {
  Enter();
  cudaGraph_t graph = nullptr;
  if (Status ended = Check(cudaStreamEndCapture(StreamOf(stream), &graph), "cudaStreamEndCapture");
      !ended) {
    return std::move(ended).error();
  }
  cudaGraphExec_t executable = nullptr;
  const Status made = Check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  cudaGraphDestroy(graph);
  if (!made) return made.error();
  return GraphId{reinterpret_cast<std::uint64_t>(executable)};
}

Status CudaDevice::LaunchGraph(StreamId stream, GraphId graph) {
  Enter();
  return Check(cudaGraphLaunch(GraphOf(graph), StreamOf(stream)), "cudaGraphLaunch");
}

void CudaDevice::FreeGraph(GraphId graph) {
  Enter();
  static_cast<void>(Check(cudaGraphExecDestroy(GraphOf(graph)), "cudaGraphExecDestroy"));
}

}  // namespace
}  // namespace skep::kernels::cuda

extern "C" {

// All that the library exports.
__attribute__((visibility("default"))) const char* skep_cuda_version() {
  return skep::kernels::kLibraryVersion;
}

__attribute__((visibility("default"))) int skep_cuda_open(int ordinal,
                                                          skep::kernels::DeviceApi** device,
                                                          char* message, std::size_t bytes) {
  auto opened = std::make_unique<skep::kernels::cuda::CudaDevice>(ordinal);
  const skep::Status status = opened->Open();
  if (!status) {
    std::strncpy(message, status.error().message.c_str(), bytes);
    if (bytes > 0) message[bytes - 1] = 0;
    return status.error().code;
  }
  *device = opened.release();
  return 0;
}
}
