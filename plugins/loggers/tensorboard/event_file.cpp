// SPDX-License-Identifier: MIT
#include "event_file.h"

#include <boost/crc.hpp>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <string>

namespace ddprun::tensorboard {
namespace {

// Fields of Event.
enum { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };

template <class Number>
std::string raw(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

// Computes CRC-32C, masked so that data that contain checksums can be checksummed again.
std::string checksum(const std::string& content) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(content.data(), content.size());
  const uint32_t sum = crc.checksum();
  return raw((sum >> 15 | sum << 17) + 0xA282EAD8U);
}

std::string file_name(double time) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld", static_cast<long long>(time));
  return "events.out.tfevents." + std::string(seconds.data()) + "." + host.data() + "." + std::to_string(::getpid());
}

// Frames a record: length, its checksum, the content, its checksum (tensorboard/summary/writer/record_writer.py).
std::string framed(const std::string& content) {
  const auto length = raw(static_cast<uint64_t>(content.size()));
  return length + checksum(length) + content + checksum(content);
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder, double time) {
  auto name = file_name(time);
  for (int copy = 1; !file_.open(folder / name, /*is_new=*/true); ++copy) {
    name = file_name(time) + "." + std::to_string(copy);
  }
  file_.append(framed(Message().real(kWallTime, time).bytes(kFileVersion, "brain.Event:2").str()));
}

void EventFile::write(double time, int64_t step, const Message& summary) {
  file_.append(framed(Message().real(kWallTime, time).integer(kStep, step).message(kSummary, summary).str()));
}

}  // namespace ddprun::tensorboard
