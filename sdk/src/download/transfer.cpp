// SPDX-License-Identifier: MIT
#include "transfer.h"

#include "curl_handle.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <curl/curl.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace ddprun {
namespace {

using Kind = TransferResult::Kind;

class Transfer {
 public:
  Transfer(const std::filesystem::path& path, const DownloadLimits& limits,
           const std::function<void(int64_t, int64_t)>& progress)
      : path_(path), limits_(limits), progress_(progress) {
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file_ < 0) throw_file_error("write", path, errno);
    struct stat status {};
    if (fstat(file_, &status) == 0) offset_ = status.st_size;
  }
  ~Transfer() { close(file_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  TransferResult run(const std::string& url) {
    set_up(url);
    const CURLcode code = curl_.perform();
    if (thrown_) std::rethrow_exception(thrown_);
    if (write_error_) throw_file_error("write", path_, write_error_);
    return judge(code);
  }

 private:
  void set_up(const std::string& url) {
    curl_.begin(url, static_cast<long>(limits_.connect_seconds));
    curl_.set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_.set(CURLOPT_FOLLOWLOCATION, 1L);
    curl_.set(CURLOPT_MAXREDIRS, 5L);
    curl_.set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_.set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(limits_.stall_seconds));
    curl_.set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(offset_));
    curl_.set(CURLOPT_WRITEFUNCTION, &Transfer::on_bytes);
    curl_.set(CURLOPT_WRITEDATA, this);
    curl_.set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    curl_.set(CURLOPT_XFERINFODATA, this);
    const char* certificates = std::getenv("SSL_CERT_FILE");  // otherwise the place that libcurl was built with
    if (certificates && *certificates) curl_.set(CURLOPT_CAINFO, certificates);
  }

  TransferResult judge(CURLcode code) const {
    if (too_long_) {
      return {Kind::kFailed, "sends more than " + std::to_string(limits_.most_bytes) + " bytes: not the file"};
    }
    if (code == CURLE_RANGE_ERROR) return {Kind::kNoResume, "sends whole files only"};
    if (code == CURLE_OK) {
      // 416 means that there is nothing beyond the bytes we have.
      const long status = curl_.status();
      const bool complete = status == 200 || status == 206 || (status == 416 && offset_ > 0);
      if (complete) return {Kind::kComplete, ""};
      return {Kind::kFailed, "HTTP " + std::to_string(status)};
    }
    return {received_ > 0 ? Kind::kCutOff : Kind::kFailed, curl_.problem(code)};
  }

  // libcurl calls this from C: it must not throw.
  static size_t on_bytes(const char* bytes, size_t, size_t count, void* self) {
    return static_cast<Transfer*>(self)->append(bytes, count);
  }

  size_t append(const char* bytes, size_t count) {
    if (const long status = curl_.status(); status != 200 && status != 206)
      return count;  // skip the text of an error page
    too_long_ = offset_ + received_ + static_cast<int64_t>(count) > limits_.most_bytes;
    if (too_long_) return 0;
    std::string_view left(bytes, count);
    if (!write_all(file_, left)) {
      write_error_ = errno;
      return 0;
    }
    received_ += static_cast<int64_t>(count);
    return count;
  }

  static int on_progress(void* self, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
    auto& transfer = *static_cast<Transfer*>(self);
    try {
      transfer.progress_(transfer.offset_ + transfer.received_, total > 0 ? transfer.offset_ + total : 0);
      return 0;
    } catch (...) {
      transfer.thrown_ = std::current_exception();
      return 1;
    }
  }

  const std::filesystem::path& path_;
  const DownloadLimits& limits_;
  const std::function<void(int64_t, int64_t)>& progress_;
  CurlHandle curl_;
  int file_ = -1;
  int64_t offset_ = 0;    // bytes in the file before this request
  int64_t received_ = 0;  // by this request
  int write_error_ = 0;
  bool too_long_ = false;
  std::exception_ptr thrown_;
};

}  // namespace

TransferResult transfer(const std::string& url, const std::filesystem::path& file, const DownloadLimits& limits,
                        const std::function<void(int64_t, int64_t)>& progress) {
  return Transfer(file, limits, progress).run(url);
}

std::string address(const std::string& mirror, const std::string& name) {
  return mirror + (mirror.ends_with('/') ? "" : "/") + name;
}

}  // namespace ddprun
