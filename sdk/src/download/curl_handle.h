// SPDX-License-Identifier: MIT
// A handle of libcurl with what all requests of ddprun have in common.
#pragma once

#include <ddprun/version.h>

#include <curl/curl.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

namespace ddprun {

// Sends requests one after the other, over one connection where the server is the same. Used by one thread.
class CurlHandle {
 public:
  CurlHandle() : curl_(curl_easy_init(), curl_easy_cleanup) {
    if (!curl_) throw std::runtime_error("libcurl cannot start");
  }

  CURL* get() const { return curl_.get(); }

  template <class T>
  void set(CURLoption option, T value) {
    const auto code = curl_easy_setopt(curl_.get(), option, value);
    if (code != CURLE_OK) throw std::runtime_error(std::string("libcurl: ") + curl_easy_strerror(code));
  }

  // Forgets what was set, and sets what is common. The connection stays.
  void begin(const std::string& url, long connect_seconds) {
    curl_easy_reset(curl_.get());
    error_[0] = '\0';
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_USERAGENT, "ddprun/" DDPRUN_VERSION);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, connect_seconds);
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(CURLOPT_NOPROGRESS, 0L);
  }

  CURLcode perform() { return curl_easy_perform(curl_.get()); }

  // Returns why the request failed with this code.
  std::string problem(CURLcode code) const { return error_[0] ? error_.data() : curl_easy_strerror(code); }

  // Returns the status of the answer; 0 if none came.
  long status() const {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

 private:
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
  std::array<char, CURL_ERROR_SIZE> error_{};
};

}  // namespace ddprun
