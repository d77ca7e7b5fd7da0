// SPDX-License-Identifier: MIT
#include "cifar_files.h"

#include "python_pickle.h"

#include <ddprun/error.h>
#include <ddprun/gzip_file.h>

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace ddprun::cifar {
namespace {

using Path = std::filesystem::path;

constexpr int64_t kMostTextBytes = 1 << 16;
constexpr size_t kMostOtherBytes = 1 << 24;  // of an archive, for what is not read

[[noreturn]] void refuse(const std::string& place, const std::string& flaw) { throw UserError(place + ": " + flaw); }

bool is_text(const std::string& name) { return name.ends_with(".txt"); }

std::vector<std::string> wanted(const CifarTable& table) {
  auto names = table.train_files;
  names.push_back(table.test_file);
  for (const auto& kind : table.labels) names.push_back(kind.names_file);
  return names;
}

void check_size(const std::string& place, const std::string& name, int64_t bytes, const CifarTable& table) {
  if (is_text(name)) {
    if (bytes < 0 || bytes > kMostTextBytes)
      refuse(place, "holds " + std::to_string(bytes) + " bytes, too many for class names");
    return;
  }
  const int64_t record = table.record_bytes();
  if (bytes >= record && bytes % record == 0 && bytes / record <= table.most_records) return;
  refuse(place, "holds " + std::to_string(bytes) + " bytes, expected 1 to " + std::to_string(table.most_records) +
                    " records of " + std::to_string(record) +
                    " bytes: it is truncated, or not a file of this data set; replace it");
}

CifarFile read_file(const Path& path, const CifarTable& table) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) refuse(path.string(), "cannot be read: " + error.message() + "; unpack the whole archive");
  check_size(path.string(), path.filename().string(), static_cast<int64_t>(bytes), table);
  CifarFile file{path.string(), std::vector<uint8_t>(bytes)};
  std::ifstream stream(path, std::ios::binary);
  stream.read(reinterpret_cast<char*>(file.bytes.data()), static_cast<std::streamsize>(bytes));
  if (!stream) refuse(path.string(), "cannot be read");
  return file;
}

CifarFiles read_folder(const Path& folder, const CifarTable& table) {
  CifarFiles files;
  for (const auto& name : wanted(table)) files[name] = read_file(folder / name, table);
  return files;
}

// Returns the tar in a .tar.gz. zlib unpacks it, because libarchive does not check gzip's checksum.
std::vector<uint8_t> unpacked(const Path& path, size_t most) {
  constexpr size_t kPart = 1 << 16;
  if (!is_gzip(path)) refuse(path.string(), "is not a .tar.gz archive; download it again");
  GzipFile file(path);
  std::vector<uint8_t> tar;
  for (size_t got = kPart; got == kPart;) {
    const auto size = tar.size();
    if (size > most) refuse(path.string(), "holds more than this data set has; download it again");
    tar.resize(size + kPart);
    got = file.read(std::span(tar).subspan(size));
    tar.resize(size + got);
  }
  if (file.cut_off()) refuse(path.string(), "is truncated: the end of the packed file is missing; download it again");
  return tar;
}

// The members of an archive, one after the other.
class Archive {
 public:
  Archive(const Path& path, size_t most)
      : path_(path), tar_(unpacked(path, most)), reader_(archive_read_new(), archive_read_free) {
    if (!reader_ || archive_read_support_format_tar(reader_.get()) != ARCHIVE_OK)
      throw std::runtime_error("libarchive cannot start");
    if (archive_read_open_memory(reader_.get(), tar_.data(), tar_.size()) != ARCHIVE_OK)
      refuse("does not contain a tar archive");
  }

