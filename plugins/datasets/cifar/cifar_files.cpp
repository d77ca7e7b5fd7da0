// SPDX-License-Identifier: MIT
#include "cifar_files.h"

#include "python_pickle.h"
#include "tar_reader.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace ddprun::cifar {
namespace {

using Path = std::filesystem::path;

constexpr int64_t kMostTextBytes = 1 << 16;
constexpr int64_t kMostOtherBytes = 1 << 28;  // for a member that is not read
constexpr int kMostMembers = 1000;

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
    if (bytes > kMostTextBytes) refuse(place, "holds " + std::to_string(bytes) + " bytes, too many for class names");
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

// Returns the name below the archive's one folder; empty for the folder itself.
std::string name_in_folder(const TarReader& tar, const std::string& folder) {
  const auto name = tar.name();
  if (tar.is_folder() && (name == folder || name == folder + "/" || name.empty())) return "";
  const auto rest = name.starts_with(folder + "/") ? name.substr(folder.size() + 1) : "";
  if (rest.empty() || rest.find("..") != std::string::npos) {
    tar.refuse("has a member " + name + ", expected all below " + folder + "/; download the archive again");
  }
  if (!tar.is_file() && !tar.is_folder()) {
    tar.refuse("has a member " + name + " that is a link or a device, expected files; download the archive again");
  }
  return rest;
}

void read_member(TarReader& tar, const Path& archive, const std::string& name, const CifarTable& table,
                 CifarFiles& files) {
  const auto place = archive.string() + ": " + tar.name();
  if (tar.is_folder()) refuse(place, "is a folder, expected a file; download the archive again");
  if (files.contains(name)) refuse(place, "is there twice; download the archive again");
  check_size(place, name, tar.size(), table);
  CifarFile file{place, std::vector<uint8_t>(static_cast<size_t>(tar.size()))};
  tar.read(file.bytes);
  files[name] = std::move(file);
}

CifarFiles read_archive(const Path& path, const CifarTable& table) {
  TarReader tar(path);
  const auto names = wanted(table);
  CifarFiles files;
  for (int members = 0; tar.next(); ++members) {
    const auto name = name_in_folder(tar, table.folder);
    if (members > kMostMembers || tar.size() > kMostOtherBytes) {
      tar.refuse("has a member " + tar.name() + " of " + std::to_string(tar.size()) + " bytes, the " +
                 std::to_string(members + 1) + "th: it is not an archive of this data set; download it again");
    }
    if (std::ranges::find(names, name) != names.end()) read_member(tar, path, name, table, files);
  }
  for (const auto& name : names) {
    if (!files.contains(name)) tar.refuse("lacks " + table.folder + "/" + name + "; download the archive again");
  }
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
