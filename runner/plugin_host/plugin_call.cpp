// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_call.h"

#include "base/communication_error.h"
#include "base/log.h"

#include <c10/util/Exception.h>

#include <new>

namespace ddprun {
namespace {

[[noreturn]] void fail(const Hook& hook, const std::string& what) {
  throw PluginFailure({hook.section, log::masked(std::string(hook.name) + "() threw: " + what)});
}

}  // namespace

void rethrow_from(const Hook& hook) try { throw; } catch (const CommunicationError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw;
} catch (const c10::OutOfMemoryError&) {
  throw;
} catch (const PluginMistake&) {  // thrown by a hook within this one
  throw;
} catch (const PluginFailure&) {
  throw;
} catch (const UserError& error) {
  throw PluginMistake({hook.section, log::masked(error.what())});
} catch (const c10::Error& error) {
  fail(hook, error.what_without_backtrace());
} catch (const std::exception& error) {
  fail(hook, error.what());
} catch (...) {
  fail(hook, "something that is not a std::exception");
}

}  // namespace ddprun
