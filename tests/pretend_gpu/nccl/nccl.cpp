// SPDX-License-Identifier: MIT
// libnccl.so.2: collectives and messages between the processes of one machine, as work on the given stream. A call
// returns at once, and a missing rank leaves the stream waiting until ncclCommAbort. The rules are those of NVIDIA's
// NCCL user guide, API reference, unless a function names another page.
#include "pretend_gpu/engine.h"
#include "pretend_gpu/nccl/communicator.h"
#include "pretend_gpu/nccl/numbers.h"
#include "pretend_gpu/nccl/operations.h"

#include <array>
#include <tuple>

namespace {

using pretend::Call;
using pretend::complain;
using pretend::Kind;
using pretend::Message;
using pretend::Operands;
using pretend::Order;

// "Group Calls": what the thread has called since ncclGroupStart that must continue together.
struct Group {
  struct Messages {
    ncclComm* comm;
    cudaStream_t stream;
    std::vector<Message> messages;
  };
  int depth = 0;
  std::vector<ncclComm*> joining;
  std::vector<Messages> messages;
};

thread_local Group group;

// Returns the error that a use of the communicator is. After ncclCommDestroy or ncclCommAbort its memory is free
// ("Communicator Creation and Management Functions"), so that anything might happen.
ncclResult_t use(const ncclComm* comm, const char* function) {
  if (comm == nullptr) return complain(ncclInvalidArgument, std::string(function) + ": no communicator");
  if (comm->destroyed) return complain(ncclInvalidArgument, std::string(function) + " after ncclCommDestroy");
  if (comm->aborted) return complain(ncclInvalidArgument, std::string(function) + " after ncclCommAbort");
  return ncclSuccess;
}

ncclResult_t require_own_memory(const ncclComm& comm, const char* function, const void* memory) {
  const int device = pretend::device_of(memory);
  if (device == comm.device) return ncclSuccess;
  return complain(ncclInvalidArgument, std::string(function) + ": the memory is that of " +
                                           (device < 0 ? "the host" : "device " + std::to_string(device)) +
                                           ", and the communicator that of device " + std::to_string(comm.device));
}

// Work that fails as PRETEND_FAIL orders: `late` is an error that ncclCommGetAsyncError says, and either waits until
// it is aborted.
ncclResult_t enqueue(ncclComm* comm, cudaStream_t stream, const char* name, Order order, pretend::Work work) {
  if (order.kind == Order::kLate || order.kind == Order::kStall) {
    work = [comm, order] {
      if (order.kind == Order::kLate) comm->error = order.error;
      comm->wait_for_abort();
    };
  }
  if (pretend::enqueue(stream, name, std::move(work)) == cudaSuccess) return ncclSuccess;
  return complain(ncclUnhandledCudaError, std::string(name) + ": the stream takes no work");
}

struct Request {
  const char* function;
  Call call;
  const void* send;
  void* receive;
  ncclComm* comm;
  cudaStream_t stream;
};

ncclResult_t start(const Request& request) {
  const auto& [function, call, send, receive, comm, stream] = request;
  const auto order = pretend::ordered(function, ncclUnhandledCudaError);
  if (order.kind == Order::kError) return static_cast<ncclResult_t>(order.error);
  if (const auto error = use(comm, function); error != ncclSuccess) return error;
  if (pretend::size_of(call.type) == 0 || call.root < 0 || call.root >= comm->size)
    return complain(ncclInvalidArgument, std::string(function) + ": type " + std::to_string(call.type) + ", root " +
                                             std::to_string(call.root));
  const bool takes = call.kind != Kind::kReduce || comm->rank == call.root;
  const bool gives = call.kind != Kind::kBroadcast || comm->rank == call.root;
  for (const auto& [used, memory] : {std::pair(gives, send), std::pair(takes, static_cast<const void*>(receive))}) {
    if (!used || call.count == 0) continue;
    if (const auto error = require_own_memory(*comm, function, memory); error != ncclSuccess) return error;
  }
  Call shared = call;
  Operands operands{static_cast<const char*>(send), static_cast<char*>(receive)};
  if (call.operation >= ncclNumOps) {
    operands.factor = comm->factors.at(static_cast<size_t>(call.operation - ncclNumOps));
    shared.operation = ncclSum;
  }
  return enqueue(comm, stream, function, order, [=] { pretend::run_collective(*comm, shared, operands); });
}

// "Point To Point Communication Functions": within a group, all messages on one stream are one work.
ncclResult_t pass(const char* function, Message message, ncclComm* comm, cudaStream_t stream) {
  const auto order = pretend::ordered(function, ncclUnhandledCudaError);
  if (order.kind == Order::kError) return static_cast<ncclResult_t>(order.error);
  if (const auto error = use(comm, function); error != ncclSuccess) return error;
  if (message.peer < 0 || message.peer >= comm->size)
    return complain(ncclInvalidArgument, std::string(function) + ": peer " + std::to_string(message.peer));
  if (message.bytes > 0) {
    if (const auto error = require_own_memory(*comm, function, message.data); error != ncclSuccess) return error;
  }
  if (group.depth == 0 || order.kind != Order::kNone)
    return enqueue(comm, stream, function, order, [=] { pretend::run_messages(*comm, {message}); });
  for (auto& one : group.messages) {
    if (one.comm == comm && one.stream == stream) return one.messages.push_back(message), ncclSuccess;
  }
  group.messages.push_back({comm, stream, {message}});
  return ncclSuccess;
}

Message message(bool sends, const void* data, size_t count, ncclDataType_t type, int peer) {
  return {sends, peer, static_cast<char*>(const_cast<void*>(data)), count * pretend::size_of(type)};
}

ncclResult_t join(ncclComm_t* out, int size, const ncclUniqueId& id, int rank, const char* function) {
  const auto order = pretend::ordered(function, ncclSystemError);
  if (order.kind == Order::kError) return static_cast<ncclResult_t>(order.error);
  if (const auto error = ncclComm::open(out, size, id, rank); error != ncclSuccess) return error;
  if (group.depth > 0) return group.joining.push_back(*out), ncclSuccess;
  return (*out)->await_all();
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NCCL's names
extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const auto order = pretend::ordered(__func__, ncclSystemError);
  return order.kind == Order::kError ? static_cast<ncclResult_t>(order.error) : pretend::make_id(*id);
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return join(comm, size, id, rank, __func__);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t*) {
  return join(comm, size, id, rank, __func__);
}
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int size, int rank, int, ncclUniqueId* ids, ncclConfig_t*) {
  return join(comm, size, ids[0], rank, __func__);
}

