// SPDX-License-Identifier: MIT
#include "report/json_lines.h"

#include "report/line_reader.h"

namespace ddprun {
namespace {

class BrokenLines {
 public:
  void add(const LineReader& reader) {
    if (reader.line().empty() && !reader.too_long()) return;  // an empty line is no loss
    if (++count_ == 1) first_ = reader.number();
    torn_ = !reader.ended();
  }

  void tell(const std::string& file, std::vector<std::string>& problems) const {
    if (count_ == 0 || (count_ == 1 && torn_)) return;
    problems.push_back(file + ":" + std::to_string(first_) + ": not a JSON object; left out" +
                       (count_ > 1 ? ", with " + std::to_string(count_ - 1) + " more" : ""));
  }

 private:
  int64_t count_ = 0, first_ = 0;
  bool torn_ = false;
};

}  // namespace

bool read_json_lines(const std::filesystem::path& file, std::string_view key, std::vector<std::string>& problems,
                     const std::function<void(const FlatObject& object, uint64_t offset)>& visit) {
  LineReader reader(file);
  if (!reader.open()) return false;
  BrokenLines broken;
  while (reader.next()) {
    const auto object = FlatObject::parse(reader.line());
    if (object && !object->text(key).empty()) {
      visit(*object, reader.offset());
    } else {
      broken.add(reader);
    }
  }
  broken.tell(file.filename().string(), problems);
  return true;
}

}  // namespace ddprun
