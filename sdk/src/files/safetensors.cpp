// SPDX-License-Identifier: MIT
#include "safetensors_header.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <ATen/Functions.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

struct Dtype {
  at::ScalarType type;
  std::string_view name;
};

constexpr std::array kDtypes = {
    Dtype{at::kDouble, "F64"}, Dtype{at::kFloat, "F32"}, Dtype{at::kHalf, "F16"},  Dtype{at::kBFloat16, "BF16"},
    Dtype{at::kLong, "I64"},   Dtype{at::kInt, "I32"},   Dtype{at::kShort, "I16"}, Dtype{at::kChar, "I8"},
    Dtype{at::kByte, "U8"},    Dtype{at::kBool, "BOOL"},
};

}  // namespace

std::optional<std::string_view> dtype_name(at::ScalarType dtype) {
  for (const auto& known : kDtypes) {
    if (known.type == dtype) return known.name;
  }
  return std::nullopt;
}

std::optional<at::ScalarType> dtype_from_name(std::string_view name) {
  for (const auto& known : kDtypes) {
    if (known.name == name) return known.type;
  }
  return std::nullopt;
}

std::optional<int64_t> byte_count(at::IntArrayRef shape, at::ScalarType dtype) {
  auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
  bool empty = false;
  for (const int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    if (extent == 0) {
      empty = true;  // the other extents must still be countable: LibTorch multiplies them for the strides
    } else if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

void require_storable(const std::string& name, const at::Tensor& tensor) {
  const auto refuse = [&](const std::string& what) {
    throw std::invalid_argument("tensor \"" + name + "\" cannot be saved: it is " + what);
  };
  if (!tensor.defined()) refuse("undefined");
  if (tensor.layout() != at::kStrided) refuse("not a dense tensor (" + std::string(c10::str(tensor.layout())) + ")");
  if (tensor.is_meta()) refuse("on the meta device: it has no data");
  if (!dtype_name(tensor.scalar_type())) refuse("of type " + std::string(c10::toString(tensor.scalar_type())));
}

at::Tensor to_dense_host(const at::Tensor& tensor) {
  auto host = tensor.detach().to(at::kCPU).resolve_conj().resolve_neg();
  if (!host.is_non_overlapping_and_dense()) return host.contiguous();
  const bool alone = host.storage_offset() == 0 && host.storage().nbytes() == host.nbytes();
  return alone ? host : host.clone(at::MemoryFormat::Preserve);
}

namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

using nlohmann::json;

// ---- writing

void require_name(const std::string& name) {
  if (name == kSafetensorsMetadata)
    throw std::invalid_argument("safetensors: no tensor can have the name __metadata__");
  if (name.size() > kMostNameBytes)
    throw std::invalid_argument("safetensors: a tensor's name has more than " + std::to_string(kMostNameBytes) +
                                " bytes");
}

std::string beginning_of(const std::vector<SafetensorsEntry>& entries) {
  json header = {{kSafetensorsMetadata, {{"format", "pt"}}}};
  for (const auto& entry : entries)
    header[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kLargestSafetensorsHeader)
    throw std::invalid_argument("safetensors: the header would exceed 100 MB");
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kSafetensorsLengthBytes) + text;
}

// ---- reading

// Reads one file once, from beginning to end.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);  // a pipe has none, and is not waited for
    if (error) throw_file_error("read", path, error.value());
    file_.open(path, std::ios::binary);
    if (!file_) throw_file_error("read", path, errno);
  }

  [[noreturn]] void refuse(const std::string& flaw) const {
    throw UserError(path_.string() + ": not a valid safetensors file: " + flaw);
  }

  std::vector<SafetensorsEntry> header() {
    std::string first(kSafetensorsLengthBytes, '\0');
    if (size_ >= first.size()) read(first.data(), first.size());
    try {
      std::string text(safetensors_header_length(first, size_), '\0');
      read(text.data(), text.size());
      return parse_safetensors_header(text, size_);
    } catch (const UserError&) {
      throw;
    } catch (const std::exception& error) {
      refuse(error.what());
    }
  }

  at::Tensor tensor(const SafetensorsEntry& entry) {
    if (!entry.type) refuse("tensor \"" + entry.name + "\": unknown dtype " + entry.dtype);
    auto tensor = at::empty(entry.shape, at::dtype(*entry.type));
    read(tensor.data_ptr(), entry.end - entry.begin);
    if (*entry.type == at::kBool && tensor.numel() > 0 && tensor.view(at::kByte).max().item<uint8_t>() > 1)
      refuse("tensor \"" + entry.name + "\": it holds a BOOL that is neither 0 nor 1");
    return tensor;
  }

 private:
  void read(void* target, uint64_t bytes) {
    file_.read(static_cast<char*>(target), static_cast<std::streamsize>(bytes));
    if (static_cast<uint64_t>(file_.gcount()) != bytes) refuse("it ends early or cannot be read");
  }

  std::filesystem::path path_;
  uint64_t size_ = 0;
  std::ifstream file_;
};

}  // namespace

SafetensorsEntry safetensors_form(const std::string& name, const at::Tensor& tensor) {
  require_storable(name, tensor);
  require_name(name);
  return {.name = name,
          .dtype = std::string(*dtype_name(tensor.scalar_type())),
          .type = tensor.scalar_type(),
          .shape = tensor.sizes().vec()};
}

// The largest elements come first, so that each tensor begins at a multiple of its element size.
SafetensorsLayout safetensors_layout(std::vector<SafetensorsEntry> tensors) {
  const auto element_size = [](const SafetensorsEntry& entry) { return c10::elementSize(entry.type.value()); };
  std::ranges::sort(tensors, {}, &SafetensorsEntry::name);
  const auto twice = std::ranges::adjacent_find(tensors, {}, &SafetensorsEntry::name);
  if (twice != tensors.end()) throw std::invalid_argument("two tensors have the name \"" + twice->name + "\"");
  std::ranges::stable_sort(tensors, std::greater(), element_size);
  uint64_t offset = 0;
  for (auto& entry : tensors) {
    const auto bytes = byte_count(entry.shape, entry.type.value());
    if (!bytes) throw std::invalid_argument("tensor \"" + entry.name + "\" cannot be saved: it is too large");
    entry.begin = offset;
    entry.end = offset += static_cast<uint64_t>(*bytes);
  }
  SafetensorsLayout layout{.beginning = beginning_of(tensors), .entries = std::move(tensors)};
  for (auto& entry : layout.entries) {
    entry.begin += layout.beginning.size();
    entry.end += layout.beginning.size();
  }
  return layout;
}

FileDigest write_safetensors(const std::filesystem::path& file, const TensorDict& tensors) {
  std::vector<SafetensorsEntry> forms;
  for (const auto& [name, tensor] : tensors) forms.push_back(safetensors_form(name, tensor));
  const auto layout = safetensors_layout(std::move(forms));
  DurableFile out(file);
  out.write(layout.beginning.data(), layout.beginning.size());
  for (const auto& entry : layout.entries) {
    const auto dense = to_dense_host(tensors.at(entry.name)).contiguous();
    out.write(dense.const_data_ptr(), dense.nbytes());
  }
  return out.finish();
}

TensorDict read_safetensors(const std::filesystem::path& file) {
  Reader reader(file);
  TensorDict tensors;
  for (const auto& entry : reader.header()) tensors[entry.name] = reader.tensor(entry);
  return tensors;
}

std::vector<SafetensorsEntry> read_safetensors_header(const std::filesystem::path& file) {
  return Reader(file).header();
}

}  // namespace ddprun
