// SPDX-License-Identifier: MIT
// What a step counts and sends to the host, with one kernel each in place of several operators. Compiled at run time
// for the present GPU (cuda_numbers.cpp). Blocks stride by blockDim, which may be 1.

namespace {

// Matches cuda_numbers.cpp.
struct Numbers {
  static constexpr int kMost = 320;
  const void* place[kMost];
  char type[kMost];  // 'f': float, 'd': double, 'l': int64
};

template <class Number>
__device__ double read(const void* place) {
  return static_cast<double>(*static_cast<const Number*>(place));
}

// A row is right if its first greatest score is the target's, and no score is NaN.
template <class Number>
__device__ void count_correct(const Number* scores, long long rows, int classes, long long row_step,
                              long long class_step, const long long* targets, unsigned long long* correct) {
  __shared__ unsigned long long in_block;
  if (threadIdx.x == 0) in_block = 0;
  __syncthreads();
  for (long long row = blockIdx.x * blockDim.x + threadIdx.x; row < rows; row += gridDim.x * blockDim.x) {
    const Number* score = scores + row * row_step;
    int guess = 0;
    bool is_number = score[0] == score[0];
    for (int i = 1; i < classes; ++i) {
      const Number other = score[i * class_step];
      is_number = is_number && other == other;
      if (other > score[guess * class_step]) guess = i;
    }
    if (is_number && guess == targets[row]) atomicAdd(&in_block, 1ULL);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1)
    *correct = in_block;
  else
    atomicAdd(correct, in_block);
}

}  // namespace

extern "C" __global__ void pack_numbers(Numbers numbers, int count, double* out) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) {
    const void* place = numbers.place[i];
    out[i] = numbers.type[i] == 'f'   ? read<float>(place)
             : numbers.type[i] == 'd' ? read<double>(place)
                                      : read<long long>(place);
  }
}

extern "C" __global__ void count_correct_float(const float* scores, long long rows, int classes, long long row_step,
                                               long long class_step, const long long* targets,
                                               unsigned long long* correct) {
  count_correct(scores, rows, classes, row_step, class_step, targets, correct);
}
