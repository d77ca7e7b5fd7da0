// SPDX-License-Identifier: MIT
#include "shard_members.h"

#include "shown_text.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace ddprun::images {
namespace {

constexpr std::array<std::string_view, 6> kPictures{"jpg", "jpeg", "jpe", "jfif", "png", "webp"};
constexpr std::string_view kClass = "cls";
constexpr size_t kMostReasons = 12, kMostExamples = 3;
constexpr auto kHidden = "hidden", kNoFiles = "links, devices and pipes", kOthers = "of other endings";

bool is_picture_ending(std::string_view ending) { return std::ranges::find(kPictures, ending) != kPictures.end(); }

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// A member that is no folder.
struct Member {
  std::string name, key, ending;  // the ending in lower case; without a key it is hidden, or has none
  uint64_t offset = 0, bytes = 0;

  explicit Member(std::string full) : name(std::move(full)) {
    const auto slash = name.rfind('/') + 1;  // 0 if there is none
    const auto dot = name.find('.', slash);
    if (dot == std::string::npos || dot == slash) return;  // as webdataset does
    key = name.substr(0, dot);
    ending = lower_case(std::string_view(name).substr(dot + 1));
  }

  bool is_used() const { return ending == kClass || is_picture_ending(ending); }

  // Returns what follows its last dot, if it has several: "cls" of "7.big.cls".
  std::string_view last_ending() const {
    const auto dot = ending.rfind('.');
    return dot == std::string::npos ? std::string_view() : std::string_view(ending).substr(dot + 1);
  }
};

// Counts the members that are part of no sample, by the reason.
class Rest {
 public:
  void add(const Member& member, std::string reason) {
    if (!found_.contains(reason) && found_.size() >= kMostReasons) reason = kOthers;
    auto& [name, count, examples] = found_[reason];
    name = reason;
    ++count;
    if (examples.size() < kMostExamples) examples.push_back(member.name);
  }

  std::vector<LeftAlone> take() {
    std::vector<LeftAlone> list;
    for (auto& [reason, one] : found_) list.push_back(std::move(one));
    return list;
  }

 private:
  std::map<std::string, LeftAlone> found_;
};

// Collects members into an index.
class Indexer {
 public:
  explicit Indexer(const MappedFile& shard) : shard_(shard) {}

  // Takes a member that lies at its offset.
  void add(const Member& member) {
    if (member.key.empty()) return rest_.add(member, is_hidden(member) ? kHidden : "without an ending");
    enter(member);
    if (!member.is_used()) return add_other(member);
    if (member.ending == kClass) {
      const auto number = class_number(shard_, member.name, shard_.text().substr(member.offset, member.bytes));
      take(key_.label, number, member);
      key_.class_offset = static_cast<int64_t>(member.offset);
    } else {
      take(key_.offset, static_cast<int64_t>(member.offset), member);
      key_.bytes = static_cast<int64_t>(member.bytes);
    }
    places_.emplace(member.name, std::pair(member.offset, member.bytes));
  }

  void add_link(Member member, const std::string& target) {
    if (!member.is_used()) return rest_.add(member, kNoFiles);
    const auto place = places_.find(target);
    if (place == places_.end())
      shard_.refuse(member.name + " is a hard link to " + target +
                    ", which does not come before it; pack the files again");
    std::tie(member.offset, member.bytes) = place->second;
    add(member);
  }

  void add_no_file(const Member& member) {
    if (member.is_used())
      shard_.refuse(member.name + " is a link, a device or a pipe, expected a file; pack with tar --dereference");
    rest_.add(member, kNoFiles);
  }

  ShardIndex finish() {
    end_key();
    if (index_.label.empty())
      shard_.refuse("it has no sample: expected pairs of KEY.jpg, .jpeg, .png or .webp, and KEY.cls");
    index_.left_alone = rest_.take();
    return std::move(index_);
  }

