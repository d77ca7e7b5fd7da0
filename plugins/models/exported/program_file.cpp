// SPDX-License-Identifier: MIT
#include "program_file.h"

#include "strict_json.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/util/StringUtil.h>
#include <caffe2/serialize/inline_container.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>
#include <vector>

namespace ddprun::exported {
namespace {

constexpr int64_t kSchema = 8;              // major version of torch's export schema that this program reads
constexpr size_t kMostDepth = 64;           // of the JSON: blocks of a program nest 4 levels each
constexpr auto kWeights = "data/weights/";  // what Python calls the state_dict()
constexpr auto kWriter = "tools/export_model (ddprun-export-model) writes one";

[[noreturn]] void damaged(const std::string& what) { throw UserError("it is damaged: " + what + "; export it again"); }

// Returns what another kind of file is and who reads it, as far as its first bytes show.
std::string other_kind(const std::filesystem::path& file) {
  std::array<char, 2> begin{};
  std::ifstream(file, std::ios::binary).read(begin.data(), begin.size());
  const bool is_zip = begin[0] == 'P' && begin[1] == 'K';
  if (!is_zip) return "it is not an archive of torch.export, or its end is missing";
  return "it is a damaged archive, or its end is missing";
}

std::unique_ptr<caffe2::serialize::PyTorchStreamReader> open(const std::filesystem::path& file) try {
  return std::make_unique<caffe2::serialize::PyTorchStreamReader>(file.string());
} catch (const c10::Error&) {
  throw UserError(c10::str(other_kind(file), ": ", kWriter));
}

// Returns what a call makes of JSON; what is missing or of another type is damage.
template <class Make>
auto read_as(const std::string& record, const Make& make) try {
  return make();
} catch (const nlohmann::json::exception& error) {
  damaged(record + ": " + error.what());
}

std::vector<int64_t> numbers(const nlohmann::json& list) {
  std::vector<int64_t> result;
  for (const auto& one : list) result.push_back(one.at("as_int").get<int64_t>());
  return result;
}

// Returns whether the tensor lies in a storage of this many bytes; false, too, where a product would overflow.
bool lies_in(size_t bytes, size_t bytes_of_one, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
             int64_t offset) {
  if (sizes.size() != strides.size() || offset < 0) return false;
  int64_t last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = sizes[i], stride = strides[i];
    if (size < 0 || stride < 0) return false;
    if (size == 0) return true;
    int64_t reach = 0;
    if (__builtin_mul_overflow(size - 1, stride, &reach) || __builtin_add_overflow(last, reach, &last)) return false;
  }
  return static_cast<size_t>(last) < bytes / bytes_of_one;
}

// Returns the SHA-256 of all names and numbers, in the order of the names, as tools/lib/export_model/archive.py does.
std::string digest_of(const std::map<std::string, Weight>& tensors) {
  Sha256 sha;
  for (const auto& [name, weight] : tensors) {
    const auto dense = weight.tensor.detach().contiguous();
    sha.update(name.data(), name.size());
    sha.update(dense.const_data_ptr(), dense.nbytes());
  }
  return sha.hex();
}

}  // namespace

// The file's pages, shared with all that read it; those that are written to become this process' own.
class Archive::Mapping {
 public:
  explicit Mapping(const std::filesystem::path& file) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd >= 0 && ::fstat(fd, &status) == 0) {
      size_ = static_cast<size_t>(status.st_size);
      bytes_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    }
    const int problem = errno;
    if (fd >= 0) ::close(fd);
    if (bytes_ == MAP_FAILED) throw UserError(c10::str("it cannot be mapped into memory: ", std::strerror(problem)));
  }
  ~Mapping() { ::munmap(bytes_, size_); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Returns the bytes at an offset of the file, or null if so many are not there.
  uint8_t* at(size_t offset, size_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset ? static_cast<uint8_t*>(bytes_) + offset : nullptr;
  }

 private:
  void* bytes_ = MAP_FAILED;
  size_t size_ = 0;
};

Archive::Archive(const std::filesystem::path& file) try : file_(file), reader_(open(file)) {
  if (!has("archive_format") || text("archive_format") != "pt2") {
    throw UserError(
        has("constants.pkl")
            ? c10::str("it is TorchScript, not an archive of torch.export: ", kWriter, " from the module in Python")
            : c10::str("it is no archive of torch.export (torch.save() writes weights alone): ", kWriter));
  }
  if (has("byteorder") && text("byteorder") != "little") throw UserError("it was written on a big-endian machine");
  find_name();
  find_programs();
  find_tensors(kWeights, "_weights_config.json");
  find_tensors("data/constants/", "_constants_config.json");
  if (has("extra/ddprun.json")) read_about();
} catch (const c10::Error&) {
  damaged("the list of its parts cannot be read");
}

