// SPDX-License-Identifier: MIT
#include "checkpoint/safetensors.h"

#include <ATen/Functions.h>
#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "checkpoint/strict_json.h"

namespace ddprun {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they lie in memory");

using nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr auto kMetadata = "__metadata__";

// What the header says of one tensor.
struct Entry {
  std::string name;
  at::ScalarType dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// ---- writing

// The largest elements first: each tensor then begins at a multiple of its element's size.
std::vector<TensorDict::const_iterator> in_file_order(const TensorDict& tensors) {
  std::vector<TensorDict::const_iterator> order;
  for (auto it = tensors.begin(); it != tensors.end(); ++it) {
    require_storable(it->first, it->second);
    if (it->first == kMetadata) throw std::invalid_argument("safetensors: no tensor can have the name __metadata__");
    order.push_back(it);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](auto a, auto b) { return a->second.element_size() > b->second.element_size(); });
  return order;
}

std::string header_of(const std::vector<TensorDict::const_iterator>& order) {
  json header = {{kMetadata, {{"format", "pt"}}}};
  uint64_t offset = 0;
  for (const auto& it : order) {
    const auto& [name, tensor] = *it;
    const uint64_t end = offset + tensor.numel() * tensor.element_size();
    header[name] = {
        {"dtype", *dtype_name(tensor.scalar_type())}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  auto text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kLargestHeader) throw std::invalid_argument("safetensors: the header would exceed 100 MB");
  return text;
}

// ---- reading

// One file, read once from its begin to its end.
class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : path_(path), size_(size_of_file(path)), file_(path, std::ios::binary) {
    if (!file_) throw UserError(path.string() + ": cannot open it for reading");
  }

  [[noreturn]] void refuse(const std::string& flaw) const {
    throw UserError(path_.string() + ": not a valid safetensors file: " + flaw);
  }

  void read(void* target, uint64_t bytes) {
    file_.read(static_cast<char*>(target), static_cast<std::streamsize>(bytes));
    if (static_cast<uint64_t>(file_.gcount()) != bytes) refuse("it ends early or cannot be read");
  }

  uint64_t size() const { return size_; }

 private:
  std::filesystem::path path_;
  uint64_t size_;
  std::ifstream file_;
};

std::string read_header(Reader& reader) {
  if (reader.size() < kLengthBytes) reader.refuse("it has " + std::to_string(reader.size()) + " bytes, fewer than 8");
  uint64_t length = 0;
  reader.read(&length, kLengthBytes);
  if (length > kLargestHeader) {
    reader.refuse("its header would be " + std::to_string(length) + " bytes long, the limit is 100 MB");
  }
  if (length > reader.size() - kLengthBytes) {
    reader.refuse("its header should be " + std::to_string(length) + " bytes long, the whole file has " +
                  std::to_string(reader.size()));
  }
  std::string text(length, '\0');
  reader.read(text.data(), length);
  return text;
}

uint64_t to_count(const json& value) {
  if (!value.is_number_unsigned()) throw std::runtime_error("found " + value.dump() + " instead of a count");
  return value.get<uint64_t>();
}

void check_metadata(const json& metadata) {
  const bool texts = std::all_of(metadata.begin(), metadata.end(), [](const json& value) { return value.is_string(); });
  if (!metadata.is_object() || !texts) throw std::runtime_error("__metadata__ must hold texts by name");
}

Entry parse_entry(const std::string& name, const json& info) {
  if (!info.is_object() || info.size() != 3) throw std::runtime_error("expected dtype, shape and data_offsets");
  const auto dtype_text = info.at("dtype").get<std::string>();
  const auto dtype = dtype_from_name(dtype_text);
  if (!dtype) throw std::runtime_error("unknown dtype " + dtype_text);

  Entry entry{.name = name, .dtype = *dtype};
  if (!info.at("shape").is_array()) throw std::runtime_error("its shape is no list");
  for (const auto& extent : info.at("shape")) {
    const uint64_t count = to_count(extent);
    if (count > INT64_MAX) throw std::runtime_error("its shape is beyond all bounds");
    entry.shape.push_back(static_cast<int64_t>(count));
  }
  const auto& offsets = info.at("data_offsets");
  if (!offsets.is_array() || offsets.size() != 2) throw std::runtime_error("data_offsets must be [begin, end]");
  entry.begin = to_count(offsets[0]);
  entry.end = to_count(offsets[1]);

  const auto bytes = byte_count(entry.shape, entry.dtype);
  if (!bytes) throw std::runtime_error("its shape is beyond all bounds");
  if (entry.end < entry.begin || entry.end - entry.begin != static_cast<uint64_t>(*bytes)) {
    throw std::runtime_error("its shape and dtype need " + std::to_string(*bytes) + " bytes, its data_offsets are " +
                             offsets.dump());
  }
  return entry;
}

std::vector<Entry> parse_header(const Reader& reader, const std::string& text) {
  json header;
  try {
    header = parse_strict_json(text);
  } catch (const std::exception& error) {
    reader.refuse(std::string("its header: ") + error.what());
  }
  if (!header.is_object()) reader.refuse("its header is no JSON object");
  std::vector<Entry> entries;
  for (const auto& [name, info] : header.items()) {
    try {
      if (name == kMetadata) {
        check_metadata(info);
      } else {
        entries.push_back(parse_entry(name, info));
      }
    } catch (const std::exception& error) {
      reader.refuse("\"" + name + "\": " + error.what());
    }
  }
  return entries;
}

// Sorts the entries by their place; they must fill the rest of the file without a hole.
void check_places(const Reader& reader, std::vector<Entry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  uint64_t filled = 0;
  for (const auto& entry : entries) {
    if (entry.begin != filled) {
      reader.refuse("\"" + entry.name + "\" begins at " + std::to_string(entry.begin) + ", the data before it end at " +
                    std::to_string(filled) + (entry.begin > filled ? " (a hole)" : " (an overlap)"));
    }
    filled = entry.end;
  }
  if (filled != data_bytes) {
    reader.refuse("its header describes " + std::to_string(filled) + " bytes of tensors, the file has " +
                  std::to_string(data_bytes));
  }
}

at::Tensor read_tensor(Reader& reader, const Entry& entry) {
  auto tensor = at::empty(entry.shape, at::dtype(entry.dtype));
  reader.read(tensor.data_ptr(), entry.end - entry.begin);
  if (entry.dtype == at::kBool && tensor.numel() > 0 && tensor.view(at::kByte).max().item<uint8_t>() > 1) {
    reader.refuse("\"" + entry.name + "\" holds a BOOL that is neither 0 nor 1");
  }
  return tensor;
}

}  // namespace

FileDigest write_safetensors(const std::filesystem::path& file, const TensorDict& tensors) {
  const auto order = in_file_order(tensors);
  const auto header = header_of(order);
  const uint64_t length = header.size();

  DurableFile out(file);
  out.write(&length, kLengthBytes);
  out.write(header.data(), header.size());
  for (const auto& it : order) {
    const auto dense = to_dense_host(it->second).contiguous();
    out.write(dense.const_data_ptr(), dense.nbytes());
  }
  return out.finish();
}

TensorDict read_safetensors(const std::filesystem::path& file) {
  Reader reader(file);
  const auto header = read_header(reader);
  auto entries = parse_header(reader, header);
  check_places(reader, entries, reader.size() - kLengthBytes - header.size());

  TensorDict tensors;
  for (const auto& entry : entries) tensors[entry.name] = read_tensor(reader, entry);
  return tensors;
}

}  // namespace ddprun