 private:
  // The members of one key, which come one after the other.
  struct Key {
    std::string name;
    std::optional<int64_t> offset, label;
    int64_t bytes = 0, class_offset = 0;
    std::string endings = {};  // of its other members
    std::string dotted = {};   // a picture whose name has more dots
  };

  static bool is_hidden(const Member& member) { return member.name[member.name.rfind('/') + 1] == '.'; }

  void enter(const Member& member) {
    if (member.key == key_.name) return;
    end_key();
    key_ = {.name = member.key, .offset = {}, .label = {}};
  }

  void add_other(const Member& member) {
    if (member.last_ending() == kClass) refuse_dots(member.name);
    if (is_picture_ending(member.last_ending()) && key_.dotted.empty()) key_.dotted = member.name;
    if (key_.endings.size() < 100) key_.endings += (key_.endings.empty() ? "." : ", .") + member.ending;
    rest_.add(member, "ending in ." + member.ending);
  }

  [[noreturn]] void refuse_dots(const std::string& member) const {
    shard_.refuse(member + ": its key is " + key_.name +
                  ", since a key ends at the first dot of a name, as WebDataset reads it; so it belongs to no sample. "
                  "Rename it without a dot in the key");
  }

  void take(std::optional<int64_t>& place, int64_t value, const Member& member) const {
    if (place) shard_.refuse(member.name + ": a second one of its kind for the key " + key_.name);
    place = value;
  }

  void end_key() {
    if (!key_.offset && !key_.dotted.empty()) refuse_dots(key_.dotted);
    if (!key_.offset && !key_.label) return;
    if (!key_.offset)
      shard_.refuse("the key " + key_.name + " has a class and no picture beside it" +
                    (key_.endings.empty() ? "" : ", but " + key_.endings + "; expected .jpg, .jpeg, .png or .webp"));
    if (!key_.label)
      shard_.refuse("the key " + key_.name + " has a picture and no " + key_.name +
                    ".cls beside it; the members of a key lie one after the other, as tar --sort=name packs them");
    if (!keys_.insert(key_.name).second) shard_.refuse("the key " + key_.name + " comes twice");
    index_.offset.push_back(*key_.offset);
    index_.bytes.push_back(key_.bytes);
    index_.label.push_back(*key_.label);
    index_.class_offset.push_back(key_.class_offset);
    index_.check.push_back(
        members_check(shard_, static_cast<uint64_t>(*key_.offset), static_cast<uint64_t>(key_.class_offset)));
  }

  const MappedFile& shard_;
  Key key_;
  std::set<std::string> keys_;
  std::unordered_map<std::string, std::pair<uint64_t, uint64_t>> places_;  // of what a hard link may point to
  Rest rest_;
  ShardIndex index_;
};

[[noreturn]] void cut_short(const MappedFile& shard, const std::string& where) {
  shard.refuse("it is cut short" + where + "; copy it again");
}

// A tar ends with two blocks of zeros. Where a copy was broken off between two members, nothing else shows it.
void require_end(const MappedFile& shard) {
  const auto text = shard.text();
  const bool whole = text.size() >= 2 * kTarBlock &&
                     text.substr(text.size() - 2 * kTarBlock).find_first_not_of('\0') == std::string_view::npos;
  if (!whole) cut_short(shard, ", or has something behind its end: no two blocks of zeros end it");
}

// Returns the number in the size field of a header: octal digits, or binary behind a set bit.
std::optional<uint64_t> size_in(std::string_view field) {
  uint64_t number = 0;
  if (static_cast<unsigned char>(field[0]) & 0x80) {
    for (const char byte : field.substr(4)) number = number << 8 | static_cast<unsigned char>(byte);
    return number;
  }
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number, 8);
  if (error != std::errc()) return std::nullopt;
  return number;
}

