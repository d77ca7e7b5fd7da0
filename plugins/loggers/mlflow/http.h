// SPDX-License-Identifier: MIT
// Requests to one server, one after the other over one connection.
#pragma once

#include "curl_handle.h"
#include "settings.h"

#include <curl/curl.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

namespace ddprun::mlflow {

struct HttpAnswer {
  long status = 0;               // 0 if no answer came
  std::string body;              // its first bytes
  std::string problem;           // why none came
  std::string redirect;          // where the server redirects us; not followed, since requests carry a password
  long retry_after_seconds = 0;  // what the server asks for
};

class Http {
 public:
  // Each request ends soon after `given_up` becomes true. Both arguments must outlive this.
  Http(const Settings& settings, const std::atomic<bool>& given_up);
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // `path` follows the server's address.
  HttpAnswer get(const std::string& path);
  HttpAnswer post(const std::string& path, const std::string& json);
  HttpAnswer put(const std::string& path, const std::filesystem::path& file);

  // Escapes one component of a path, or a value of a query.
  std::string escaped(const std::string& text);

 private:
  void set_up(const std::string& path, const char* header);
  void set_credentials();
  HttpAnswer perform();
  static size_t on_bytes(const char* bytes, size_t, size_t count, void* answer);
  static int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  const Settings& settings_;
  const std::atomic<bool>& given_up_;
  CurlHandle curl_;
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers_;
};

}  // namespace ddprun::mlflow
