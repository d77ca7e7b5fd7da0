// SPDX-License-Identifier: MIT
// Batch normalization and ReLU of images in channels_last and half precision, as tables of rows (the pixels of all
// images) and channels: two passes forward and two backward. Compiled at run time for the present GPU
// (cuda_batch_norm.cpp). The order of all sums follows from the sizes alone.

#ifdef __CUDACC__  // a host that runs kernels has its own
__device__ float ddprun_half_as_float(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
__device__ unsigned short ddprun_float_as_half(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#endif

namespace {

constexpr int kThreads = 256;  // of a block
constexpr int kWide = 4;       // channels of a column, 8 bytes
constexpr int kAtOnce = 4;     // loads of a thread: they hide the memory's latency

struct alignas(8) Column {
  unsigned short bits[kWide];
};

struct Bfloat16 {
  static __device__ float read(unsigned short bits) { return __uint_as_float(static_cast<unsigned int>(bits) << 16); }
  static __device__ unsigned short write(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned short bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    if (value != value) return 0x7FC0;
    const unsigned int bits = __float_as_uint(value);
    return static_cast<unsigned short>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
#endif
  }
};

struct Float16 {
  static __device__ float read(unsigned short bits) { return ddprun_half_as_float(bits); }
  static __device__ unsigned short write(float value) { return ddprun_float_as_half(value); }
};

// Matches cuda_batch_norm.cpp. A block works on some rows of `width` columns, a power of two.
struct Table {
  long long rows;
  int columns, width, chunks;

  __device__ int tiles() const { return columns / width; }
  __device__ int first_chunk() const { return blockIdx.x / tiles(); }
  // Second passes go backwards: the end of what the first has read is still cached.
  __device__ int last_chunk() const { return chunks - 1 - first_chunk(); }
};

// Each is of one channel. The bias may be null.
struct Norm {
  const float *weight, *bias, *mean, *inverse_deviation;
};

// Visits the block's rows of a chunk. For each column that the thread has, which on a GPU is one, calls
// work.begin(column), work.use(place, work.load(place)) for each row, and work.end(column, lane, lanes).
template <class Work>
__device__ __forceinline__ void walk(const Table& table, int chunk, Work work) {
  const int threads = blockDim.x, tile = blockIdx.x % table.tiles();
  const int lanes = threads > table.width ? threads / table.width : 1, lane = threadIdx.x / table.width;
  const long long rows = (table.rows + table.chunks - 1) / table.chunks, first = chunk * rows;
  const long long last = first + rows < table.rows ? first + rows : table.rows;
  for (int of_tile = threadIdx.x % table.width; of_tile < table.width; of_tile += threads) {
    const int column = tile * table.width + of_tile;
    const auto place = [&](long long row) { return row * table.columns + column; };
    work.begin(column);
    long long row = first + lane;
    for (; row + (kAtOnce - 1) * lanes < last; row += kAtOnce * lanes) {
      decltype(work.load(0)) loaded[kAtOnce];
      for (int i = 0; i < kAtOnce; ++i) loaded[i] = work.load(place(row + i * lanes));
      for (int i = 0; i < kAtOnce; ++i) work.use(place(row + i * lanes), loaded[i]);
    }
    for (; row < last; row += lanes) work.use(place(row), work.load(place(row)));
    work.end(column, lane, lanes);
  }
}

// Two sums of each channel, as [chunk, 2, channel].
struct Sums {
  const Table& table;
  float* out;
  float first[kWide], second[kWide];

  __device__ void clear() {
    for (int i = 0; i < kWide; ++i) first[i] = second[i] = 0;
  }

  __device__ void write(int column, int lane, int lanes) {
    __shared__ float shared[2 * kWide][kThreads];
    const int thread = threadIdx.x;
    for (int i = 0; i < kWide; ++i) shared[i][thread] = first[i], shared[kWide + i][thread] = second[i];
    for (int half = lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane >= half) continue;
      for (int i = 0; i < 2 * kWide; ++i) shared[i][thread] += shared[i][thread + half * table.width];
    }
    if (lane != 0) return;
    const int channels = table.columns * kWide;
    float* to = out + static_cast<long long>(table.first_chunk()) * 2 * channels + column * kWide;
    for (int i = 0; i < kWide; ++i) to[i] = shared[i][thread], to[channels + i] = shared[kWide + i][thread];
  }
};

// Sums distances from a value of the channel, that of the first row: accurate if the mean is far from 0.
template <class Type>
struct InputSums {
  const Column* x;
  Sums sums;
  Column origin;

  __device__ void begin(int column) {
    sums.clear();
    origin = x[column];
  }
  __device__ Column load(long long place) const { return x[place]; }
  __device__ void use(long long, const Column& some) {
    for (int i = 0; i < kWide; ++i) {
      const float distance = Type::read(some.bits[i]) - Type::read(origin.bits[i]);
      sums.first[i] += distance;
      sums.second[i] += distance * distance;
    }
  }
  __device__ void end(int column, int lane, int lanes) { sums.write(column, lane, lanes); }
};

// y = scale * x + shift, before ReLU.
template <class Type>
struct Active {
  Norm norm;
  float scale[kWide], shift[kWide];

  __device__ void begin(int column) {
    for (int i = 0; i < kWide; ++i) {
      const int channel = column * kWide + i;
      scale[i] = norm.weight[channel] * norm.inverse_deviation[channel];
      shift[i] = (norm.bias ? norm.bias[channel] : 0.0F) - norm.mean[channel] * scale[i];
    }
  }

  // NaN stays NaN.
  __device__ unsigned short value(int i, unsigned short x) const {
    const float y = scale[i] * Type::read(x) + shift[i];
    return Type::write(y < 0 ? 0.0F : y);
  }

  // Returns dy where ReLU has let y through: as it was rounded.
  __device__ float gradient(int i, unsigned short x, unsigned short dy) const {
    return Type::read(value(i, x)) <= 0 ? 0.0F : Type::read(dy);
  }
};

template <class Type>
struct Normalized {
  const Column* __restrict__ x;
  Column* __restrict__ y;
  Active<Type> active;

  __device__ void begin(int column) { active.begin(column); }
  __device__ Column load(long long place) const { return x[place]; }
  __device__ void use(long long place, const Column& some) const {
    Column out;
    for (int i = 0; i < kWide; ++i) out.bits[i] = active.value(i, some.bits[i]);
    y[place] = out;
  }
  __device__ void end(int, int, int) {}
};

struct Pair {
  Column dy, x;
};

// Sums dy and dy * (x - mean), where dy is ReLU's.
template <class Type>
struct GradientSums {
  const Column *dy, *x;
  Active<Type> active;
  Sums sums;
  float mean[kWide];

  __device__ void begin(int column) {
    sums.clear();
    active.begin(column);
    for (int i = 0; i < kWide; ++i) mean[i] = active.norm.mean[column * kWide + i];
  }
  __device__ Pair load(long long place) const { return {dy[place], x[place]}; }
  __device__ void use(long long, const Pair& some) {
    for (int i = 0; i < kWide; ++i) {
      const float gradient = active.gradient(i, some.x.bits[i], some.dy.bits[i]);
      sums.first[i] += gradient;
      sums.second[i] += gradient * (Type::read(some.x.bits[i]) - mean[i]);
    }
  }
  __device__ void end(int column, int lane, int lanes) { sums.write(column, lane, lanes); }
};

// dx = weight / deviation * (dy - bias_gradient / n - x^ * weight_gradient / n), with x^ = (x - mean) / deviation.
template <class Type>
struct InputGradient {
  const Column* __restrict__ dy, * __restrict__ x;
  Column* __restrict__ dx;
  const float *weight_gradient, *bias_gradient;
  float rows;
  Active<Type> active;
  float slope[kWide], constant[kWide];

  __device__ void begin(int column) {
    active.begin(column);
    for (int i = 0; i < kWide; ++i) {
      const int channel = column * kWide + i;
      slope[i] = -active.scale[i] * active.norm.inverse_deviation[channel] * (weight_gradient[channel] / rows);
      constant[i] = -active.scale[i] * (bias_gradient[channel] / rows) - slope[i] * active.norm.mean[channel];
    }
  }
  __device__ Pair load(long long place) const { return {dy[place], x[place]}; }
  __device__ void use(long long place, const Pair& some) const {
    Column out;
    for (int i = 0; i < kWide; ++i) {
      const float gradient = active.gradient(i, some.x.bits[i], some.dy.bits[i]);
      const float from_statistics = slope[i] * Type::read(some.x.bits[i]) + constant[i];
      out.bits[i] = Type::write(active.scale[i] * gradient + from_statistics);
    }
    dx[place] = out;
  }
  __device__ void end(int, int, int) {}
};

// Adds the sums of all chunks. A block has kWide channels; calls finish(channel, first sum, second sum) for each.
template <class Finish>
__device__ __forceinline__ void add_chunks(const Table& table, const float* partial, Finish finish) {
  __shared__ double sums[2][kThreads];
  const int channels = table.columns * kWide, threads = blockDim.x, thread = threadIdx.x;
  const int lanes = threads > kWide ? threads / kWide : 1, lane = thread / kWide;
  for (int i = thread % kWide; i < kWide; i += threads) {
    const int channel = blockIdx.x * kWide + i;
    double first = 0, second = 0;
#pragma unroll 4
    for (int chunk = lane; chunk < table.chunks; chunk += lanes) {
      const float* from = partial + static_cast<long long>(chunk) * 2 * channels + channel;
      first += from[0];
      second += from[channels];
    }
    sums[0][thread] = first, sums[1][thread] = second;
    for (int half = lanes / 2; half > 0; half /= 2) {
      __syncthreads();
      if (lane >= half) continue;
      for (int which = 0; which < 2; ++which) sums[which][thread] += sums[which][thread + half * kWide];
    }
    if (lane == 0) finish(channel, sums[0][thread], sums[1][thread]);
  }
}

}  // namespace

// `half`: whether the numbers are float16, not bfloat16.

extern "C" __global__ void sum_inputs(Table table, const Column* x, float* partial, bool half) {
  const Sums sums{table, partial};
  if (half)
    walk(table, table.first_chunk(), InputSums<Float16>{x, sums});
  else
    walk(table, table.first_chunk(), InputSums<Bfloat16>{x, sums});
}

extern "C" __global__ void take_statistics(Table table, const Column* x, const float* partial, double eps,
                                           double momentum, float* mean, float* inverse_deviation, float* running_mean,
                                           float* running_variance, bool half) {
  const auto rows = static_cast<double>(table.rows);
  const auto take_in = [&](float& running, double value) {
    running = static_cast<float>((1 - momentum) * running + momentum * value);
  };
  add_chunks(table, partial, [&](int channel, double sum, double squares) {
    const unsigned short origin = x[channel / kWide].bits[channel % kWide];
    const double distance = sum / rows, middle = distance + (half ? Float16::read(origin) : Bfloat16::read(origin));
    const double deviations = squares - sum * distance;
    const double sum_of_squares = deviations < 0 ? 0 : deviations;  // NaN stays NaN
    mean[channel] = static_cast<float>(middle);
    inverse_deviation[channel] = static_cast<float>(1 / sqrt(sum_of_squares / rows + eps));
    take_in(running_mean[channel], middle);
    take_in(running_variance[channel], sum_of_squares / (rows - 1));
  });
}

extern "C" __global__ void normalize(Table table, const Column* x, const float* weight, const float* bias,
                                     const float* mean, const float* inverse_deviation, Column* y, bool half) {
  const Norm norm{weight, bias, mean, inverse_deviation};
  if (half)
    walk(table, table.last_chunk(), Normalized<Float16>{x, y, {norm}});
  else
    walk(table, table.last_chunk(), Normalized<Bfloat16>{x, y, {norm}});
}

extern "C" __global__ void sum_gradients(Table table, const Column* dy, const Column* x, const float* weight,
                                         const float* bias, const float* mean, const float* inverse_deviation,
                                         float* partial, bool half) {
  const Norm norm{weight, bias, mean, inverse_deviation};
  const Sums sums{table, partial};
  if (half)
    walk(table, table.first_chunk(), GradientSums<Float16>{dy, x, {norm}, sums});
  else
    walk(table, table.first_chunk(), GradientSums<Bfloat16>{dy, x, {norm}, sums});
}

extern "C" __global__ void take_gradients(Table table, const float* partial, const float* inverse_deviation,
                                          float* weight_gradient, float* bias_gradient) {
  add_chunks(table, partial, [&](int channel, double sum, double with_distance) {
    bias_gradient[channel] = static_cast<float>(sum);
    weight_gradient[channel] = static_cast<float>(with_distance * inverse_deviation[channel]);
  });
}

extern "C" __global__ void spread_gradients(Table table, const Column* dy, const Column* x, const float* weight,
                                            const float* bias, const float* mean, const float* inverse_deviation,
                                            const float* weight_gradient, const float* bias_gradient, Column* dx,
                                            bool half) {
  const Norm norm{weight, bias, mean, inverse_deviation};
  const auto rows = static_cast<float>(table.rows);
  if (half)
    walk(table, table.last_chunk(), InputGradient<Float16>{dy, x, dx, weight_gradient, bias_gradient, rows, {norm}});
  else
    walk(table, table.last_chunk(), InputGradient<Bfloat16>{dy, x, dx, weight_gradient, bias_gradient, rows, {norm}});
}