// Those of one color become a communicator, in the order of their keys and, where these are equal, of their ranks.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* out, ncclConfig_t*) {
  if (const auto error = use(comm, __func__); error != ncclSuccess) return error;
  auto& shared = *comm->shared;
  shared.colors[comm->rank] = color;
  shared.keys[comm->rank] = key;
  if (!comm->meet_on_host()) return ncclInternalError;
  int rank = 0, size = 0, first = comm->rank;
  const auto place = [&](int of) { return std::tuple(shared.keys[of], of); };
  for (int other = 0; other < comm->size; ++other) {
    if (shared.colors[other] != color) continue;
    ++size;
    rank += place(other) < place(comm->rank) ? 1 : 0;
    if (place(other) < place(first)) first = other;
  }
  auto made = ncclSuccess;
  if (color != NCCL_SPLIT_NOCOLOR && first == comm->rank) made = pretend::make_id(shared.ids[first]);
  if (!comm->meet_on_host()) return ncclInternalError;
  const auto id = shared.ids[first];
  if (!comm->meet_on_host() || made != ncclSuccess)
    return ncclInternalError;  // the places may be filled anew from here on
  *out = nullptr;
  return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : join(out, size, id, rank, __func__);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) { return use(comm, __func__); }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (const auto error = use(comm, __func__); error != ncclSuccess) return error;
  comm->destroyed = true;
  return ncclSuccess;
}