// Refuses a member whose bytes are not those of the file: what the index points to must lie whole behind its header.
void require_in_place(const MappedFile& shard, const Member& member, bool is_sparse) {
  const auto rest = member.offset < kTarBlock || member.offset > shard.size ? 0 : shard.size - member.offset;
  const auto blocks = member.bytes / kTarBlock + (member.bytes % kTarBlock != 0);
  if (blocks > rest / kTarBlock) cut_short(shard, " in " + member.name);
  constexpr size_t kSizeAt = 124, kSizeBytes = 12, kTypeAt = 156;
  constexpr std::string_view kPlain(
      "0\0"
      "7",
      3);
  const auto header = shard.text().substr(member.offset - kTarBlock, kTarBlock);
  const bool plain = kPlain.find(header[kTypeAt]) != std::string_view::npos &&
                     size_in(header.substr(kSizeAt, kSizeBytes)) == member.bytes;
  if (plain && !is_sparse) return;
  shard.refuse(member.name +
               " does not lie in one piece: it is stored as a sparse file. Pack the files again, without "
               "tar --sparse (-S)");
}

std::string name_of(const MappedFile& shard, archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (!name) name = archive_entry_pathname_utf8(entry);
  if (!name) shard.refuse("has a member whose name is not text");
  return name;
}

void add(Indexer& indexer, const MappedFile& shard, archive* reader, archive_entry* entry) {
  Member member(name_of(shard, entry));
  if (const char* target = archive_entry_hardlink(entry)) return indexer.add_link(std::move(member), target);
  const auto type = archive_entry_filetype(entry);
  if (type == AE_IFDIR) return;
  if (type != AE_IFREG) return indexer.add_no_file(member);
  member.offset = static_cast<uint64_t>(archive_filter_bytes(reader, 0));
  member.bytes = static_cast<uint64_t>(archive_entry_size(entry));
  if (member.is_used()) require_in_place(shard, member, archive_entry_sparse_count(entry) > 0);
  indexer.add(member);
}

}  // namespace

int64_t class_number(const MappedFile& shard, const std::string& member, std::string_view text) {
  auto digits = text.substr(0, kTarBlock);  // what members_check() covers
  const auto is_blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!digits.empty() && is_blank(digits.back())) digits.remove_suffix(1);
  while (!digits.empty() && is_blank(digits.front())) digits.remove_prefix(1);
  int64_t label = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && text.size() <= kTarBlock;
  if (!whole || label < 0 || label >= kMostClasses)
    shard.refuse(member + " holds \"" + shown(to_utf8(std::string(text.substr(0, 20)))) +
                 "\", expected the number of a class");
  return label;
}

ShardIndex read_members(const MappedFile& shard) {
  constexpr std::array<std::string_view, 4> kCompressed{"\x1f\x8b", "BZh",
                                                        "\xfd"
                                                        "7zXZ",
                                                        "\x28\xb5\x2f\xfd"};
  if (std::ranges::any_of(kCompressed, [&](std::string_view start) { return shard.text().starts_with(start); }))
    shard.refuse("it is compressed; unpack it: samples are read in any order");
  const std::unique_ptr<archive, int (*)(archive*)> reader(archive_read_new(), archive_read_free);
  if (!reader || archive_read_support_format_tar(reader.get()) != ARCHIVE_OK ||
      archive_read_set_option(reader.get(), "tar", "read_concatenated_archives", "1") != ARCHIVE_OK)
    throw std::runtime_error("libarchive cannot start");
  if (archive_read_open_memory(reader.get(), shard.bytes.get(), shard.size) != ARCHIVE_OK) shard.refuse("is not a tar");
  Indexer indexer(shard);
  for (archive_entry* entry = nullptr;;) {
    const int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) {  // a warning is of a name that the locale cannot show
      require_end(shard);
      const char* flaw = archive_error_string(reader.get());
      shard.refuse("is not a tar, or a damaged one" + (flaw ? ": " + std::string(flaw) : ""));
    }
    add(indexer, shard, reader.get(), entry);
  }
  require_end(shard);
  return indexer.finish();
}

}  // namespace ddprun::images
