// SPDX-License-Identifier: MIT
#include "http.h"

#include <ddprun/version.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace ddprun::mlflow {
namespace {

constexpr size_t kMostBodyBytes = 1 << 20;
constexpr long kMostConnectSeconds = 10;

}  // namespace

Http::Http(const Settings& settings, const std::atomic<bool>& given_up)
    : settings_(settings),
      given_up_(given_up),
      curl_(curl_easy_init(), curl_easy_cleanup),
      headers_(nullptr, curl_slist_free_all) {
  if (!curl_) throw std::runtime_error("libcurl cannot start");
}

HttpAnswer Http::get(const std::string& path) {
  set_up(path, "Accept: application/json");
  return perform();
}

HttpAnswer Http::post(const std::string& path, const std::string& json) {
  set_up(path, "Content-Type: application/json");
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  set(CURLOPT_POSTFIELDS, json.c_str());
  return perform();
}

// A large file may take its time, as long as it makes progress.
HttpAnswer Http::put(const std::string& path, const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rbe"), std::fclose);
  if (!stream) throw std::runtime_error(file.string() + " cannot be read");
  set_up(path, "Content-Type: application/octet-stream");
  set(CURLOPT_UPLOAD, 1L);
  set(CURLOPT_READDATA, stream.get());
  set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(std::filesystem::file_size(file)));
  set(CURLOPT_TIMEOUT, 0L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_.timeout_seconds));
  return perform();
}

std::string Http::escaped(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> result(
      curl_easy_escape(curl_.get(), text.data(), static_cast<int>(text.size())), curl_free);
  return result ? result.get() : "";
}

template <class T>
void Http::set(CURLoption option, T value) {
  const auto code = curl_easy_setopt(curl_.get(), option, value);
  if (code != CURLE_OK) throw std::runtime_error(std::string("libcurl: ") + curl_easy_strerror(code));
}

void Http::set_up(const std::string& path, const char* header) {
  curl_easy_reset(curl_.get());  // keeps the connection
  headers_.reset(curl_slist_append(nullptr, header));
  curl_slist_append(headers_.get(), "Expect:");  // otherwise libcurl first asks whether the server wants the body
  set(CURLOPT_HTTPHEADER, headers_.get());
  set(CURLOPT_URL, (settings_.uri + path).c_str());
  set(CURLOPT_USERAGENT, "ddprun/" DDPRUN_VERSION);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, std::min(kMostConnectSeconds, static_cast<long>(settings_.timeout_seconds)));
  set(CURLOPT_TIMEOUT, static_cast<long>(settings_.timeout_seconds));
  set(CURLOPT_ERRORBUFFER, error_.data());
  set(CURLOPT_WRITEFUNCTION, &Http::on_bytes);
  set(CURLOPT_XFERINFOFUNCTION, &Http::on_progress);
  set(CURLOPT_XFERINFODATA, this);
  set(CURLOPT_NOPROGRESS, 0L);
  set_credentials();
}

// User name and password take precedence over a token, as in MLflow's clients.
void Http::set_credentials() {
  const auto& credentials = settings_.credentials;
  if (!credentials.username.empty() && !credentials.password.empty()) {
    set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    set(CURLOPT_USERNAME, credentials.username.c_str());
    set(CURLOPT_PASSWORD, credentials.password.c_str());
  } else if (!credentials.token.empty()) {
    set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    set(CURLOPT_XOAUTH2_BEARER, credentials.token.c_str());
  }
  if (!credentials.verify_tls) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!credentials.certificates.empty()) set(CURLOPT_CAINFO, credentials.certificates.c_str());
}

HttpAnswer Http::perform() {
  HttpAnswer answer;
  set(CURLOPT_WRITEDATA, &answer);
  error_[0] = '\0';
  const CURLcode code = curl_easy_perform(curl_.get());
  if (code != CURLE_OK) {
    answer.problem = error_[0] ? error_.data() : curl_easy_strerror(code);
    return answer;
  }
  curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &answer.status);
  curl_off_t seconds = 0;
  if (curl_easy_getinfo(curl_.get(), CURLINFO_RETRY_AFTER, &seconds) == CURLE_OK)
    answer.retry_after_seconds = static_cast<long>(seconds);
  char* redirect = nullptr;
  if (curl_easy_getinfo(curl_.get(), CURLINFO_REDIRECT_URL, &redirect) == CURLE_OK && redirect)
    answer.redirect = redirect;
  return answer;
}

// libcurl calls this from C: it must not throw.
size_t Http::on_bytes(const char* bytes, size_t, size_t count, void* answer) {
  auto& body = static_cast<HttpAnswer*>(answer)->body;
  try {
    body.append(bytes, std::min(count, kMostBodyBytes - body.size()));
    return count;
  } catch (...) {
    return 0;
  }
}

int Http::on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Http*>(self)->given_up_ ? 1 : 0;
}

}  // namespace ddprun::mlflow