Archive::~Archive() = default;
Archive::Archive(Archive&&) noexcept = default;
Archive& Archive::operator=(Archive&&) noexcept = default;

void Archive::find_name() {
  for (const auto& record : reader_->getAllRecords()) {
    if (!record.starts_with("models/") || !record.ends_with(".json")) continue;
    if (!name_.empty()) throw UserError(c10::str("it holds several programs: expected one; ", kWriter));
    name_ = record.substr(7, record.size() - 12);
  }
  if (name_.empty()) throw UserError(c10::str("it holds no exported program: ", kWriter));
}

// The main one is what torch.export.load() gives: of what `ddprun export` wrote, with train.json, it is for
// predictions.
void Archive::find_programs() {
  const auto main = "models/" + name_ + ".json";
  const auto evaluates = has("extra/eval.json");
  if (!has("extra/train.json")) {
    training_ = program(main);
    if (evaluates) evaluation_ = program("extra/eval.json");
    if (has("extra/predict.json")) prediction_ = program("extra/predict.json");
    return;
  }
  training_ = program("extra/train.json");
  evaluation_ = program(evaluates ? "extra/eval.json" : main);
  if (evaluates) prediction_ = program(main);
}

void Archive::read_about() {
  const auto about = json("extra/ddprun.json", 8);
  read_as("extra/ddprun.json", [&] {
    digest_ = about.value("sha256", "");
    results_ = result_forms(about);
    has_network_ = about.value("network", false);
    const auto target = about.value("target", nlohmann::json());
    if (target.is_string()) target_ = target.get<std::string>();  // `ddprun export` notes there the form of targets
    return true;
  });
}

bool Archive::has(const std::string& record) const { return reader_->hasRecord(record); }

std::string Archive::text(const std::string& record) const try {
  const auto [data, size] = reader_->getRecord(record);
  return {static_cast<const char*>(data.get()), size};
} catch (const c10::Error&) {
  damaged("its part " + record + " cannot be read");
}

nlohmann::json Archive::json(const std::string& record, size_t most_depth) const try {
  return parse_strict_json(text(record), most_depth);
} catch (const UserError&) {
  throw;
} catch (const std::exception& error) {
  damaged(record + ": " + error.what());
}

nlohmann::json Archive::program(const std::string& record) const {
  auto whole = json(record, kMostDepth);
  return read_as(record, [&] {
    const auto major = whole.at("schema_version").at("major").get<int64_t>();
    if (major != kSchema) {
      const auto by = whole.value("torch_version", "of another version");
      throw UserError(c10::str("it was exported by torch ", by, " in schema ", major,
                               ", and this program reads schema ", kSchema,
                               ": export it with the torch that ddprun runs with"));
    }
    return nlohmann::json(std::move(whole.at("graph_module")));
  });
}

void Archive::find_tensors(const std::string& folder, const std::string& config) {
  const auto record = folder + name_ + config;
  if (!has(record)) return;
  const auto list = json(record, kMostDepth);
  read_as(record, [&] {
    for (const auto& [name, payload] : list.at("config").items()) {
      if (payload.at("use_pickle").get<bool>())
        throw UserError(name + " is not a plain tensor: expected plain ones alone");
      const auto& entry = entries_[name] = entry_of(folder, payload);
      const auto& place = entry.place;
      if (!has(place.record)) damaged("the numbers of " + name + " are missing");
      const auto bytes = reader_->getRecordSize(place.record);
      if (!lies_in(bytes, c10::elementSize(place.type), place.sizes, place.strides, place.offset))
        damaged("the numbers of " + name + " are not all there");
    }
    return true;
  });
}

Archive::Entry Archive::entry_of(const std::string& folder, const nlohmann::json& payload) {
  const auto& meta = payload.at("tensor_meta");
  const auto type = scalar_type_of(meta.at("dtype").get<int64_t>());
  const bool is_parameter = payload.at("is_param").get<bool>();
  const bool has_gradients = at::isFloatingType(type) || at::isComplexType(type);
  return {.place = {.record = folder + payload.at("path_name").get<std::string>(),
                    .type = type,
                    .sizes = numbers(meta.at("sizes")),
                    .strides = numbers(meta.at("strides")),
                    .offset = meta.at("storage_offset").at("as_int").get<int64_t>()},
          .is_parameter = is_parameter,
          .is_state = folder == kWeights,
          .requires_grad = is_parameter && has_gradients && meta.at("requires_grad").get<bool>()};
}