// Work under way ends without a result.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto order = pretend::ordered(__func__, ncclInternalError);
  if (order.kind == Order::kError) return static_cast<ncclResult_t>(order.error);
  if (const auto error = use(comm, __func__); error != ncclSuccess) return error;
  pretend::log(2, "NCCL: rank %d aborts", comm->rank);
  comm->aborted = true;
  return ncclSuccess;
}

// "Fault Tolerance": an error that happens while work runs is reported here.
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const auto order = pretend::ordered(__func__, ncclRemoteError);
  if (order.kind == Order::kError) return static_cast<ncclResult_t>(order.error);
  if (order.kind == Order::kLate) comm->error = order.error;
  *error = static_cast<ncclResult_t>(comm->error.load());
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->size;
  return ncclSuccess;
}
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->device;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

// What was called in a group begins at the end of the outermost one.
ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return complain(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  const auto order = pretend::ordered(__func__, ncclUnhandledCudaError);
  if (--group.depth > 0) return ncclSuccess;
  const auto [depth, joining, messages] = std::exchange(group, {});
  if (order.kind == Order::kError) return static_cast<ncclResult_t>(order.error);
  auto result = ncclSuccess;
  const auto note = [&](ncclResult_t error) { result = result == ncclSuccess ? error : result; };
  for (const auto* comm : joining) note(comm->await_all());
  for (const auto& [comm, stream, all] : messages)
    note(enqueue(comm, stream, "ncclSend and ncclRecv", order, [comm, all] { pretend::run_messages(*comm, all); }));
  return result;
}

// "Types", ncclResult_t.
const char* ncclGetErrorString(ncclResult_t result) {
  constexpr std::array kTexts{"no error",
                              "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                              "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                              "internal error - please report this issue to the NCCL developers",
                              "invalid argument (run with NCCL_DEBUG=WARN for details)",
                              "invalid usage (run with NCCL_DEBUG=WARN for details)",
                              "remote process exited or there was a network error",
                              "NCCL operation in progress"};
  const auto index = static_cast<size_t>(result);
  return index < kTexts.size() ? kTexts[index] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t) { return pretend::last_complaint(); }

// A number of the host is read at once, one of the device when the collective runs ("ncclScalarResidence_t").
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* operation, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  if (const auto error = use(comm, __func__); error != ncclSuccess) return error;
  const auto read = [type, scalar] { return pretend::number_at(type, pretend::shadow(scalar)); };
  if (residence == ncclScalarDevice) {
    comm->factors.emplace_back(read);
  } else {
    comm->factors.emplace_back([number = read()] { return number; });
  }
  *operation = static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(comm->factors.size()) - 1);
  return ncclSuccess;
}
ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t) { return ncclSuccess; }  // work that is enqueued has a copy

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  return start({__func__, {Kind::kAllReduce, type, operation, 0, count}, send, receive, comm, stream});
}
ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type, ncclRedOp_t operation,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return start({__func__, {Kind::kReduce, type, operation, root, count}, send, receive, comm, stream});
}
ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return start({__func__, {Kind::kBroadcast, type, ncclSum, root, count}, send, receive, comm, stream});
}
ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return start({__func__, {Kind::kBroadcast, type, ncclSum, root, count}, buffer, buffer, comm, stream});
}
ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return start({__func__, {Kind::kAllGather, type, ncclSum, 0, count}, send, receive, comm, stream});
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
  return start({__func__, {Kind::kReduceScatter, type, operation, 0, count}, send, receive, comm, stream});
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return pass(__func__, message(true, send, count, type, peer), comm, stream);
}
ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return pass(__func__, message(false, receive, count, type, peer), comm, stream);
}

// A message to each rank and one of each, `count` numbers long.
ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  if (const auto error = use(comm, __func__); error != ncclSuccess) return error;
  ncclGroupStart();
  auto result = ncclSuccess;
  for (int peer = 0; peer < comm->size && result == ncclSuccess; ++peer) {
    const auto at = static_cast<size_t>(peer) * count * pretend::size_of(type);
    result = ncclSend(static_cast<const char*>(send) + at, count, type, peer, comm, stream);
    if (result == ncclSuccess) result = ncclRecv(static_cast<char*>(receive) + at, count, type, peer, comm, stream);
  }
  const auto ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
