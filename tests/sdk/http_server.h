// SPDX-License-Identifier: MIT
// http_server.py as a child of the test, ended with it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::test {

class HttpServer {
 public:
  explicit HttpServer(const std::filesystem::path& folder) : folder_(folder) {
    std::array<int, 2> input{}, output{};
    if (pipe(input.data()) != 0 || pipe(output.data()) != 0) throw std::runtime_error("no pipe");
    pid_ = fork();
    if (pid_ == 0) {
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      for (const int file : {input[0], input[1], output[0], output[1]}) close(file);
      execl(PYTHON, PYTHON, HTTP_SERVER, folder.c_str(), nullptr);
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    stdin_ = input[1];
    std::string port;
    for (char digit = 0; digit != '\n'; port += digit) {
      if (read(output[0], &digit, 1) != 1) throw std::runtime_error("the server does not start");
    }
    close(output[0]);
    port_ = std::stoi(port);
  }
  ~HttpServer() {
    close(stdin_);
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The address whose files come with this fault.
  std::string mirror(const std::string& mode) const {
    return "http://127.0.0.1:" + std::to_string(port_) + "/" + mode + "/";
  }

  // "mode name first_byte" of each request so far.
  std::vector<std::string> requests() const {
    std::ifstream log(folder_ / "requests.log");
    std::vector<std::string> lines;
    for (std::string line; std::getline(log, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
  int stdin_ = -1;
  int port_ = 0;
};

}  // namespace ddprun::test
