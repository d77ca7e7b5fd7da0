// SPDX-License-Identifier: MIT
#include "transfer.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <curl/curl.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>

namespace ddprun::remote {
namespace {

using Kind = TransferResult::Kind;

class Transfer {
 public:
  Transfer(const std::filesystem::path& path, const DownloadLimits& limits,
           const std::function<void(int64_t, int64_t)>& progress)
      : path_(path), limits_(limits), progress_(progress), curl_(curl_easy_init(), curl_easy_cleanup) {
    file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file_ < 0) throw UserError(path.string() + ": cannot be written: " + std::strerror(errno));
    struct stat status {};
    if (fstat(file_, &status) == 0) offset_ = status.st_size;
  }
  ~Transfer() { close(file_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  TransferResult run(const std::string& url) {
    if (!curl_) throw std::runtime_error("libcurl cannot start");
    set_up(url);
    const CURLcode code = curl_easy_perform(curl_.get());
    if (thrown_) std::rethrow_exception(thrown_);
    if (write_error_) throw UserError(path_.string() + ": cannot be written: " + std::strerror(write_error_));
    return judge(code);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    const auto code = curl_easy_setopt(curl_.get(), option, value);
    if (code != CURLE_OK) throw std::runtime_error(std::string("libcurl: ") + curl_easy_strerror(code));
  }

  void set_up(const std::string& url) {
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_USERAGENT, "ddprun/" DDPRUN_VERSION);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, 5L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(limits_.connect_seconds));
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(limits_.stall_seconds));
    set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(offset_));
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_bytes);
    set(CURLOPT_WRITEDATA, this);
    set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
    set(CURLOPT_XFERINFODATA, this);
    set(CURLOPT_NOPROGRESS, 0L);
    const char* certificates = std::getenv("SSL_CERT_FILE");  // otherwise the place that libcurl was built with
    if (certificates && *certificates) set(CURLOPT_CAINFO, certificates);
  }

  long status() const {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  TransferResult judge(CURLcode code) const {
    if (too_long_) {
      return {Kind::kFailed, "sends more than " + std::to_string(limits_.most_bytes) + " bytes: not the file"};
    }
    if (code == CURLE_RANGE_ERROR) return {Kind::kNoResume, "sends whole files only"};
    if (code == CURLE_OK) {
      // 416 means that there is nothing beyond the bytes we have.
      const bool complete = status() == 200 || status() == 206 || (status() == 416 && offset_ > 0);
      if (complete) return {Kind::kComplete, ""};
      return {Kind::kFailed, "HTTP " + std::to_string(status())};
    }
    const std::string problem = error_[0] ? error_.data() : curl_easy_strerror(code);
    return {received_ > 0 ? Kind::kCutOff : Kind::kFailed, problem};
  }

  // libcurl calls this from C: it must not throw.
  static size_t on_bytes(const char* bytes, size_t, size_t count, void* self) {
    return static_cast<Transfer*>(self)->append(bytes, count);
  }

  size_t append(const char* bytes, size_t count) {
    if (status() != 200 && status() != 206) return count;  // skip the text of an error page
    too_long_ = offset_ + received_ + static_cast<int64_t>(count) > limits_.most_bytes;
    if (too_long_) return 0;
    for (size_t done = 0; done < count;) {
      const auto written = write(file_, bytes + done, count - done);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) {
        write_error_ = errno;
        return 0;
      }
      done += static_cast<size_t>(written);
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
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
  std::array<char, CURL_ERROR_SIZE> error_{};
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

}  // namespace ddprun::remote