  // Goes to the next member; returns false at the end.
  bool next() {
    const int code = archive_read_next_header(reader_.get(), &entry_);
    if (code == ARCHIVE_EOF) return false;
    const char* flaw = archive_error_string(reader_.get());  // libarchive has no message for some
    if (code != ARCHIVE_OK) refuse("is a damaged tar archive" + (flaw ? " (" + std::string(flaw) + ")" : ""));
    const char* name = archive_entry_pathname(entry_);
    if (!name) refuse("has a member whose name is not text");
    name_ = std::string_view(name).starts_with("./") ? name + 2 : name;
    return true;
  }

  const std::string& name() const { return name_; }
  std::string place() const { return path_.string() + ": " + name_; }
  bool is_folder() const { return archive_entry_filetype(entry_) == AE_IFDIR; }
  int64_t size() const { return archive_entry_size(entry_); }

  // Returns the name below the archive's one folder; empty for the folder itself.
  std::string name_in_folder(const std::string& folder) const {
    if (is_folder() && (name_ == folder || name_ == folder + "/" || name_.empty())) return "";
    const auto rest = name_.starts_with(folder + "/") ? name_.substr(folder.size() + 1) : "";
    if (rest.empty() || rest.find("..") != std::string::npos)
      refuse("has a member " + name_ + ", expected all below " + folder + "/");
    const bool is_file = archive_entry_filetype(entry_) == AE_IFREG && !archive_entry_hardlink(entry_);
    if (!is_file && !is_folder()) refuse("has a member " + name_ + " that is a link or a device, expected files");
    return rest;
  }

  std::vector<uint8_t> content() {
    std::vector<uint8_t> bytes(static_cast<size_t>(size()));
    const auto got = archive_read_data(reader_.get(), bytes.data(), bytes.size());
    if (got == static_cast<la_ssize_t>(bytes.size())) return bytes;
    refuse("is truncated or damaged in " + name_ + ", of which " + std::to_string(std::max<la_ssize_t>(got, 0)) +
           " of " + std::to_string(bytes.size()) + " bytes are there");
  }

  [[noreturn]] void refuse(const std::string& flaw) const {
    cifar::refuse(path_.string(), flaw + "; download the archive again");
  }

 private:
  Path path_;
  std::vector<uint8_t> tar_;
  std::unique_ptr<archive, int (*)(archive*)> reader_;
  archive_entry* entry_ = nullptr;
  std::string name_;  // of the current member, without a leading "./"
};

CifarFiles read_archive(const Path& path, const CifarTable& table) {
  const auto names = wanted(table);
  const auto most_records = static_cast<int64_t>(table.train_files.size() + 1) * table.most_records;
  Archive tar(path, static_cast<size_t>(most_records * table.record_bytes()) + kMostOtherBytes);
  CifarFiles files;
  while (tar.next()) {
    const auto name = tar.name_in_folder(table.folder);
    if (std::ranges::find(names, name) == names.end()) continue;
    const auto place = tar.place();
    if (tar.is_folder()) refuse(place, "is a folder, expected a file; download the archive again");
    if (files.contains(name)) refuse(place, "is there twice; download the archive again");
    check_size(place, name, tar.size(), table);
    files[name] = {place, tar.content()};
  }
  for (const auto& name : names)
    if (!files.contains(name)) tar.refuse("lacks " + table.folder + "/" + name);
  return files;
}

PythonPickle read_pickle(const Path& path, const CifarTable& table) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error) refuse(path.string(), "cannot be read: " + error.message() + "; unpack the whole archive");
  const auto most = static_cast<uintmax_t>(2 * table.most_records * table.record_bytes() + kMostTextBytes);
  if (bytes > most) refuse(path.string(), "holds " + std::to_string(bytes) + " bytes, too many for this data set");
  std::string content(bytes, '\0');
  std::ifstream stream(path, std::ios::binary);
  stream.read(content.data(), static_cast<std::streamsize>(bytes));
  if (!stream) refuse(path.string(), "cannot be read");
  return {path.string(), std::move(content)};
}