at::Tensor Archive::read(const Entry& entry) const try {
  auto [data, bytes] = reader_->getRecord(entry.place.record);
  auto tensor = at::empty({0}, at::TensorOptions(entry.place.type));
  tensor.set_(c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data)), entry.place.offset,
              entry.place.sizes, entry.place.strides);
  if (entry.requires_grad) tensor.set_requires_grad(true);
  return tensor;
} catch (const c10::OutOfMemoryError&) {
  throw;
} catch (const c10::Error&) {
  damaged("its part " + entry.place.record + " cannot be read");
}

// Its numbers lie in the file as they lie in memory, at a multiple of 64 bytes; the digest of all says whether they do.
at::Tensor Archive::mapped(const Entry& entry, const std::shared_ptr<const Mapping>& mapping) const try {
  const auto& place = entry.place;
  auto* bytes = mapping->at(reader_->getRecordOffset(place.record), reader_->getRecordSize(place.record));
  if (!bytes) damaged("its part " + place.record + " is not all there");
  auto* numbers = bytes + static_cast<size_t>(place.offset) * c10::elementSize(place.type);
  return at::from_blob(numbers, place.sizes, place.strides, [mapping](void*) {}, at::TensorOptions(place.type));
} catch (const c10::Error&) {
  damaged("its part " + entry.place.record + " cannot be read");
}

std::map<std::string, Weight> Archive::tensors(Fixed fixed) const {
  if (fixed == Fixed::kMapped && digest_.empty())
    throw UserError("an earlier version wrote it without a digest, so it cannot be mapped; export it again");
  const auto mapping = fixed == Fixed::kMapped ? std::make_shared<const Mapping>(file_) : nullptr;
  std::set<Place> changing;
  for (const auto& [name, entry] : entries_)
    if (entry.requires_grad || !entry.is_parameter) changing.insert(entry.place);
  std::map<std::string, Weight> tensors;
  std::map<Place, at::Tensor> read_already;
  for (const auto& [name, entry] : entries_) {
    auto& tensor = read_already[entry.place];
    if (!tensor.defined()) tensor = mapping && !changing.contains(entry.place) ? mapped(entry, mapping) : read(entry);
    tensors[name] = {.tensor = tensor, .is_parameter = entry.is_parameter, .is_state = entry.is_state};
  }
  if (!digest_.empty() && digest_of(tensors) != digest_) damaged("its weights are not those that were written");
  return tensors;
}

at::ScalarType scalar_type_of(int64_t number) {
  static const std::map<int64_t, at::ScalarType> kTypes{{1, at::kByte},
                                                        {2, at::kChar},
                                                        {3, at::kShort},
                                                        {4, at::kInt},
                                                        {5, at::kLong},
                                                        {6, at::kHalf},
                                                        {7, at::kFloat},
                                                        {8, at::kDouble},
                                                        {9, at::kComplexHalf},
                                                        {10, at::kComplexFloat},
                                                        {11, at::kComplexDouble},
                                                        {12, at::kBool},
                                                        {13, at::kBFloat16},
                                                        {28, at::kUInt16},
                                                        {29, at::kFloat8_e4m3fn},
                                                        {30, at::kFloat8_e5m2},
                                                        {31, at::kFloat8_e4m3fnuz},
                                                        {32, at::kFloat8_e5m2fnuz}};
  const auto found = kTypes.find(number);
  if (found == kTypes.end()) throw UserError(c10::str("its type of number ", number, " is unknown here"));
  return found->second;
}

at::MemoryFormat memory_format_of(int64_t number) {
  constexpr std::array kFormats{at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast,
                                at::MemoryFormat::ChannelsLast3d, at::MemoryFormat::Preserve};
  if (number < 1 || number > 4) throw UserError(c10::str("its memory format ", number, " is unknown here"));
  return kFormats.at(static_cast<size_t>(number - 1));
}

at::Layout layout_of(int64_t number) {
  constexpr std::array kLayouts{at::kSparse,    at::kSparseCsr, at::kSparseCsc, at::kSparseBsr,
                                at::kSparseBsc, at::kMkldnn,    at::kStrided};
  if (number < 1 || number > 7) throw UserError(c10::str("its layout ", number, " is unknown here"));
  return kLayouts.at(static_cast<size_t>(number - 1));
}

}  // namespace ddprun::exported
