// SPDX-License-Identifier: MIT
#include "http.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace ddprun::mlflow {
namespace {

constexpr size_t kMostBodyBytes = 1 << 20;
constexpr long kMostConnectSeconds = 10;

}  // namespace

Http::Http(const Settings& settings, const std::atomic<bool>& given_up)
    : settings_(settings), given_up_(given_up), headers_(nullptr, curl_slist_free_all) {}

HttpAnswer Http::get(const std::string& path) {
  set_up(path, "Accept: application/json");
  return perform();
}

HttpAnswer Http::post(const std::string& path, const std::string& json) {
  set_up(path, "Content-Type: application/json");
  curl_.set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(json.size()));
  curl_.set(CURLOPT_POSTFIELDS, json.c_str());
  return perform();
}

// A large file may take its time, as long as it makes progress.
HttpAnswer Http::put(const std::string& path, const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rbe"), std::fclose);
  if (!stream) throw std::runtime_error(file.string() + " cannot be read");
  set_up(path, "Content-Type: application/octet-stream");
  curl_.set(CURLOPT_UPLOAD, 1L);
  curl_.set(CURLOPT_READDATA, stream.get());
  curl_.set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(std::filesystem::file_size(file)));
  curl_.set(CURLOPT_TIMEOUT, 0L);
  curl_.set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_.set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings_.timeout_seconds));
  return perform();
}

std::string Http::escaped(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> result(
      curl_easy_escape(curl_.get(), text.data(), static_cast<int>(text.size())), curl_free);
  return result ? result.get() : "";
}

void Http::set_up(const std::string& path, const char* header) {
  const auto patience = static_cast<long>(settings_.timeout_seconds);
  curl_.begin(settings_.uri + path, std::min(kMostConnectSeconds, patience));
  headers_.reset(curl_slist_append(nullptr, header));
  curl_slist_append(headers_.get(), "Expect:");  // otherwise libcurl first asks whether the server wants the body
  curl_.set(CURLOPT_HTTPHEADER, headers_.get());
  curl_.set(CURLOPT_TIMEOUT, patience);
  curl_.set(CURLOPT_WRITEFUNCTION, &Http::on_bytes);
  curl_.set(CURLOPT_XFERINFOFUNCTION, &Http::on_progress);
  curl_.set(CURLOPT_XFERINFODATA, this);
  set_credentials();
}

// User name and password take precedence over a token, as in MLflow's clients.
void Http::set_credentials() {
  const auto& credentials = settings_.credentials;
  if (!credentials.username.empty() && !credentials.password.empty()) {
    curl_.set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_.set(CURLOPT_USERNAME, credentials.username.c_str());
    curl_.set(CURLOPT_PASSWORD, credentials.password.c_str());
  } else if (!credentials.token.empty()) {
    curl_.set(CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_.set(CURLOPT_XOAUTH2_BEARER, credentials.token.c_str());
  }
  if (!credentials.verify_tls) {
    curl_.set(CURLOPT_SSL_VERIFYPEER, 0L);
    curl_.set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!credentials.certificates.empty()) curl_.set(CURLOPT_CAINFO, credentials.certificates.c_str());
}

HttpAnswer Http::perform() {
  HttpAnswer answer;
  curl_.set(CURLOPT_WRITEDATA, &answer);
  if (const CURLcode code = curl_.perform(); code != CURLE_OK) {
    answer.problem = curl_.problem(code);
    return answer;
  }
  answer.status = curl_.status();
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