// Converts a pickle's images to records of the binary form.
CifarFile records_of(const Path& path, const CifarTable& table) {
  const auto pickle = read_pickle(path, table);
  const auto pixels = pickle.bytes("data", kPixels);
  const auto images = pixels.size() / kPixels;
  const auto record = static_cast<size_t>(table.record_bytes());
  CifarFile file{path.string(), std::vector<uint8_t>(images * record)};
  for (size_t kind = 0; kind < table.labels.size(); ++kind) {
    const auto labels = pickle.numbers(table.labels[kind].python_key);
    if (labels.size() != images)
      pickle.refuse("holds " + std::to_string(images) + " images and " + std::to_string(labels.size()) + " of " +
                    table.labels[kind].python_key + "; download it again");
    for (size_t i = 0; i < images; ++i)
      file.bytes[i * record + kind] =
          static_cast<uint8_t>(0 <= labels[i] && labels[i] < 255 ? labels[i] : 255);  // none
  }
  for (size_t i = 0; i < images; ++i)
    std::memcpy(&file.bytes[i * record + table.labels.size()], &pixels[i * kPixels], kPixels);
  check_size(file.place, "", static_cast<int64_t>(file.bytes.size()), table);
  return file;
}

CifarFiles read_python_folder(const Path& folder, const CifarTable& table) {
  CifarFiles files;
  const auto& python = table.python;
  for (size_t i = 0; i < python.train_files.size(); ++i)
    files[table.train_files[i]] = records_of(folder / python.train_files[i], table);
  files[table.test_file] = records_of(folder / python.test_file, table);
  const auto names = read_pickle(folder / python.names_file, table);
  for (const auto& kind : table.labels) {
    auto& file = files[kind.names_file];
    file.place = (folder / python.names_file).string();
    for (const auto& name : names.texts(kind.python_names_key)) {
      file.bytes.insert(file.bytes.end(), name.begin(), name.end());
      file.bytes.push_back('\n');
    }
  }
  return files;
}

}  // namespace

CifarFiles read_files(const Path& path, const CifarTable& table) {
  if (std::ranges::find(table.python.train_files, path.filename().string()) != table.python.train_files.end())
    return read_python_folder(path.parent_path(), table);
  return path.extension() == ".gz" ? read_archive(path, table) : read_folder(path.parent_path(), table);
}

Images to_images(const CifarFiles& files, const std::vector<std::string>& names, const CifarTable& table, size_t kind) {
  const auto record = static_cast<size_t>(table.record_bytes());
  size_t records = 0;
  for (const auto& name : names) records += files.at(name).bytes.size() / record;
  const std::shared_ptr<uint8_t[]> pixels(new uint8_t[records * kPixels]);
  Images images{{pixels, pixels.get()}, {}};
  images.labels.reserve(records);
  for (const auto& name : names) {
    const auto& file = files.at(name);
    for (size_t at = 0; at < file.bytes.size(); at += record) {
      for (size_t i = 0; i < table.labels.size(); ++i) {
        if (file.bytes[at + i] < table.labels[i].classes) continue;
        refuse(file.place, "label " + std::to_string(file.bytes[at + i]) + " of image " + std::to_string(at / record) +
                               ", expected 0 to " + std::to_string(table.labels[i].classes - 1) + "; replace the file");
      }
      std::memcpy(pixels.get() + images.labels.size() * kPixels, file.bytes.data() + at + table.labels.size(), kPixels);
      images.labels.push_back(file.bytes[at + kind]);
    }
  }
  return images;
}

std::vector<std::string> class_names(const CifarFiles& files, const LabelKind& kind) {
  const auto& file = files.at(kind.names_file);
  std::istringstream text(std::string(file.bytes.begin(), file.bytes.end()));
  std::vector<std::string> names;
  for (std::string line; std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<int64_t>(names.size()) == kind.classes) return names;
  refuse(file.place, "names " + std::to_string(names.size()) + " classes, expected " + std::to_string(kind.classes) +
                         ", one per line; replace the file");
}

}  // namespace ddprun::cifar
